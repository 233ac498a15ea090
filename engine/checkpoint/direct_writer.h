/* direct_writer.h - a new file written in large aligned steps, past the page cache where the file system allows.
 *
 * A step that is full goes to the disk in a thread of its own while the next one is filled: the disk does not wait for
 * checksums and copies, nor they for it.
 *
 * The head of the file is left for last: until cs_direct_writer_finish has put it there, the file begins with zeros and no
 * reader takes it. */
#ifndef CS_CHECKPOINT_DIRECT_WRITER_H
#define CS_CHECKPOINT_DIRECT_WRITER_H

#include "checkpoint/checkpoint.h"

#include <pthread.h>

enum { CS_DIRECT_WRITER_ALIGN = 4096, CS_DIRECT_WRITER_STEP = 8 << 20 };

typedef struct {
    int descriptor;
    const char *path; /* borrowed */
    uint8_t *buffers; /* two of `step` bytes, aligned */
    int turn;         /* which of them is being filled */
    size_t step, filled;
    int64_t at; /* where in the file it goes */

    bool sending; /* the other one is under way, in this thread: */
    pthread_t thread;
    size_t sent;
    cs_status status;
    char *why; /* the sentence of a failure */
} cs_direct_writer;

/* Room for `bytes` bytes is taken at once; writing begins behind `head_bytes`, a multiple of CS_DIRECT_WRITER_ALIGN. */
cs_status cs_direct_writer_open(cs_direct_writer *writer, const char *path, int64_t head_bytes, int64_t bytes,
                                const cs_checkpoint_writing *writing);
cs_status cs_direct_writer_write(cs_direct_writer *writer, const void *bytes, size_t count);
/* Writes the rest, then the head, and waits for the disk. */
cs_status cs_direct_writer_finish(cs_direct_writer *writer, const void *head, size_t head_bytes);
void cs_direct_writer_close(cs_direct_writer *writer); /* accepts the half-open */

#endif
