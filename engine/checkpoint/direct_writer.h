/* direct_writer.h - writes a new file in large aligned steps with direct I/O (O_DIRECT) where the file system allows
 * it.
 *
 * Writing is double-buffered: a thread writes one buffer to the disk while the caller fills the other. So the disk
 * works at the same time as checksums and copies.
 *
 * The head of the file is written last. Until ce_direct_writer_finish has written it, the file begins with zeros and no
 * reader accepts the file. */
#ifndef CE_CHECKPOINT_DIRECT_WRITER_H
#define CE_CHECKPOINT_DIRECT_WRITER_H

#include "checkpoint/checkpoint.h"

#include <pthread.h>

enum { CE_DIRECT_WRITER_ALIGN = 4096, CE_DIRECT_WRITER_STEP = 8 << 20 };

typedef struct {
    int descriptor;
    const char *path; /* the caller's text, for messages */
    uint8_t *buffers; /* two aligned buffers of `step` bytes each */
    int current;      /* index of the buffer that is being filled */
    size_t step, filled;
    int64_t at; /* file offset of the buffer that is being filled */

    /* True while `thread` writes the buffer that is not being filled. `sent` is the number of bytes that `thread`
     * writes from that buffer. */
    bool sending;
    pthread_t thread;
    size_t sent;
    cs_status status;
    char *why; /* message of a failed write, or NULL */
} ce_direct_writer;

/* Creates the file `path` and allocates `bytes` bytes of disk space. The text `path` must stay valid as long as the
 * writer. Data begin at offset `head_bytes`, a multiple of CE_DIRECT_WRITER_ALIGN. The caller calls
 * ce_direct_writer_close after a failure too. */
cs_status ce_direct_writer_open(ce_direct_writer *writer, const char *path, int64_t head_bytes, int64_t bytes,
                                const ce_checkpoint_writing *writing);
cs_status ce_direct_writer_write(ce_direct_writer *writer, const void *bytes, size_t count);
/* Writes the remaining data, then the head, and flushes the file to the disk. */
cs_status ce_direct_writer_finish(ce_direct_writer *writer, const void *head, size_t head_bytes);
/* Frees the buffers and closes the file; allowed after a failed open. */
void ce_direct_writer_close(ce_direct_writer *writer);

#endif
