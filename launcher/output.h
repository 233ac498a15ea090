/* output.h - what ranks print, line by line, to the consoles and to a file each.
 *
 * stdout goes to stdout, stderr to stderr. A line is put out whole, behind its prefix; one longer than
 * 64 KiB, or one that another had to interrupt, is broken by a '\' at its end. Files get every byte as it
 * came, before the consoles do. */
#ifndef CS_LAUNCHER_OUTPUT_H
#define CS_LAUNCHER_OUTPUT_H

#include "console.h"
#include "ranks.h"
#include "stream.h"

#include <poll.h>

typedef struct {
    cs_console  consoles[2]; /* one when stdout and stderr are the same file */
    int         console_count;
    cs_console *console_of[2];
    cs_stream  *streams; /* rank * 2 + 0 for stdout, + 1 for stderr */
    int         stream_count;
    char        log_dir[PATH_MAX]; /* with the attempt; "" without files */
} cs_output;

/* Opens consoles and log files. 0, or CS_CODE_SYSTEM, CS_CODE_LOG with a sentence. */
int  cs_output_open(cs_output *output, const cs_job *job, int64_t now);
void cs_output_close(cs_output *output);

void cs_output_attach(cs_output *output, int rank, const int pipes[2]);

/* The launcher's own line, to stderr. */
void cs_output_say(cs_output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What to poll: at most stream_count + 2 entries; returns how many. */
int cs_output_poll(const cs_output *output, struct pollfd *polled);

/* Reads what is there, shows what is due, writes what goes. Returns whether anything was read. */
bool cs_output_serve(cs_output *output, int64_t now);

/* When cs_output_serve has something to do without input; INT64_MAX: never. */
int64_t cs_output_due(const cs_output *output);

bool cs_output_waits(const cs_output *output); /* for a console to take what is queued */
void cs_output_finish(cs_output *output);      /* the ranks have ended: unfinished lines are lines now */

/* Says the last lines of a rank's stderr, each behind `prefix`. Returns how many. */
int cs_output_say_tail(cs_output *output, int rank, const char *prefix, int most);

#endif
