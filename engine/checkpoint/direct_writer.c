/* direct_writer.c - writes a new file in large aligned steps with direct I/O (O_DIRECT) where the file system allows
 * it. */
#include "checkpoint/direct_writer.h"
#include "base/must.h"
#include "base/thread.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cs_status create(ce_direct_writer *writer, bool buffered)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    writer->descriptor = open(writer->path, buffered ? flags : flags | O_DIRECT, 0666);
    if (writer->descriptor < 0 && !buffered &&
        errno == EINVAL) { /* some file systems create the file although they refuse O_DIRECT */
        unlink(writer->path);
        writer->descriptor = open(writer->path, flags, 0666);
    }
    if (writer->descriptor < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: creating", writer->path);
    return CS_OK;
}

static cs_status allocate_space(ce_direct_writer *writer, int64_t bytes)
{
    int result;
    do
        result = fallocate(writer->descriptor, 0, 0, bytes);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: reserving %lld bytes on the disk", writer->path,
                             (long long)bytes);
    return CS_OK;
}

cs_status ce_direct_writer_open(ce_direct_writer *writer, const char *path, int64_t head_bytes, int64_t bytes,
                                const ce_checkpoint_writing *writing)
{
    *writer = (ce_direct_writer){ .descriptor = -1, .path = path, .at = head_bytes };
    writer->step = writing->buffer_bytes ? writing->buffer_bytes : CE_DIRECT_WRITER_STEP;
    writer->buffers = aligned_alloc(CE_DIRECT_WRITER_ALIGN, 2 * writer->step);
    if (!writer->buffers)
        return ce_fail(CS_NO_MEMORY, "%s: no memory for the %zu bytes of its write buffers", path, 2 * writer->step);
    CE_TRY(create(writer, writing->buffered));
    return allocate_space(writer, bytes);
}

static bool is_direct(int descriptor)
{
    return (fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
}

/* Writes `count` bytes from the aligned address `bytes` to the file. With direct I/O `count` is rounded up to a
 * multiple of CE_DIRECT_WRITER_ALIGN, so the memory at `bytes` must have this rounded size. */
static cs_status write_at(ce_direct_writer *writer, const void *bytes, size_t count, int64_t offset)
{
    if (is_direct(writer->descriptor)) {
        size_t whole = (count + CE_DIRECT_WRITER_ALIGN - 1) / CE_DIRECT_WRITER_ALIGN * CE_DIRECT_WRITER_ALIGN;
        ssize_t done = pwrite(writer->descriptor, bytes, whole, offset);
        if (done == (ssize_t)whole)
            return CS_OK;
        if (done < 0 && errno != EINVAL && errno != EINTR)
            return ce_fail_errno(CS_IO_ERROR, errno, "%s: writing", writer->path);
        /* The direct write was refused or incomplete: it is repeated through the page cache, and so are all later
         * writes. */
        if (fcntl(writer->descriptor, F_SETFL, fcntl(writer->descriptor, F_GETFL) & ~O_DIRECT) != 0)
            return ce_fail_errno(CS_IO_ERROR, errno, "%s: turning off direct I/O", writer->path);
    }
    return ce_files_write_at(writer->descriptor, bytes, count, offset, writer->path);
}

static uint8_t *filling(const ce_direct_writer *writer)
{
    return writer->buffers + (size_t)writer->current * writer->step;
}

static void *write_buffer(void *argument)
{
    ce_direct_writer *writer = argument;
    const uint8_t *bytes = writer->buffers + (size_t)!writer->current * writer->step;
    writer->status = write_at(writer, bytes, writer->sent, writer->at - (int64_t)writer->sent);
    if (writer->status != CS_OK)
        writer->why = ce_must_copy(cs_error());
    return NULL;
}

/* Waits until the write in progress is complete and returns its status. */
static cs_status wait_for_write(ce_direct_writer *writer)
{
    if (writer->sending)
        pthread_join(writer->thread, NULL);
    writer->sending = false;
    return writer->status == CS_OK ? CS_OK : ce_fail(writer->status, "%s", writer->why);
}

static cs_status flush(ce_direct_writer *writer)
{
    if (writer->filled == 0)
        return CS_OK;
    size_t tail = writer->filled % CE_DIRECT_WRITER_ALIGN;
    if (tail)
        memset(filling(writer) + writer->filled, 0, CE_DIRECT_WRITER_ALIGN - tail);
    CE_TRY(wait_for_write(writer));
    writer->sent = writer->filled;
    writer->at += (int64_t)writer->filled;
    writer->filled = 0;
    writer->current = !writer->current;
    writer->sending = ce_thread_start(&writer->thread, write_buffer, writer) == 0;
    if (!writer->sending) /* no thread could be started, so this thread writes */
        write_buffer(writer);
    return CS_OK;
}

cs_status ce_direct_writer_write(ce_direct_writer *writer, const void *bytes, size_t count)
{
    for (const uint8_t *from = bytes; count > 0;) {
        size_t left = writer->step - writer->filled, now = count < left ? count : left;
        memcpy(filling(writer) + writer->filled, from, now);
        writer->filled += now;
        from += now;
        count -= now;
        if (writer->filled == writer->step)
            CE_TRY(flush(writer));
    }
    return CS_OK;
}

/* Writes the head at the beginning of the file. Neither `head` nor `bytes` need be aligned. The head is copied into an
 * aligned buffer first, because direct I/O needs aligned memory. */
static cs_status write_head(ce_direct_writer *writer, const uint8_t *head, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t now = bytes - done < writer->step ? bytes - done : writer->step;
        memcpy(writer->buffers, head + done, now);
        CE_TRY(write_at(writer, writer->buffers, now, (int64_t)done));
        done += now;
    }
    return CS_OK;
}

cs_status ce_direct_writer_finish(ce_direct_writer *writer, const void *head, size_t head_bytes)
{
    CE_TRY(flush(writer));
    CE_TRY(wait_for_write(writer));
    if (ftruncate(writer->descriptor, writer->at) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: setting its length", writer->path);
    CE_TRY(write_head(writer, head, head_bytes));
    if (fdatasync(writer->descriptor) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: flushing to the disk", writer->path);
    int descriptor = writer->descriptor;
    writer->descriptor = -1;
    if (close(descriptor) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: closing", writer->path);
    return CS_OK;
}

void ce_direct_writer_close(ce_direct_writer *writer)
{
    if (writer->sending)
        pthread_join(writer->thread, NULL);
    if (writer->descriptor >= 0)
        close(writer->descriptor);
    free(writer->buffers);
    free(writer->why);
    *writer = (ce_direct_writer){ .descriptor = -1 };
}
