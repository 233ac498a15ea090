/* stream.h - one output of one rank: bytes into lines and states.
 *
 * Text that ends in '\n' is a line. Text that ends in '\r' is a state: a terminal redraws it in place, elsewhere the
 * last state of each second becomes a line. Text without an end is shown after 200 ms (as JSON: once it has one); where
 * others print all the time, and would break it, it waits up to five seconds for its end. */
#ifndef CL_STREAM_H
#define CL_STREAM_H

#include "show/collapse.h"

enum { CL_STREAM_LINE_BYTES = 64 << 10 };

typedef struct {
    cl_collapse *collapse; /* NULL: nothing of it is shown */
    cl_speaker *speaker;
    int which;  /* 0: stdout, 1: stderr */
    char *line; /* what has no end yet */
    size_t length, capacity;
    bool returned;    /* the last byte was '\r': the line is a state, unless '\n' follows */
    bool redraws;     /* a '\r' came before this text */
    int64_t show_at;  /* when unfinished text is shown; INT64_MAX: it is, or there is none */
    int64_t patience; /* until when that may be put off */
    char state[CL_CONSOLE_STATE_BYTES];
    size_t state_length;
    int64_t state_at;      /* off a terminal: when the state becomes a line; INT64_MAX: there is none */
    int64_t state_printed; /* when one last did */
    bool line_printed;     /* and the line holds nothing newer */
} cl_text_stream;

void cl_stream_open(cl_text_stream *stream, cl_collapse *collapse, cl_speaker *speaker, int which);
void cl_stream_close(cl_text_stream *stream);

void cl_stream_feed(cl_text_stream *stream, const char *bytes, size_t count, int64_t now);
void cl_stream_tick(cl_text_stream *stream, int64_t now); /* shows what is due */
int64_t cl_stream_due(const cl_text_stream *stream);
void cl_stream_end(cl_text_stream *stream, int64_t now); /* nothing more comes: what is unfinished is a line */

#endif
