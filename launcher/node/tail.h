/* tail.h - keeps the last bytes of an output stream in a ring buffer, for the message about a failure. */
#ifndef CL_TAIL_H
#define CL_TAIL_H

#include <stddef.h>
#include <stdint.h>

enum { CL_TAIL_BYTES = 16 << 10 };

typedef struct {
    char ring[CL_TAIL_BYTES];
    uint64_t count; /* number of bytes appended so far */
} cl_tail;

/* Appends bytes of the output stream. */
void cl_tail_feed(cl_tail *tail, const char *bytes, size_t count);

/* Copies the last lines of the stream, at most `lines`, and returns their length in bytes. */
size_t cl_tail_copy(const cl_tail *tail, int lines, char text[CL_TAIL_BYTES]);

#endif
