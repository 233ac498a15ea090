/* link.c - frames messages over a socket or a pair of pipes, and authenticates each frame if the link is sealed. */
#include "wire/link.h"

#include "base/must.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_BYTES = 9, MAX_BYTES = 64 << 20, READ_BYTES = 64 << 10 };

/* Makes room for `count` bytes behind the bytes in the queue. Returns the position where the new bytes begin. */
static char *make_room(cl_link_queue *queue, size_t count)
{
    if (queue->from && queue->to + count > queue->capacity) {
        memmove(queue->data, queue->data + queue->from, queue->to - queue->from);
        queue->to -= queue->from;
        queue->from = 0;
    }
    CE_MUST_HOLD(queue->data, queue->capacity, queue->to + count);
    return queue->data + queue->to;
}

static void append(cl_link_queue *queue, const void *bytes, size_t count)
{
    if (count)
        memcpy(make_room(queue, count), bytes, count);
    queue->to += count;
}

void cl_link_open(cl_link *link, int in_fd, int out_fd, const unsigned char *key, bool calls)
{
    *link = (cl_link){ .in_fd = in_fd, .out_fd = out_fd };
    fcntl(in_fd, F_SETFL, fcntl(in_fd, F_GETFL) | O_NONBLOCK);
    fcntl(out_fd, F_SETFL, fcntl(out_fd, F_GETFL) | O_NONBLOCK);
    if (!key)
        return;
    ce_seal_open(&link->seal, key, calls);
    link->sealed = true;
}

void cl_link_close(cl_link *link)
{
    if (!cl_link_is_open(link))
        return;
    close(link->in_fd);
    if (link->out_fd != link->in_fd)
        close(link->out_fd);
    ce_seal_close(&link->seal);
    free(link->in.data);
    free(link->out.data);
    *link = (cl_link){ .in_fd = -1, .out_fd = -1, .broken = true };
}

bool cl_link_is_open(const cl_link *link)
{
    return link->in_fd > 0 || link->out_fd > 0;
}

static void break_link(cl_link *link, const char *why)
{
    link->broken = true;
    snprintf(link->why, sizeof link->why, "%s", why);
}

void cl_link_send(cl_link *link, cl_link_kind kind, uint32_t rank, const void *bytes, size_t length)
{
    char head[HEAD_BYTES];
    uint32_t numbers[] = { htonl((uint32_t)length), htonl(rank) };
    if (link->broken || !cl_link_is_open(link))
        return;
    CE_ASSERT(length <= MAX_BYTES);
    memcpy(head, &numbers[0], 4);
    head[4] = (char)kind;
    memcpy(head + 5, &numbers[1], 4);
    append(&link->out, head, sizeof head);
    append(&link->out, bytes, length);
    if (link->sealed) {
        unsigned char tag[CE_SEAL_TAG];
        struct iovec parts[] = { { head, sizeof head }, { (void *)(uintptr_t)bytes, length } };
        ce_seal_sign(&link->seal, tag, parts, 2);
        append(&link->out, tag, sizeof tag);
    }
}

void cl_link_say(cl_link *link, cl_link_kind kind, uint32_t rank, const char *format, ...)
{
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cl_link_send(link, kind, rank, text, length < (int)sizeof text ? (size_t)length : sizeof text - 1);
}

bool cl_link_waits(const cl_link *link)
{
    return !link->broken && link->out.to > link->out.from;
}

/* Called after a failed write: the peer has closed the connection. Its last messages may contain the reason, so this
 * side still reads them. */
static void end_writing(cl_link *link, int reason)
{
    cl_link_fill(link, link->heard);
    if (!link->broken)
        break_link(link, strerror(reason));
}

void cl_link_flush(cl_link *link)
{
    while (cl_link_waits(link)) {
        ssize_t count = write(link->out_fd, link->out.data + link->out.from, link->out.to - link->out.from);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno != EAGAIN)
            end_writing(link, errno);
        if (count < 0)
            return;
        link->out.from += (size_t)count;
    }
    link->out.from = link->out.to = 0;
}

void cl_link_fill(cl_link *link, int64_t now)
{
    enum { MAX_AT_ONCE = 16 };
    for (int i = 0; i < MAX_AT_ONCE && !link->broken && cl_link_is_open(link); i++) {
        ssize_t count = read(link->in_fd, make_room(&link->in, READ_BYTES), READ_BYTES);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (count <= 0) {
            break_link(link, count ? strerror(errno) : "the other side has closed the connection");
            return;
        }
        link->in.to += (size_t)count;
        link->heard = now;
        if (count < READ_BYTES)
            return;
    }
}

/* Moves the bytes of a message down by one position, so that they overwrite the end of the frame's header. The position
 * behind the bytes becomes free for a zero byte. */
static void terminate(cl_message *message, char *bytes)
{
    char *moved = bytes - 1;
    memmove(moved, bytes, message->length);
    moved[message->length] = '\0';
    message->bytes = moved;
}

bool cl_link_next(cl_link *link, cl_message *message)
{
    uint32_t numbers[2];
    size_t there = link->in.to - link->in.from, tag_bytes = link->sealed ? CE_SEAL_TAG : 0;
    char *head = link->in.data + link->in.from;
    if (there < HEAD_BYTES)
        return false;
    memcpy(&numbers[0], head, 4);
    memcpy(&numbers[1], head + 5, 4);
    *message = (cl_message){ .kind = (unsigned char)head[4],
                             .rank = ntohl(numbers[1]),
                             .bytes = head + HEAD_BYTES,
                             .length = ntohl(numbers[0]) };
    if (message->length > MAX_BYTES) {
        link->in.from = link->in.to;
        break_link(link, "the received bytes are not a message of cspeed");
        return false;
    }
    if (there < HEAD_BYTES + message->length + tag_bytes)
        return false;
    link->in.from += HEAD_BYTES + message->length + tag_bytes;
    struct iovec frame = { head, HEAD_BYTES + message->length };
    if (link->sealed && !ce_seal_check(&link->seal, (unsigned char *)head + frame.iov_len, &frame, 1)) {
        link->in.from = link->in.to;
        break_link(link, "a received message was changed or repeated in transit");
        return false;
    }
    terminate(message, head + HEAD_BYTES);
    return true;
}
