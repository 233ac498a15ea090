/* output.h - the output of all ranks, shown line by line on the consoles.
 *
 * The stdout of the ranks goes to stdout, their stderr to stderr. A line is printed whole, after its prefix, with two
 * exceptions: a line longer than 64 KiB is divided into parts, and an unfinished line is broken if another line must be
 * printed. A broken line continues in a later line; a '\' stands at the break. The agents write every byte to log files
 * before they send that byte to this process. A blocked console does not stop the ranks (see cl_output_has_room). */
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
    cl_console consoles[2]; /* the consoles of stdout and stderr; only the first is used if both are the same file */
    cl_collapse *collapses; /* one cl_collapse for each console */
    int console_count;
    cl_console *console_of[2];
    cl_speaker *speakers;    /* one cl_speaker for each rank */
    cl_text_stream *streams; /* the stream at index rank * 2 is the rank's stdout, at rank * 2 + 1 its stderr */
    int stream_count;
    const char *log_dir; /* the folder named in the message about dropped lines; NULL: there are no log files */
} cl_output;

/* Opens the consoles and two streams for each rank. Returns 0, CL_CODE_USAGE (an invalid --console or --prefix) or
 * CL_CODE_SYSTEM. */
int cl_output_open(cl_output *output, const cl_plan *plan, int64_t now);
/* Opens the streams again for another attempt, because the plan may then have other ranks. Returns 0 or CL_CODE_SYSTEM.
 */
int cl_output_rank(cl_output *output);
void cl_output_close(cl_output *output);

/* Processes bytes of a rank's stdout (`which` is 0) or stderr (1), in portions of any size. */
void cl_output_feed(cl_output *output, int rank, int which, const char *bytes, size_t count, int64_t now);

/* Returns true if every console has room for more output. The agents may then be told by CL_LINK_CREDIT how many bytes
 * were shown, and send more. A console counts as having room if it has accepted nothing for five seconds: the ranks
 * need not wait for it, and lines that do not fit into its queue are dropped and counted. */
bool cl_output_has_room(const cl_output *output);

/* Prints a line of the launcher itself to stderr, after everything that the ranks have printed so far. */
void cl_output_say(cl_output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* fills at most 2 entries of `polled` and returns their number */
int cl_output_poll(const cl_output *output, struct pollfd *polled);
/* shows the lines whose waiting time is over, and writes as much as the consoles accept */
void cl_output_serve(cl_output *output, int64_t now);
/* Returns the time when cl_output_serve must be called even if no input has arrived; INT64_MAX: it need not be called.
 */
int64_t cl_output_due(const cl_output *output);
bool cl_output_waits(const cl_output *output); /* returns true if a console has bytes in its queue */
/* ends the streams: no more bytes follow, so the text of an unfinished line is shown as a whole line */
void cl_output_finish(cl_output *output);
/* waits until all bytes are written, or until a signal arrives that ends the wait */
void cl_output_drain(cl_output *output, int signal_fd);

/* Returns the width, in characters, of the terminal that shows the output of the ranks. Returns 0 if neither stdout nor
 * stderr is a terminal that can redraw a line. `streams` becomes "1", "2" or "12": the descriptors that are such
 * terminals. It becomes "" if neither is. */
enum { CL_OUTPUT_STREAMS = 3 };
int cl_output_columns(const cl_output *output, char streams[CL_OUTPUT_STREAMS]);

#endif
