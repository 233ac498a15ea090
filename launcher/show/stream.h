/* stream.h - one output of one rank: bytes into lines and states.
 *
 * Text that ends in '\n' is a line. Text that ends in '\r' is a state: a terminal redraws it in place, elsewhere the
 * last state of each second becomes a line. Text without an end is shown after 200 ms (as JSON: once it has one); where
 * others print all the time, and would break it, it waits up to five seconds for its end. */
#ifndef CS_LAUNCHER_STREAM_H
#define CS_LAUNCHER_STREAM_H

#include "show/collapse.h"

enum { CS_STREAM_LINE_BYTES = 64 << 10 };

typedef struct {
    cs_collapse *collapse; /* NULL: nothing of it is shown */
    cs_speaker  *speaker;
    int          which; /* 0: stdout, 1: stderr */
    char        *line;  /* what has no end yet */
    size_t       length, capacity;
    bool         returned; /* the last byte was '\r': the line is a state, unless '\n' follows */
    bool         redraws;  /* a '\r' came before this text */
    int64_t      show_at;  /* when unfinished text is shown; INT64_MAX: it is, or there is none */
    int64_t      patience; /* until when that may be put off */
    char         state[CS_CONSOLE_STATE_BYTES];
    size_t       state_length;
    int64_t      state_at;      /* off a terminal: when the state becomes a line; INT64_MAX: there is none */
    int64_t      state_printed; /* when one last did */
    bool         line_printed;  /* and the line holds nothing newer */
} cs_text_stream;

void cs_stream_open(cs_text_stream *stream, cs_collapse *collapse, cs_speaker *speaker, int which);
void cs_stream_close(cs_text_stream *stream);

void    cs_stream_feed(cs_text_stream *stream, const char *bytes, size_t count, int64_t now);
void    cs_stream_tick(cs_text_stream *stream, int64_t now); /* shows what is due */
int64_t cs_stream_due(const cs_text_stream *stream);
void    cs_stream_end(cs_text_stream *stream, int64_t now); /* nothing more comes: what is unfinished is a line */

#endif
