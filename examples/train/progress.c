/* progress.c - one line that says how far the training is, drawn over and over on a terminal. */
#include "train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Lines of the engine's own, which a line that is drawn over and over would swallow. */
static bool engine_talks(const cs_config *config)
{
    return cs_config_get_int(config, "steps_per_print") > 0 || cs_config_get_bool(config, "wall_clock_breakdown") ||
           cs_config_get_bool(config, "memory_breakdown") || cs_config_get_bool(config, "comms_logger.verbose");
}

void progress_open(progress *bar, const cs_config *config)
{
    const char *window = getenv("CSPEED_TERMINAL"); /* the launcher's, whose pipe hides the terminal */
    bar->terminal      = (window ? window[0] == '1' : isatty(STDOUT_FILENO)) && !engine_talks(config);
}

void progress_end(progress *bar)
{
    if (bar->open)
        putchar('\n');
    bar->open = false;
}

/* Under the launcher standard output is a pipe, and COLUMNS says how wide the terminal behind it is. */
static int terminal_width(void)
{
    struct winsize window  = { 0 };
    const char    *columns = getenv("COLUMNS");
    if (columns && atoi(columns) > 1)
        return atoi(columns);
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 ? window.ws_col : 80;
}

void progress_draw(progress *bar, const cs_metrics *m, int64_t steps, double seconds_a_step)
{
    bool last = m->step == steps;
    if (!is_rank_zero() || (now() - bar->last < (bar->terminal ? 0.1 : 2) && !last && m->step != 1))
        return;
    bar->last = now();
    int64_t left   = (int64_t)((double)(steps - m->step) * seconds_a_step);
    char   *line   = text("step %" PRId64 "/%" PRId64 "  loss %.4f  lr %.2e  norm %.3f  %.0f tok/s  %.0f%% of peak  "
                          "ETA %" PRId64 ":%02" PRId64, m->step, steps, m->loss, m->learning_rate, m->grad_norm,
                          m->tokens_per_second, 100 * m->peak_share, left / 60, left % 60);
    if (bar->terminal) /* a line that wraps could not be drawn over */
        printf("\r%.*s\033[K", terminal_width() - 1, line);
    else
        puts(line);
    bar->open = bar->terminal;
    fflush(stdout);
    free(line);
}
