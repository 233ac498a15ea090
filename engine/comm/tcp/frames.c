/* frames.c - sends and receives frames over all TCP connections at once with poll, and detects lost ranks.
 *
 * When a rank's process ends, its connections are closed, and every waiting rank sees this at once. When a rank's host
 * fails, nothing arrives from it any more. On idle connections the kernel's keepalive probes detect this
 * (store/socket.c). Connections with unacknowledged data are checked here, by the time since the peer's host last
 * acknowledged anything. TCP_USER_TIMEOUT is not used, because it would also close the connection to a living rank that
 * is busy and whose buffers are full. A rank that ends because another rank was lost tells the other ranks which rank
 * was lost, so that the error messages of all ranks name the same rank. */
#include "comm/tcp/tcp.h"
#include "base/beat.h"
#include "base/clock.h"
#include "base/must.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { LOOK_MILLISECONDS = 2000, LIMITED_MILLISECONDS = 100, SILENCE_MILLISECONDS = 60000, CLOSE_SECONDS = 1 };

static struct iovec signed_part(const ce_tcp_head *head)
{
    return (struct iovec){ (void *)(size_t)head, offsetof(ce_tcp_head, tag) };
}

/* Queues a frame that will be sent to rank `to`. */
static void add_outgoing(ce_tcp *tcp, int to, const void *data, size_t bytes)
{
    ce_tcp_link *link = &tcp->links[to];
    ce_tcp_queue *queue = &link->out;
    int at = queue->count++;
    CE_ASSERT(at < CE_TCP_FRAMES);
    ce_tcp_head *head = &queue->heads[at];
    /* The whole head is zeroed, because the padding between its members is authenticated too. */
    memset(head, 0, sizeof *head);
    head->call.what = tcp->comm->call.what;
    head->call.dtype = tcp->comm->call.dtype;
    head->call.op = tcp->comm->call.op;
    head->call.root = tcp->comm->call.root;
    head->call.count = tcp->comm->call.count;
    head->call.number = tcp->comm->call.number;
    head->bytes = bytes;
    queue->data[at] = (char *)(size_t)data;
    queue->bytes[at] = bytes;
    tcp->comm->traffic.between_hosts += link->elsewhere ? bytes : 0;
    struct iovec part = signed_part(head);
    ce_seal_sign(&link->seal, head->tag, &part, 1);
}

/* Queues a frame that will be received from rank `from`. */
static void add_incoming(ce_tcp *tcp, int from, void *data, size_t bytes)
{
    ce_tcp_queue *queue = &tcp->links[from].in;
    int at = queue->count++;
    CE_ASSERT(at < CE_TCP_FRAMES);
    queue->data[at] = data;
    queue->bytes[at] = bytes;
}

/* ---- lost ranks ---- */

/* Sends a notice, a frame without data. Does nothing if a queued frame is not completely sent or the socket's buffer is
 * full. */
static void send_notice(ce_tcp *tcp, int to, int what, int about)
{
    ce_tcp_link *link = &tcp->links[to];
    ce_tcp_head head;
    if (link->socket < 0 || link->send_closed || link->out.at < link->out.count)
        return;
    memset(&head, 0, sizeof head);
    head.call.what = (uint8_t)what;
    head.call.root = about;
    struct iovec part = signed_part(&head);
    ce_seal_sign(&link->seal, head.tag, &part, 1);
    send(link->socket, &head, sizeof head, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ce_tcp_frames_leave(ce_tcp *tcp)
{
    for (int i = 0; i < tcp->size; i++)
        send_notice(tcp, i, CE_TCP_CLOSED, tcp->rank);
}

static bool send_some(ce_tcp *tcp, int to);

/* Sends the remaining bytes of all queued frames. After them, the caller can send a notice that says why this process
 * ends. The function returns after at most CLOSE_SECONDS, even if not all bytes were sent. */
static void finish_frames(ce_tcp *tcp)
{
    double end = ce_clock_seconds() + CLOSE_SECONDS;
    bool waits = true;
    while (waits && ce_clock_seconds() < end) {
        waits = false;
        for (int i = 0; i < tcp->size; i++) {
            const ce_tcp_link *link = &tcp->links[i];
            send_some(tcp, i);
            bool more = !link->send_closed && link->out.at < link->out.count;
            tcp->polls[i] = (struct pollfd){ more ? link->socket : -1, POLLOUT, 0 };
            waits = waits || more;
        }
        if (waits)
            poll(tcp->polls, (nfds_t)tcp->size, 50);
    }
}

static _Noreturn void end_because_of(ce_tcp *tcp, int peer, const char *what)
{
    finish_frames(tcp);
    for (int i = 0; i < tcp->size; i++)
        send_notice(tcp, i, CE_TCP_LOST, peer);
    ce_fatal(CS_NO_PEER, "rank %d %s (while this rank waited in %s)", ce_comm_name(tcp->comm, peer), what,
             ce_call_name(tcp->comm->call.what));
}

void ce_tcp_frames_lose(cs_comm *comm, int peer, const char *how)
{
    end_because_of(comm->private_data, peer, how);
}

/* This function is called when rank `peer` has closed its connection. It ends the process with a message that names the
 * lost rank. If a notice has arrived that says which rank was lost, this is the rank in the notice; otherwise it is
 * `peer`. */
static _Noreturn void report_first_lost(ce_tcp *tcp, int peer)
{
    ce_tcp_head last;
    for (int i = 0; i < tcp->size; i++) {
        const ce_tcp_link *link = &tcp->links[i];
        if (link->socket >= 0 && link->in.done == 0 &&
            recv(link->socket, &last, sizeof last, MSG_PEEK | MSG_DONTWAIT) == sizeof last &&
            last.call.what == CE_TCP_LOST && last.call.root >= 0 && last.call.root < tcp->size)
            peer = last.call.root;
    }
    end_because_of(tcp, peer, "was lost");
}

static void check_call(const ce_tcp *tcp, int from, const ce_call *its)
{
    if (!ce_call_same(its, &tcp->comm->call))
        ce_call_refuse(ce_comm_name(tcp->comm, tcp->rank), &tcp->comm->call, ce_comm_name(tcp->comm, from), its);
}

/* Ends the process unless the head that has arrived is the head of the expected frame. */
static void check_head(ce_tcp *tcp, int from)
{
    ce_tcp_link *link = &tcp->links[from];
    const ce_tcp_head *head = &link->in.heads[link->in.at];
    struct iovec part = signed_part(head);
    if (!ce_seal_check(&link->seal, head->tag, &part, 1))
        ce_fatal(CS_NO_PEER, "a message on the connection with rank %d is not from that rank, or is out of order",
                 ce_comm_name(tcp->comm, from));
    if (head->call.what == CE_TCP_CLOSED)
        end_because_of(tcp, from, "has left");
    if (head->call.what == CE_TCP_LOST)
        end_because_of(tcp, head->call.root, "was lost");
    check_call(tcp, from, &head->call);
    if (ce_call_is_message(&head->call) && head->bytes != link->in.bytes[link->in.at])
        ce_fatal(CS_DISAGREE, "rank %d sent %llu bytes, but rank %d receives %zu: both must name the same length",
                 ce_comm_name(tcp->comm, from), (unsigned long long)head->bytes, ce_comm_name(tcp->comm, tcp->rank),
                 link->in.bytes[link->in.at]);
    CE_ASSERT(head->bytes == link->in.bytes[link->in.at]);
}

/* ---- queues ---- */

/* Writes the remaining bytes of the queue's frames as iovec entries, at most two for each frame, and returns their
 * number. */
static int remaining(ce_tcp_queue *queue, struct iovec *pieces)
{
    int count = 0;
    size_t skip = queue->done;
    for (int i = queue->at; i < queue->count; i++, skip = 0) {
        size_t head = skip < sizeof queue->heads[i] ? skip : sizeof queue->heads[i];
        if (head < sizeof queue->heads[i])
            pieces[count++] = (struct iovec){ (char *)&queue->heads[i] + head, sizeof queue->heads[i] - head };
        if (queue->bytes[i] > skip - head)
            pieces[count++] = (struct iovec){ queue->data[i] + (skip - head), queue->bytes[i] - (skip - head) };
    }
    return count;
}

static void advance(ce_tcp *tcp, int peer, ce_tcp_queue *queue, size_t moved)
{
    while (moved > 0) {
        size_t head = sizeof queue->heads[0], whole = head + queue->bytes[queue->at];
        size_t part = whole - queue->done < moved ? whole - queue->done : moved;
        bool head_arrived = queue->done < head && queue->done + part >= head;
        queue->done += part;
        moved -= part;
        if (head_arrived && queue == &tcp->links[peer].in)
            check_head(tcp, peer);
        if (queue->done == whole) {
            queue->at++;
            queue->done = 0;
        }
    }
}

static bool is_complete(const ce_tcp_queue *queue)
{
    return queue->at == queue->count;
}

/* Sends some bytes of a queue and returns true if any were sent. A failed send does not end the process, but sets
 * send_closed: a notice that says why the peer closed the connection may still be read. */
static bool send_some(ce_tcp *tcp, int to)
{
    ce_tcp_link *link = &tcp->links[to];
    struct iovec pieces[2 * CE_TCP_FRAMES];
    if (link->send_closed || is_complete(&link->out))
        return false;
    struct msghdr packet = { .msg_iov = pieces, .msg_iovlen = (size_t)remaining(&link->out, pieces) };
    ssize_t sent = sendmsg(link->socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        link->send_closed = true;
    if (sent > 0)
        advance(tcp, to, &link->out, (size_t)sent);
    return sent > 0;
}

static bool receive_some(ce_tcp *tcp, int from)
{
    ce_tcp_link *link = &tcp->links[from];
    struct iovec pieces[2 * CE_TCP_FRAMES];
    if (is_complete(&link->in))
        return false;
    struct msghdr packet = { .msg_iov = pieces, .msg_iovlen = (size_t)remaining(&link->in, pieces) };
    ssize_t got = recvmsg(link->socket, &packet, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        report_first_lost(tcp, from);
    if (got > 0)
        advance(tcp, from, &link->in, (size_t)got);
    return got > 0;
}

/* ---- waiting ---- */

/* Ends the process because nothing more can be sent to rank `peer`, and no frame from that rank is expected. If a
 * notice from that rank has arrived, the error message repeats it: the rank has closed its comm, or another rank was
 * lost. */
static void read_notice(ce_tcp *tcp, int peer)
{
    ce_tcp_head last;
    ssize_t got = recv(tcp->links[peer].socket, &last, sizeof last, MSG_PEEK | MSG_DONTWAIT);
    if (got == sizeof last && last.call.what == CE_TCP_CLOSED)
        end_because_of(tcp, peer, "has left");
    report_first_lost(tcp, peer);
}

/* Returns true if for SILENCE_MILLISECONDS the peer's host has acknowledged neither bytes nor keepalive probes. */
static bool is_unresponsive(int socket)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           (info.tcpi_unacked > 0 || info.tcpi_probes > 1) && info.tcpi_last_ack_recv > SILENCE_MILLISECONDS;
}

static void check_responses(ce_tcp *tcp)
{
    for (int i = 0; i < tcp->size; i++)
        if (tcp->links[i].socket >= 0 && is_unresponsive(tcp->links[i].socket))
            end_because_of(tcp, i, "has not answered for a minute");
}

/* Returns true if a socket has unread data. The function is called for a rank that has closed its connection while no
 * frame is expected from that rank. Without unread data the rank is lost. Unread data may contain the notice that the
 * rank closes its comm. */
static bool has_unread(int socket)
{
    int waiting = 0;
    return ioctl(socket, FIONREAD, &waiting) == 0 && waiting > 0;
}

/* Returns the notice that a rank sent before it closed its connection, CE_TCP_CLOSED or CE_TCP_LOST, or 0 if the rank
 * sent none. The notice may follow frames that were not read yet. */
static int last_notice(int socket, int *about)
{
    ce_tcp_head last;
    int waiting = 0;
    *about = -1;
    if (ioctl(socket, FIONREAD, &waiting) < 0 || waiting < (int)sizeof last)
        return 0;
    char *unread = malloc((size_t)waiting);
    ssize_t got = unread ? recv(socket, unread, (size_t)waiting, MSG_PEEK | MSG_DONTWAIT) : 0;
    memset(&last, 0, sizeof last);
    if (got >= (ssize_t)sizeof last)
        memcpy(&last, unread + got - sizeof last, sizeof last);
    free(unread);
    bool notice = (last.call.what == CE_TCP_CLOSED || last.call.what == CE_TCP_LOST) && last.bytes == 0;
    *about = last.call.root;
    return notice ? last.call.what : 0;
}

int ce_tcp_frames_missing(cs_comm *comm, bool *closed)
{
    const ce_tcp *tcp = comm->private_data;
    int left = -1, lost = -1;
    for (int i = 0; i < tcp->size && lost < 0; i++) {
        struct pollfd line = { tcp->links[i].socket, POLLRDHUP, 0 };
        int about;
        if (poll(&line, 1, 0) <= 0)
            continue;
        int notice = last_notice(line.fd, &about);
        if (notice == CE_TCP_CLOSED)
            left = i;
        else
            lost = notice == CE_TCP_LOST && about >= 0 && about < tcp->size && about != tcp->rank ? about : i;
    }
    *closed = lost < 0;
    return lost < 0 ? left : lost;
}

/* Checks each rank that does not receive what this rank sends, because that rank may be in a different call than this
 * rank. If a frame from that rank has arrived, compares the call in the frame's head with this rank's call. */
static void check_senders(ce_tcp *tcp)
{
    for (int i = 0; i < tcp->size; i++) {
        const ce_tcp_link *link = &tcp->links[i];
        ce_tcp_head next;
        if (link->socket >= 0 && !is_complete(&link->out) && is_complete(&link->in) &&
            recv(link->socket, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT) == sizeof next &&
            next.call.what < CE_BEAT_COUNT)
            check_call(tcp, i, &next.call);
    }
}

static void check_time(ce_tcp *tcp)
{
    double limit = tcp->comm->settings.call_seconds;
    if (limit <= 0 || ce_clock_seconds() - tcp->comm->begun <= limit)
        return;
    for (int i = 0; i < tcp->size; i++)
        if (!is_complete(&tcp->links[i].in) || !is_complete(&tcp->links[i].out))
            end_because_of(tcp, i, "did not take part within the time limit of a call");
}

static short events_of(const ce_tcp_link *link)
{
    int events = 0;
    if (!is_complete(&link->in))
        events |= POLLIN;
    if (!link->send_closed && !is_complete(&link->out))
        events |= POLLOUT;
    return (short)(events ? events : POLLRDHUP);
}

static void sleep_until_ready(ce_tcp *tcp)
{
    for (int i = 0; i < tcp->size; i++) {
        ce_tcp_link *link = &tcp->links[i];
        bool idle = is_complete(&link->in) && (link->send_closed || is_complete(&link->out));
        tcp->polls[i] = (struct pollfd){ idle && link->send_closed ? -1 : link->socket, events_of(link), 0 };
    }
    bool limited = tcp->comm->settings.call_seconds > 0;
    int ready = poll(tcp->polls, (nfds_t)tcp->size, limited ? LIMITED_MILLISECONDS : LOOK_MILLISECONDS);
    check_time(tcp);
    if (ready == 0) {
        check_responses(tcp);
        check_senders(tcp);
    }
    for (int i = 0; ready > 0 && i < tcp->size; i++) {
        ce_tcp_link *link = &tcp->links[i];
        if (!tcp->polls[i].revents || !is_complete(&link->in) || !is_complete(&link->out))
            continue;
        if (!has_unread(link->socket))
            report_first_lost(tcp, i);
        link->send_closed = true; /* the unread data is read when a frame from that rank is expected */
    }
}

/* Sends and receives as many bytes of all queues as is possible without blocking. Sets *moved to true if any byte was
 * sent or received. Returns false when all queues are complete. */
static bool move_all(ce_tcp *tcp, bool *moved)
{
    bool waits = false;
    *moved = false;
    for (int i = 0; i < tcp->size; i++) {
        ce_tcp_link *link = &tcp->links[i];
        if (is_complete(&link->in) && is_complete(&link->out))
            continue;
        if (send_some(tcp, i))
            *moved = true;
        if (receive_some(tcp, i))
            *moved = true;
        if (link->send_closed && !is_complete(&link->out) && is_complete(&link->in))
            read_notice(tcp, i);
        waits = waits || !is_complete(&link->in) || !is_complete(&link->out);
    }
    return waits;
}

/* Sends and receives all queued frames, and returns when they are complete. */
static void move_frames(ce_tcp *tcp)
{
    bool moved;
    int idle = 0;
    while (move_all(tcp, &moved)) {
        if (moved)
            idle = 0;
        else if (idle++ < tcp->yields)
            sched_yield();
        else
            sleep_until_ready(tcp);
    }
    for (int i = 0; i < tcp->size; i++)
        tcp->links[i].in.count = tcp->links[i].in.at = tcp->links[i].out.count = tcp->links[i].out.at = 0;
}

/* Queues the frame of a message if the message's queue is empty; otherwise the message is started later. Only used if
 * ce_tcp_frames_move is called without waiting. Each queue then has one frame at a time: the frame of the first message
 * that is not done. */
static void start_message(ce_tcp *tcp, ce_message *message)
{
    ce_tcp_link *link = &tcp->links[message->peer];
    message->started = (message->incoming ? link->in : link->out).count == 0;
    if (message->started && message->incoming)
        add_incoming(tcp, message->peer, message->data, message->bytes);
    else if (message->started)
        add_outgoing(tcp, message->peer, message->data, message->bytes);
}

static void finish_message(ce_tcp *tcp, ce_message *message)
{
    ce_tcp_link *link = &tcp->links[message->peer];
    ce_tcp_queue *queue = message->incoming ? &link->in : &link->out;
    message->done = is_complete(queue);
    if (message->done)
        queue->count = queue->at = 0;
}

bool ce_tcp_frames_move(cs_comm *comm, ce_message *messages, int count, bool wait)
{
    ce_tcp *tcp = comm->private_data;
    bool moved = true;
    for (int i = 0; i < count && wait; i++) {
        const ce_message *message = &messages[i];
        if (message->incoming)
            add_incoming(tcp, message->peer, message->data, message->bytes);
        else
            add_outgoing(tcp, message->peer, message->data, message->bytes);
    }
    if (wait) {
        move_frames(tcp);
        return true;
    }
    for (int i = 0; i < count; i++)
        if (!messages[i].started && !messages[i].done)
            start_message(tcp, &messages[i]);
    move_all(tcp, &moved);
    for (int i = 0; i < count; i++)
        if (messages[i].started && !messages[i].done)
            finish_message(tcp, &messages[i]);
    return moved;
}
