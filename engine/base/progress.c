/* progress.c - the progress of long work: one line on a terminal, redrawn in place. */
#include "base/progress.h"
#include "base/beat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/terminal.h"

#include <unistd.h>

enum { LINE_BYTES = 256 };

static const double first_after = 1, redrawn_after = 0.1; /* seconds */

/* ---- one line on the terminal ---- */

static atomic_int shown_on; /* the descriptor that shows an unfinished line; 0 if none does */

void ce_progress_draw(FILE *file, const char *line)
{
    int fd = fileno(file), before = atomic_load(&shown_on);
    if (before && before != fd)
        ce_progress_break();
    /* The line is cut, because a line that wraps cannot be redrawn in place. */
    fprintf(file, "\r%.*s\033[K", ce_terminal_columns(fd) - 1, line);
    fflush(file);
    atomic_store(&shown_on, fd);
}

void ce_progress_break(void)
{
    int fd = atomic_exchange(&shown_on, 0);
    FILE *file = fd == STDOUT_FILENO ? stdout : stderr;
    if (!fd)
        return;
    fputc('\n', file);
    fflush(file);
}

const char *ce_progress_time(char text[CE_PROGRESS_TIME_BYTES], double seconds)
{
    long long whole = seconds < 1e9 ? (long long)(seconds + 0.5) : 1000000000;
    if (whole >= 3600)
        snprintf(text, CE_PROGRESS_TIME_BYTES, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(text, CE_PROGRESS_TIME_BYTES, "%lld:%02lld", whole / 60, whole % 60);
    return text;
}

/* ---- the progress of work ---- */

void ce_progress_begin(ce_progress *progress, const char *what, const char *unit, int64_t total)
{
    double now = ce_clock_seconds();
    *progress = (ce_progress){ .what = what, .unit = unit, .total = total, .started = now };
    atomic_flag_clear(&progress->busy);
    progress->drawn = now + first_after - redrawn_after;
    progress->wanted = ce_log_rank() == 0 && ce_terminal_shows(STDERR_FILENO);
}

static void draw(ce_progress *progress, int64_t done, double now)
{
    char line[LINE_BYTES], time[CE_PROGRESS_TIME_BYTES];
    const char *unit = progress->unit ? progress->unit : "MB";
    double scale = progress->unit ? 1 : 1e-6, share = progress->total > 0 ? (double)done / (double)progress->total : 1;
    double seconds = now - progress->started, rate = seconds > 0 ? (double)done / seconds : 0;
    bool complete = done >= progress->total;
    ce_progress_time(time, complete ? seconds : rate > 0 ? (double)(progress->total - done) / rate : 0);
    snprintf(line, sizeof line, "%s  %3.0f %%  %.*f of %.*f %s  %.1f %s/s  %s%s%s", progress->what, 100 * share,
             progress->unit ? 0 : 1, scale * (double)done, progress->unit ? 0 : 1, scale * (double)progress->total,
             unit, scale * rate, unit, complete ? "in " : "", time, complete ? "" : " left");
    ce_progress_draw(stderr, line);
    progress->shown = true;
}

void ce_progress_add(ce_progress *progress, int64_t amount)
{
    int64_t done = atomic_fetch_add(&progress->done, amount) + amount;
    if (atomic_flag_test_and_set(&progress->busy))
        return;
    double now = ce_clock_seconds();
    if (now - progress->drawn >= redrawn_after) {
        progress->drawn = now;
        ce_beat_touch();
        if (progress->wanted)
            draw(progress, done, now);
    }
    atomic_flag_clear(&progress->busy);
}

void ce_progress_end(ce_progress *progress)
{
    if (!progress->shown)
        return;
    draw(progress, atomic_load(&progress->done), ce_clock_seconds());
    ce_progress_break();
}
