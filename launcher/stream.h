/* stream.h - one output of one rank: bytes into lines and states.
 *
 * Text that ends in '\n' is a line. Text that ends in '\r' is a state: a terminal redraws it in place,
 * elsewhere the last state of each second becomes a line. Text without an end is shown after 200 ms. */
#ifndef CS_LAUNCHER_STREAM_H
#define CS_LAUNCHER_STREAM_H

#include "console.h"

enum { CS_STREAM_LINE_BYTES = 64 << 10, CS_STREAM_TAIL_BYTES = 16 << 10, CS_STREAM_PREFIX_BYTES = 64 };

typedef struct cs_stream {
    int         pipe, log; /* -1: none, or closed */
    cs_console *console;
    char        prefix[CS_STREAM_PREFIX_BYTES];
    char        line[CS_STREAM_LINE_BYTES]; /* what has no end yet */
    size_t      length;
    bool        returned; /* the last byte was '\r': the line is a state, unless '\n' follows */
    bool        redraws;  /* a '\r' came before this text */
    int64_t     show_at;  /* when unfinished text is shown; INT64_MAX: it is, or there is none */
    char        state[CS_CONSOLE_STATE_BYTES];
    size_t      state_length;
    int64_t     state_at;      /* off a terminal: when the state becomes a line; INT64_MAX: there is none */
    int64_t     state_printed; /* when one last did */
    bool        line_printed;  /* and the line holds nothing newer */
    char        tail[CS_STREAM_TAIL_BYTES];
    uint64_t    tail_count; /* bytes so far; the ring keeps the last */
} cs_stream;

void cs_stream_open(cs_stream *stream, cs_console *console);
void cs_stream_feed(cs_stream *stream, const char *bytes, size_t count, int64_t now);
void cs_stream_tick(cs_stream *stream, int64_t now); /* shows what is due */
void cs_stream_end(cs_stream *stream, int64_t now);  /* nothing more comes: what is unfinished is a line */

/* Copies the last `most` lines that went through, and returns their length. */
size_t cs_stream_tail(const cs_stream *stream, int most, char text[CS_STREAM_TAIL_BYTES + 1]);

#endif
