/* flow.c - sends and receives frames over all TCP connections at once with poll, and detects lost ranks.
 *
 * When a rank's process dies, its connections are closed, which every waiting rank sees at once. When a rank's host
 * dies, nothing arrives any more. On idle connections the kernel's keepalive probes detect this (dial.c). Connections
 * with unacknowledged data are checked here, by the time since the peer's host last acknowledged anything.
 * TCP_USER_TIMEOUT is not used, because it would also close connections to a living rank that is busy and whose buffers
 * are full. A rank that ends because another was lost tells its peers which one that was, so that all messages name the
 * same rank. */
#include "comm/tcp.h"
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

enum { LOOK_MILLISECONDS = 5000, SILENCE_MILLISECONDS = 60000, CLOSE_SECONDS = 1 };

static struct iovec signed_part(const ce_tcp_head *head)
{
    return (struct iovec){ (void *)(size_t)head, offsetof(ce_tcp_head, tag) };
}

void ce_flow_send(ce_tcp *tcp, int to, const void *data, size_t bytes)
{
    ce_tcp_link *link = &tcp->links[to];
    ce_tcp_lane *lane = &link->out;
    int at = lane->count++;
    CS_ASSERT(at < CS_TCP_FRAMES);
    ce_tcp_head *head = &lane->heads[at];
    memset(head, 0, sizeof *head); /* the padding between members is authenticated too */
    head->call.what = tcp->call.what;
    head->call.dtype = tcp->call.dtype;
    head->call.op = tcp->call.op;
    head->call.root = tcp->call.root;
    head->call.count = tcp->call.count;
    head->bytes = bytes;
    lane->data[at] = (char *)(size_t)data;
    lane->bytes[at] = bytes;
    struct iovec part = signed_part(head);
    ce_seal_sign(&link->seal, head->tag, &part, 1);
}

void ce_flow_receive(ce_tcp *tcp, int from, void *data, size_t bytes)
{
    ce_tcp_lane *lane = &tcp->links[from].in;
    int at = lane->count++;
    CS_ASSERT(at < CS_TCP_FRAMES);
    lane->data[at] = data;
    lane->bytes[at] = bytes;
}

/* ---- losing ----------------------------------------------------------------------------------- */

/* Adds a frame if no frame is half sent and there is space. */
static void say(ce_tcp *tcp, int to, int what, int about)
{
    ce_tcp_link *link = &tcp->links[to];
    ce_tcp_head head;
    if (link->socket < 0 || link->deaf || link->out.at < link->out.count)
        return;
    memset(&head, 0, sizeof head);
    head.call.what = (uint8_t)what;
    head.call.root = about;
    struct iovec part = signed_part(&head);
    ce_seal_sign(&link->seal, head.tag, &part, 1);
    send(link->socket, &head, sizeof head, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ce_flow_leave(ce_tcp *tcp)
{
    for (int i = 0; i < tcp->size; i++)
        say(tcp, i, CS_TCP_BYE, tcp->rank);
}

static bool push(ce_tcp *tcp, int to);

/* Tells the ranks that still receive the reason, after the frame that they are receiving. */
static void finish_frames(ce_tcp *tcp)
{
    double end = ce_clock_seconds() + CLOSE_SECONDS;
    bool waits = true;
    while (waits && ce_clock_seconds() < end) {
        waits = false;
        for (int i = 0; i < tcp->size; i++) {
            const ce_tcp_link *link = &tcp->links[i];
            push(tcp, i);
            bool more = !link->deaf && link->out.at < link->out.count;
            tcp->polls[i] = (struct pollfd){ more ? link->socket : -1, POLLOUT, 0 };
            waits = waits || more;
        }
        if (waits)
            poll(tcp->polls, (nfds_t)tcp->size, 50);
    }
}

static _Noreturn void lose(ce_tcp *tcp, int peer, const char *what)
{
    finish_frames(tcp);
    for (int i = 0; i < tcp->size; i++)
        say(tcp, i, CS_TCP_LOST, peer);
    ce_fatal(CS_NO_PEER, "rank %d %s (while this rank waited in %s)", peer, what, ce_beat_names[tcp->comm->doing]);
}

/* A rank closed its connection: checks whether it, or another, said before that it ends because of a third rank. */
static _Noreturn void lose_whoever_was_first(ce_tcp *tcp, int peer)
{
    ce_tcp_head last;
    for (int i = 0; i < tcp->size; i++) {
        const ce_tcp_link *link = &tcp->links[i];
        if (link->socket >= 0 && link->in.done == 0 &&
            recv(link->socket, &last, sizeof last, MSG_PEEK | MSG_DONTWAIT) == sizeof last &&
            last.call.what == CS_TCP_LOST && last.call.root >= 0 && last.call.root < tcp->size)
            peer = last.call.root;
    }
    lose(tcp, peer, "was lost");
}

/* Checks whether the head that arrived is that of the expected frame. */
static void check_head(ce_tcp *tcp, int from)
{
    ce_tcp_link *link = &tcp->links[from];
    const ce_tcp_head *head = &link->in.heads[link->in.at];
    struct iovec part = signed_part(head);
    if (!ce_seal_check(&link->seal, head->tag, &part, 1))
        ce_fatal(CS_NO_PEER, "a frame on the connection with rank %d is not of that rank, or not in its turn", from);
    if (head->call.what == CS_TCP_BYE)
        lose(tcp, from, "has left");
    if (head->call.what == CS_TCP_LOST)
        lose(tcp, head->call.root, "was lost");
    bool message = head->call.what == CS_BEAT_SEND;
    if (message && tcp->call.what == CS_BEAT_SEND && head->bytes != link->in.bytes[link->in.at])
        ce_fatal(CS_DISAGREE, "rank %d sent %llu bytes, but rank %d receives %zu: both must name the same length", from,
                 (unsigned long long)head->bytes, tcp->rank, link->in.bytes[link->in.at]);
    if (!ce_call_same(&head->call, &tcp->call))
        ce_call_refuse(tcp->rank, &tcp->call, from, &head->call);
    CS_ASSERT(head->bytes == link->in.bytes[link->in.at]);
}

/* ---- lanes ------------------------------------------------------------------------------------ */

/* The remaining bytes of the lane's frames as an iovec, two entries for each frame. */
static int gather(ce_tcp_lane *lane, struct iovec *pieces)
{
    int count = 0;
    size_t skip = lane->done;
    for (int i = lane->at; i < lane->count; i++, skip = 0) {
        size_t head = skip < sizeof lane->heads[i] ? skip : sizeof lane->heads[i];
        if (head < sizeof lane->heads[i])
            pieces[count++] = (struct iovec){ (char *)&lane->heads[i] + head, sizeof lane->heads[i] - head };
        if (lane->bytes[i] > skip - head)
            pieces[count++] = (struct iovec){ lane->data[i] + (skip - head), lane->bytes[i] - (skip - head) };
    }
    return count;
}

static void advance(ce_tcp *tcp, int peer, ce_tcp_lane *lane, size_t moved)
{
    while (moved > 0) {
        size_t head = sizeof lane->heads[0], whole = head + lane->bytes[lane->at];
        size_t part = whole - lane->done < moved ? whole - lane->done : moved;
        bool came = lane->done < head && lane->done + part >= head;
        lane->done += part;
        moved -= part;
        if (came && lane == &tcp->links[peer].in)
            check_head(tcp, peer);
        if (lane->done == whole) {
            lane->at++;
            lane->done = 0;
        }
    }
}

static bool is_through(const ce_tcp_lane *lane)
{
    return lane->at == lane->count;
}

/* True if bytes were moved. A peer that receives nothing more may have sent the reason. */
static bool push(ce_tcp *tcp, int to)
{
    ce_tcp_link *link = &tcp->links[to];
    struct iovec pieces[2 * CS_TCP_FRAMES];
    if (link->deaf || is_through(&link->out))
        return false;
    struct msghdr packet = { .msg_iov = pieces, .msg_iovlen = (size_t)gather(&link->out, pieces) };
    ssize_t sent = sendmsg(link->socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        link->deaf = true;
    if (sent > 0)
        advance(tcp, to, &link->out, (size_t)sent);
    return sent > 0;
}

static bool pull(ce_tcp *tcp, int from)
{
    ce_tcp_link *link = &tcp->links[from];
    struct iovec pieces[2 * CS_TCP_FRAMES];
    if (is_through(&link->in))
        return false;
    struct msghdr packet = { .msg_iov = pieces, .msg_iovlen = (size_t)gather(&link->in, pieces) };
    ssize_t got = recvmsg(link->socket, &packet, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        lose_whoever_was_first(tcp, from);
    if (got > 0)
        advance(tcp, from, &link->in, (size_t)got);
    return got > 0;
}

/* ---- waiting ---------------------------------------------------------------------------------- */

/* For a rank from which no frame is expected: true if it has announced that it closes. */
static void hear_last_words(ce_tcp *tcp, int peer)
{
    ce_tcp_head last;
    ssize_t got = recv(tcp->links[peer].socket, &last, sizeof last, MSG_PEEK | MSG_DONTWAIT);
    if (got == sizeof last && last.call.what == CS_TCP_BYE)
        lose(tcp, peer, "has left");
    lose_whoever_was_first(tcp, peer);
}

/* Its host acknowledges neither bytes nor probes. */
static bool is_silent(int socket)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           (info.tcpi_unacked > 0 || info.tcpi_probes > 1) && info.tcpi_last_ack_recv > SILENCE_MILLISECONDS;
}

static void look_for_the_silent(ce_tcp *tcp)
{
    for (int i = 0; i < tcp->size; i++)
        if (tcp->links[i].socket >= 0 && is_silent(tcp->links[i].socket))
            lose(tcp, i, "has not answered for a minute");
}

/* A rank from which nothing is expected closed its connection. It is lost, unless unread data may contain its
 * closing message. */
static bool left_words(int socket)
{
    int waiting = 0;
    return ioctl(socket, FIONREAD, &waiting) == 0 && waiting > 0;
}

/* The last message of a rank that closed its connection; it may follow frames that were not read yet. 0: none. */
static int last_words(int socket, int *about)
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
    bool word = (last.call.what == CS_TCP_BYE || last.call.what == CS_TCP_LOST) && last.bytes == 0;
    *about = last.call.root;
    return word ? last.call.what : 0;
}

int ce_flow_missing(cs_comm *comm, bool *closed)
{
    const ce_tcp *tcp = comm->private_data;
    int left = -1, lost = -1;
    for (int i = 0; i < tcp->size && lost < 0; i++) {
        struct pollfd line = { tcp->links[i].socket, POLLRDHUP, 0 };
        int about;
        if (poll(&line, 1, 0) <= 0)
            continue;
        int word = last_words(line.fd, &about);
        if (word == CS_TCP_BYE)
            left = i;
        else
            lost = word == CS_TCP_LOST && about >= 0 && about < tcp->size && about != tcp->rank ? about : i;
    }
    *closed = lost < 0;
    return lost < 0 ? left : lost;
}

static short events_of(const ce_tcp_link *link)
{
    int events = 0;
    if (!is_through(&link->in))
        events |= POLLIN;
    if (!link->deaf && !is_through(&link->out))
        events |= POLLOUT;
    return (short)(events ? events : POLLRDHUP);
}

static void sleep_until_ready(ce_tcp *tcp)
{
    for (int i = 0; i < tcp->size; i++) {
        ce_tcp_link *link = &tcp->links[i];
        bool idle = is_through(&link->in) && (link->deaf || is_through(&link->out));
        tcp->polls[i] = (struct pollfd){ idle && link->deaf ? -1 : link->socket, events_of(link), 0 };
    }
    int ready = poll(tcp->polls, (nfds_t)tcp->size, LOOK_MILLISECONDS);
    if (ready == 0)
        look_for_the_silent(tcp);
    for (int i = 0; ready > 0 && i < tcp->size; i++) {
        ce_tcp_link *link = &tcp->links[i];
        if (!tcp->polls[i].revents || !is_through(&link->in) || !is_through(&link->out))
            continue;
        if (!left_words(link->socket))
            lose_whoever_was_first(tcp, i);
        link->deaf = true; /* data from it is read when it is its turn */
    }
}

/* False when all lanes are complete. */
static bool move_all(ce_tcp *tcp, bool *moved)
{
    bool waits = false;
    *moved = false;
    for (int i = 0; i < tcp->size; i++) {
        ce_tcp_link *link = &tcp->links[i];
        if (is_through(&link->in) && is_through(&link->out))
            continue;
        if (push(tcp, i))
            *moved = true;
        if (pull(tcp, i))
            *moved = true;
        if (link->deaf && !is_through(&link->out) && is_through(&link->in))
            hear_last_words(tcp, i);
        waits = waits || !is_through(&link->in) || !is_through(&link->out);
    }
    return waits;
}

void ce_flow_run(ce_tcp *tcp)
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
