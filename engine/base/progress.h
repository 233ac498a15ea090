/* progress.h - the progress of long work: one line on a terminal, redrawn in place.
 *
 *     ce_progress load;
 *     ce_progress_begin(&load, "loading", NULL, bytes);
 *     ce_progress_add(&load, some);
 *     ce_progress_end(&load);
 *
 * The line goes to stderr: "loading   43 %  12.3 of 28.6 MB  8.1 MB/s  0:12 left". It appears after one second, so that
 * short work shows no line. Where stderr is not shown on a terminal, and on every rank but 0, nothing is written. */
#ifndef CE_BASE_PROGRESS_H
#define CE_BASE_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The progress of one piece of work. The fields are private. */
typedef struct {
    const char *what, *unit;
    int64_t total;
    _Atomic int64_t done;
    atomic_flag busy; /* set while a thread draws the line; only that thread may use the fields below */
    bool wanted, shown;
    double started, drawn; /* seconds */
} ce_progress;

/* Begins work of `total` units. `what` is the name of the work, and `unit` the plural name of its units ("batches"). If
 * `unit` is NULL, the units are bytes and are shown as MB. Both texts must stay valid until ce_progress_end. */
void ce_progress_begin(ce_progress *progress, const char *what, const char *unit, int64_t total);
/* Reports that `amount` more units are done, and tells the launcher's watchdog that this rank makes progress. Several
 * threads may call it at the same time. */
void ce_progress_add(ce_progress *progress, int64_t amount);
/* Ends the progress line if there is one. The work need not be complete. */
void ce_progress_end(ce_progress *progress);

/* The next two functions are for lines that are redrawn in place but show no progress of work. ce_progress_draw
 * replaces the line that is shown on stdout or stderr, and cuts the new line to the terminal's width. ce_progress_break
 * ends the line that is shown, if there is one. Code that prints other text must call ce_progress_break first, as
 * ce_log and ce_say do. */
void ce_progress_draw(FILE *file, const char *line);
void ce_progress_break(void);

enum { CE_PROGRESS_TIME_BYTES = 32 };
/* Writes a duration as "0:07", "12:34" or "1:02:03". */
const char *ce_progress_time(char text[CE_PROGRESS_TIME_BYTES], double seconds);

#endif
