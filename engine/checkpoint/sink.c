/* sink.c - a new file written in large aligned steps, past the page cache where the file system allows. */
#include "checkpoint/sink.h"
#include "checkpoint/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cs_status create(cs_sink *sink, bool buffered)
{
    int flags        = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    sink->descriptor = open(sink->path, buffered ? flags : flags | O_DIRECT, 0666);
    if (sink->descriptor < 0 && !buffered &&
        errno == EINVAL) { /* some file systems leave the new file there when they refuse the flag */
        unlink(sink->path);
        sink->descriptor = open(sink->path, flags, 0666);
    }
    if (sink->descriptor < 0)
        return cs_fail_errno(CS_IO_ERROR, errno, "%s: creating", sink->path);
    return CS_OK;
}

static cs_status take_room(cs_sink *sink, int64_t bytes)
{
    int result;
    do
        result = fallocate(sink->descriptor, 0, 0, bytes);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return cs_fail_errno(CS_IO_ERROR, errno, "%s: taking room for %lld bytes", sink->path, (long long)bytes);
    return CS_OK;
}

cs_status cs_sink_open(cs_sink *sink, const char *path, int64_t head_bytes, int64_t bytes,
                       const cs_checkpoint_writing *writing)
{
    *sink        = (cs_sink){ .descriptor = -1, .path = path, .at = head_bytes };
    sink->step   = writing->buffer_bytes ? writing->buffer_bytes : CS_SINK_STEP;
    sink->buffer = aligned_alloc(CS_SINK_ALIGN, sink->step);
    if (!sink->buffer)
        return cs_fail(CS_NO_MEMORY, "%s: no memory for the %zu bytes of a write buffer", path, sink->step);
    CS_TRY(create(sink, writing->buffered));
    return take_room(sink, bytes);
}

static bool is_direct(int descriptor)
{
    return (fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
}

/* `bytes` is aligned memory up to the next multiple of CS_SINK_ALIGN. */
static cs_status put(cs_sink *sink, const void *bytes, size_t count, int64_t offset)
{
    if (is_direct(sink->descriptor)) {
        size_t  whole = (count + CS_SINK_ALIGN - 1) / CS_SINK_ALIGN * CS_SINK_ALIGN;
        ssize_t done  = pwrite(sink->descriptor, bytes, whole, offset);
        if (done == (ssize_t)whole)
            return CS_OK;
        if (done < 0 && errno != EINVAL && errno != EINTR)
            return cs_fail_errno(CS_IO_ERROR, errno, "%s: writing", sink->path);
        /* Refused, or only a part taken: once more and from here on, through the page cache. */
        if (fcntl(sink->descriptor, F_SETFL, fcntl(sink->descriptor, F_GETFL) & ~O_DIRECT) != 0)
            return cs_fail_errno(CS_IO_ERROR, errno, "%s: leaving direct writes", sink->path);
    }
    return cs_files_write_at(sink->descriptor, bytes, count, offset, sink->path);
}

static cs_status flush(cs_sink *sink)
{
    if (sink->filled == 0)
        return CS_OK;
    size_t tail = sink->filled % CS_SINK_ALIGN;
    if (tail)
        memset(sink->buffer + sink->filled, 0, CS_SINK_ALIGN - tail);
    CS_TRY(put(sink, sink->buffer, sink->filled, sink->at));
    sink->at += (int64_t)sink->filled;
    sink->filled = 0;
    return CS_OK;
}

cs_status cs_sink_write(cs_sink *sink, const void *bytes, size_t count)
{
    for (const uint8_t *from = bytes; count > 0;) {
        size_t room = sink->step - sink->filled, now = count < room ? count : room;
        memcpy(sink->buffer + sink->filled, from, now);
        sink->filled += now;
        from += now;
        count -= now;
        if (sink->filled == sink->step)
            CS_TRY(flush(sink));
    }
    return CS_OK;
}

/* Headers are as long as they must be; they leave through the buffer too. */
static cs_status put_head(cs_sink *sink, const uint8_t *head, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t now = bytes - done < sink->step ? bytes - done : sink->step;
        memcpy(sink->buffer, head + done, now);
        CS_TRY(put(sink, sink->buffer, now, (int64_t)done));
        done += now;
    }
    return CS_OK;
}

cs_status cs_sink_finish(cs_sink *sink, const void *head, size_t head_bytes)
{
    CS_TRY(flush(sink));
    if (ftruncate(sink->descriptor, sink->at) != 0)
        return cs_fail_errno(CS_IO_ERROR, errno, "%s: setting its length", sink->path);
    CS_TRY(put_head(sink, head, head_bytes));
    if (fdatasync(sink->descriptor) != 0)
        return cs_fail_errno(CS_IO_ERROR, errno, "%s: flushing to the disk", sink->path);
    int descriptor   = sink->descriptor;
    sink->descriptor = -1;
    if (close(descriptor) != 0)
        return cs_fail_errno(CS_IO_ERROR, errno, "%s: closing", sink->path);
    return CS_OK;
}

void cs_sink_close(cs_sink *sink)
{
    if (sink->descriptor >= 0)
        close(sink->descriptor);
    free(sink->buffer);
    *sink = (cs_sink){ .descriptor = -1 };
}
