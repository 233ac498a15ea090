/* progress.c - the progress line, which is redrawn in place on a terminal. */
#include "train.h"

#include "base/progress.h"
#include "base/terminal.h"

#include <inttypes.h>
#include <unistd.h>

/* Returns true if the engine prints lines of its own, which a redrawn line would overwrite. */
static bool engine_talks(const cs_config *config)
{
    return cs_config_get_int(config, "steps_per_print") > 0 || cs_config_get_bool(config, "wall_clock_breakdown") ||
           cs_config_get_bool(config, "memory_breakdown") || cs_config_get_bool(config, "comms_logger.verbose");
}

void progress_open(progress *bar, const cs_config *config)
{
    bar->terminal = ce_terminal_shows(STDOUT_FILENO) && !engine_talks(config);
}

enum { PARTS = 9, PART_BYTES = 48, LINE_BYTES = PARTS * (PART_BYTES + 2) };

/* Joins the parts that fit into `capacity` columns, separated by two spaces. If the line is too narrow, the least
 * important parts are omitted first. The step, the loss and the remaining time are never omitted; if the line is too
 * narrow for these three parts, it is truncated. */
static void join_parts(char parts[PARTS][PART_BYTES], int capacity, char line[LINE_BYTES])
{
    /* the order in which parts are omitted: share of peak, norm, epoch, elapsed time, lr, tok/s */
    static const int dispensable[] = { 6, 4, 1, 7, 3, 5 };
    int dropped = 0, used;
    for (;;) {
        used = 0;
        for (int i = 0; i < PARTS; i++)
            if (*parts[i])
                used += snprintf(line + used, (size_t)(LINE_BYTES - used), "%s%s", used ? "  " : "", parts[i]);
        if (used <= capacity || dropped == (int)(sizeof dispensable / sizeof *dispensable))
            break;
        *parts[dispensable[dropped++]] = '\0';
    }
    line[used < capacity ? used : capacity] = '\0';
}

void progress_draw(progress *bar, const cs_metrics *m, int64_t steps, double seconds_a_step, double elapsed)
{
    bool last = m->step == steps;
    /* the rate of this step, as if the step had taken the mean time, so that rate and remaining time agree */
    double share = m->step_seconds / seconds_a_step;
    if (!is_rank_zero() || (ce_clock_seconds() - bar->last < (bar->terminal ? 0.1 : 2) && !last && m->step != 1))
        return;
    bar->last = ce_clock_seconds();
    char parts[PARTS][PART_BYTES] = { "" }, line[LINE_BYTES], time[CE_PROGRESS_TIME_BYTES];
    snprintf(parts[0], PART_BYTES, "step %" PRId64 "/%" PRId64, m->step, steps);
    snprintf(parts[1], PART_BYTES, "epoch %.2f", m->epoch);
    snprintf(parts[2], PART_BYTES, "loss %.4f", m->loss);
    snprintf(parts[3], PART_BYTES, "lr %.2e", m->learning_rate);
    snprintf(parts[4], PART_BYTES, "norm %.3f", m->grad_norm);
    snprintf(parts[5], PART_BYTES, "%.0f tok/s", share * m->tokens_per_second);
    snprintf(parts[6], PART_BYTES, "%.0f%% of peak", 100 * share * m->peak_share);
    snprintf(parts[7], PART_BYTES, "time %s", ce_progress_time(time, elapsed));
    snprintf(parts[8], PART_BYTES, "ETA %s", ce_progress_time(time, (double)(steps - m->step) * seconds_a_step));
    join_parts(parts, bar->terminal ? ce_terminal_columns(STDOUT_FILENO) - 1 : LINE_BYTES - 1, line);
    if (bar->terminal)
        ce_progress_draw(stdout, line);
    else
        say("%s", line);
}
