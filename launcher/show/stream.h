/* stream.h - splitting the stdout or stderr of one rank into lines and states.
 *
 * Text that ends with '\n' is a line. Text that ends with '\r' is a state, for example a progress bar: a terminal
 * redraws it in place; elsewhere, the last state of each second becomes a line. Text that has not ended is shown after
 * 200 ms; as JSON, only after it has ended. If other ranks print so often that they would break the unfinished line, it
 * waits up to five seconds for its end. */
#ifndef CL_STREAM_H
#define CL_STREAM_H

#include "show/collapse.h"

enum { CL_STREAM_LINE_BYTES = 64 << 10 };

typedef struct {
    cl_collapse *collapse; /* NULL: nothing of this stream is shown */
    cl_speaker *speaker;
    int which;  /* 0: stdout, 1: stderr */
    char *line; /* text that has not ended yet */
    size_t length, capacity;
    bool returned;    /* the last byte was '\r': the text is a state (a progress line), unless '\n' follows */
    bool redraws;     /* a '\r' came before this text */
    int64_t show_at;  /* time when unfinished text is shown; INT64_MAX: it has been shown, or there is none */
    int64_t patience; /* time after which unfinished text is shown even if another line would break it */
    char state[CL_CONSOLE_STATE_BYTES];
    size_t state_length;
    int64_t state_at;      /* not on a terminal: time when the state becomes a line; INT64_MAX: there is no state */
    int64_t state_printed; /* time when a state last became a line */
    bool line_printed;     /* true: the state has not changed since it last became a line */
} cl_text_stream;

void cl_stream_open(cl_text_stream *stream, cl_collapse *collapse, cl_speaker *speaker, int which);
void cl_stream_close(cl_text_stream *stream);

/* Processes the next bytes of the stream, in any portions. */
void cl_stream_feed(cl_text_stream *stream, const char *bytes, size_t count, int64_t now);
void cl_stream_tick(cl_text_stream *stream, int64_t now); /* shows what is due */
int64_t cl_stream_due(const cl_text_stream *stream);
void cl_stream_end(cl_text_stream *stream, int64_t now); /* no more bytes follow: unfinished text becomes a line */

#endif
