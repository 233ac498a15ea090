/* output.h - what ranks print, line by line, on the consoles.
 *
 * stdout goes to stdout, stderr to stderr. A line is put out whole, behind its prefix; one longer than 64 KiB, or one
 * that another had to interrupt, is broken by a '\' at its end. The agents have written every byte to files before it
 * comes here. A console that stands still never holds up a rank: see has_room. */
#ifndef CL_OUTPUT_H
#define CL_OUTPUT_H

#include "show/collapse.h"
#include "show/console.h"
#include "plan/hostplan.h"
#include "show/label.h"
#include "show/stream.h"

#include <poll.h>

typedef struct {
    const cl_plan *plan;
    cl_label_style style;
    cl_console consoles[2]; /* one when stdout and stderr are the same file */
    cl_collapse *collapses; /* one a console */
    int console_count;
    cl_console *console_of[2];
    cl_speaker *speakers;    /* one a rank */
    cl_text_stream *streams; /* rank * 2 + 0 for stdout, + 1 for stderr */
    int stream_count;
    const char *log_dir; /* said where lines were dropped; NULL: none */
} cl_output;

/* Opens the consoles and one stream a rank and output. 0, CL_CODE_USAGE (--console, --prefix), CL_CODE_SYSTEM. */
int cl_output_open(cl_output *output, const cl_plan *plan, int64_t now);
int cl_output_rank(cl_output *output); /* another attempt: the plan's ranks have changed. 0, CL_CODE_SYSTEM */
void cl_output_close(cl_output *output);

/* Bytes of a rank's stdout (which 0) or stderr (1), as they came. */
void cl_output_feed(cl_output *output, int rank, int which, const char *bytes, size_t count, int64_t now);

/* Whether what has been fed is shown well enough that an agent may be credited for it. True again, and lines are
 * dropped and counted, once a console has taken nothing for five seconds. */
bool cl_output_has_room(const cl_output *output);

/* The launcher's own lines, to stderr, behind whatever ranks have said so far. */
void cl_output_say(cl_output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

int cl_output_poll(const cl_output *output, struct pollfd *polled); /* at most 2 entries; returns how many */
void cl_output_serve(cl_output *output, int64_t now);               /* shows what is due, writes what goes  */
int64_t cl_output_due(const cl_output *output); /* when serve has something to do without input; INT64_MAX: never */
bool cl_output_waits(const cl_output *output);  /* for a console to take what is queued */
void cl_output_finish(cl_output *output);       /* nothing more comes: unfinished lines are lines now */
void cl_output_drain(cl_output *output, int signal_fd); /* waits until all is taken, or a signal says not to */

/* How wide the terminal is that output is shown on; 0 when it is none that can redraw a line. */
int cl_output_columns(void);

#endif
