/* direct_writer.c - a new file written in large aligned steps, past the page cache where the file system allows. */
#include "checkpoint/direct_writer.h"
#include "checkpoint/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cs_status create(cs_sink *sink, bool buffered)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
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
    *sink = (cs_sink){ .descriptor = -1, .path = path, .at = head_bytes };
    sink->step = writing->buffer_bytes ? writing->buffer_bytes : CS_SINK_STEP;
    sink->buffers = aligned_alloc(CS_SINK_ALIGN, 2 * sink->step);
    if (!sink->buffers)
        return cs_fail(CS_NO_MEMORY, "%s: no memory for the %zu bytes of its write buffers", path, 2 * sink->step);
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
        size_t whole = (count + CS_SINK_ALIGN - 1) / CS_SINK_ALIGN * CS_SINK_ALIGN;
        ssize_t done = pwrite(sink->descriptor, bytes, whole, offset);
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

static uint8_t *filling(const cs_sink *sink)
{
    return sink->buffers + (size_t)sink->turn * sink->step;
}

static void *send(void *argument)
{
    cs_sink *sink = argument;
    const uint8_t *bytes = sink->buffers + (size_t)!sink->turn * sink->step;
    sink->status = put(sink, bytes, sink->sent, sink->at - (int64_t)sink->sent);
    if (sink->status != CS_OK)
        sink->why = strdup(cs_error());
    return NULL;
}

/* Nothing is under way any more. */
static cs_status land(cs_sink *sink)
{
    if (sink->sending)
        pthread_join(sink->thread, NULL);
    sink->sending = false;
    return sink->status == CS_OK ? CS_OK : cs_fail(sink->status, "%s", sink->why ? sink->why : sink->path);
}

static cs_status flush(cs_sink *sink)
{
    if (sink->filled == 0)
        return CS_OK;
    size_t tail = sink->filled % CS_SINK_ALIGN;
    if (tail)
        memset(filling(sink) + sink->filled, 0, CS_SINK_ALIGN - tail);
    CS_TRY(land(sink));
    sink->sent = sink->filled;
    sink->at += (int64_t)sink->filled;
    sink->filled = 0;
    sink->turn = !sink->turn;
    sink->sending = pthread_create(&sink->thread, NULL, send, sink) == 0;
    if (!sink->sending) /* without a thread it only takes longer */
        send(sink);
    return CS_OK;
}

cs_status cs_sink_write(cs_sink *sink, const void *bytes, size_t count)
{
    for (const uint8_t *from = bytes; count > 0;) {
        size_t room = sink->step - sink->filled, now = count < room ? count : room;
        memcpy(filling(sink) + sink->filled, from, now);
        sink->filled += now;
        from += now;
        count -= now;
        if (sink->filled == sink->step)
            CS_TRY(flush(sink));
    }
    return CS_OK;
}

/* Headers are as long as they must be; they leave through a buffer too. */
static cs_status put_head(cs_sink *sink, const uint8_t *head, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t now = bytes - done < sink->step ? bytes - done : sink->step;
        memcpy(sink->buffers, head + done, now);
        CS_TRY(put(sink, sink->buffers, now, (int64_t)done));
        done += now;
    }
    return CS_OK;
}

cs_status cs_sink_finish(cs_sink *sink, const void *head, size_t head_bytes)
{
    CS_TRY(flush(sink));
    CS_TRY(land(sink));
    if (ftruncate(sink->descriptor, sink->at) != 0)
        return cs_fail_errno(CS_IO_ERROR, errno, "%s: setting its length", sink->path);
    CS_TRY(put_head(sink, head, head_bytes));
    if (fdatasync(sink->descriptor) != 0)
        return cs_fail_errno(CS_IO_ERROR, errno, "%s: flushing to the disk", sink->path);
    int descriptor = sink->descriptor;
    sink->descriptor = -1;
    if (close(descriptor) != 0)
        return cs_fail_errno(CS_IO_ERROR, errno, "%s: closing", sink->path);
    return CS_OK;
}

void cs_sink_close(cs_sink *sink)
{
    if (sink->sending)
        pthread_join(sink->thread, NULL);
    if (sink->descriptor >= 0)
        close(sink->descriptor);
    free(sink->buffers);
    free(sink->why);
    *sink = (cs_sink){ .descriptor = -1 };
}
