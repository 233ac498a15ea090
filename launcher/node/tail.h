/* tail.h - the last of what went through an output, for the words about a failure. */
#ifndef CS_LAUNCHER_TAIL_H
#define CS_LAUNCHER_TAIL_H

#include <stddef.h>
#include <stdint.h>

enum { CS_TAIL_BYTES = 16 << 10 };

typedef struct {
    char     ring[CS_TAIL_BYTES];
    uint64_t count; /* bytes so far */
} cs_tail;

void cs_tail_feed(cs_tail *tail, const char *bytes, size_t count);

/* Copies the last `lines` lines and returns their length. */
size_t cs_tail_copy(const cs_tail *tail, int lines, char text[CS_TAIL_BYTES]);

#endif
