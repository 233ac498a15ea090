/* stream.h - divides the stdout or stderr of one rank into lines and progress lines (states).
 *
 * Text that ends with '\n' is a line. On a terminal, text that ends with '\r' is a progress line, which is redrawn in
 * place. Elsewhere '\r' is a byte of the line like any other, so a file gets the bytes of the rank. Text that has no end
 * yet is unfinished. It is shown after 200 ms; while other ranks print so often that one of their lines would soon break
 * it, it waits for its end, up to five seconds. With JSON output, unfinished text always waits for its end, unless it
 * contains a '\r': it may then be progress, and becomes an object whose "broken" is true. */
#ifndef CL_STREAM_H
#define CL_STREAM_H

#include "show/collapse.h"

enum { CL_STREAM_LINE_BYTES = 64 << 10 };

typedef struct {
    cl_collapse *collapse; /* where the text goes; NULL: nothing of this stream is shown */
    cl_speaker *speaker;
    int which;  /* 0: stdout; 1: stderr */
    char *line; /* text whose end has not arrived yet */
    size_t length, capacity;
    bool returned;    /* true: the last byte was '\r', so the text is a progress line, unless '\n' follows */
    bool redraws;     /* true: the text before this text ended with '\r' */
    int64_t show_at;  /* time when the unfinished text is to be shown; INT64_MAX: no text is to be shown */
    int64_t patience; /* after this time, unfinished text is shown even if another line would break it */
} cl_text_stream;

void cl_stream_open(cl_text_stream *stream, cl_collapse *collapse, cl_speaker *speaker, int which);
void cl_stream_close(cl_text_stream *stream);

/* Processes the next bytes of the stream. The caller may split the stream into calls at any byte. */
void cl_stream_feed(cl_text_stream *stream, const char *bytes, size_t count, int64_t now);
void cl_stream_tick(cl_text_stream *stream, int64_t now); /* shows text when `show_at` or `state_at` is reached */
int64_t cl_stream_due(const cl_text_stream *stream);
/* ends the stream: no more bytes follow, so unfinished text becomes a line */
void cl_stream_end(cl_text_stream *stream, int64_t now);

#endif
