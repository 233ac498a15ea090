/* join.c - the mutual authentication handshake as a non-blocking state machine.
 *
 * A message has a head (magic, version, kind, length of the body; all numbers in network byte order) and a body. The
 * fields of the body, with their lengths in bytes:
 *
 *     hello     role 1, keyed 1, attempt 4, length of job 1, nonce 32, job, identity (all other bytes)
 *     proof     tag 32
 *     refusal   reason 1 */
#include "security/join.h"
#include "base/clock.h"
#include "base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION = 3, NONCE = 32, NONCE_AT = 7, JOB_AT = NONCE_AT + NONCE };
enum { HELLO = 1, PROOF, REFUSAL };
enum { CALLER = 1, LISTENER };
enum { AWAIT_HELLO, AWAIT_PROOF, LAST_WORDS };
enum { NO_SENSE, OTHER_VERSION, OTHER_JOB, OTHER_ATTEMPT, NO_SECRET, ONE_SECRET, OTHER_MEETING, REASON_COUNT };

static const char magic[4] = { 'C', 'S', 'J', 'N' };

/* The error messages for a refused handshake, by reason. */
static const char *const reasons[] = {
    [NO_SENSE] = "it does not understand a message of this side",
    [OTHER_VERSION] = "it has another version of the protocol of the rendezvous: install the same cspeed on all hosts",
    [OTHER_JOB] = "it belongs to another job",
    [OTHER_ATTEMPT] = "it belongs to another attempt",
    [NO_SECRET] = "the two sides' secrets differ",
    [ONE_SECRET] = "one side has a secret and the other has none",
    [OTHER_MEETING] = "a node has connected to the rendezvous of the ranks, or a rank to that of the nodes",
};

static void add_head(unsigned char *to, int kind, size_t length)
{
    memcpy(to, magic, sizeof magic);
    to[4] = VERSION;
    to[5] = (unsigned char)kind;
    to[6] = (unsigned char)(length >> 8);
    to[7] = (unsigned char)length;
}

static void say(ce_join *join, int kind, const void *body, size_t length)
{
    unsigned char *at = join->out + join->out_bytes;
    add_head(at, kind, length);
    memcpy(at + CE_JOIN_HEAD, body, length);
    join->out_bytes += CE_JOIN_HEAD + length;
}

static void make_hello(ce_join *join, const void *identity, size_t identity_bytes)
{
    unsigned char *body = join->own_hello + CE_JOIN_HEAD;
    uint32_t wire = htonl((uint32_t)join->attempt);
    size_t job = strlen(join->job);
    body[0] = join->caller ? CALLER : LISTENER;
    body[1] = join->keyed;
    memcpy(body + 2, &wire, sizeof wire);
    body[6] = (unsigned char)job;
    ce_mac_random(body + NONCE_AT, NONCE);
    memcpy(body + JOB_AT, join->job, job);
    memcpy(body + JOB_AT + job, identity, identity_bytes);
    join->own_hello_bytes = CE_JOIN_HEAD + JOB_AT + job + identity_bytes;
    add_head(join->own_hello, HELLO, join->own_hello_bytes - CE_JOIN_HEAD);
}

cs_status ce_join_begin(ce_join *join, bool caller, const unsigned char *key, const char *job, int attempt,
                        const void *identity, size_t identity_bytes)
{
    *join = (ce_join){ .caller = caller, .keyed = key != NULL, .attempt = attempt, .phase = AWAIT_HELLO };
    if (strlen(job) > CE_JOIN_JOB)
        return ce_fail(CS_BAD_CONFIG, "job id: at most %d bytes, not %zu", CE_JOIN_JOB, strlen(job));
    if (identity_bytes > CE_JOIN_IDENTITY)
        return ce_fail(CS_BAD_CONFIG, "joining: an identity has at most %d bytes, not %zu", CE_JOIN_IDENTITY,
                       identity_bytes);
    join->deadline = ce_clock_seconds() + CE_JOIN_SECONDS;
    memcpy(join->job, job, strlen(job) + 1);
    if (key)
        memcpy(join->key, key, sizeof join->key);
    make_hello(join, identity, identity_bytes);
    if (caller)
        say(join, HELLO, join->own_hello + CE_JOIN_HEAD, join->own_hello_bytes - CE_JOIN_HEAD);
    return CS_OK;
}

short ce_join_events(const ce_join *join)
{
    return join->out_sent < join->out_bytes ? POLLOUT : POLLIN;
}

bool ce_join_heard(const ce_join *join)
{
    return join->other_hello_bytes > 0;
}

/* ---- refusing a peer ---- */

/* Refuses the peer; the caller has set the message of cs_error(). The reason is sent to the peer, unless an earlier
 * message still waits in the output buffer. */
static ce_join_state refuse(ce_join *join, int socket, int reason)
{
    unsigned char last[CE_JOIN_HEAD + 1];
    add_head(last, REFUSAL, 1);
    last[CE_JOIN_HEAD] = (unsigned char)reason;
    if (join->out_sent == join->out_bytes)
        send(socket, last, sizeof last, MSG_NOSIGNAL | MSG_DONTWAIT);
    ce_mac_forget(join->key, sizeof join->key);
    return CE_JOIN_REFUSED;
}

static ce_join_state refuse_nonsense(ce_join *join, int socket, const char *what)
{
    ce_fail(CS_NO_PEER, "malformed %s", what);
    return refuse(join, socket, NO_SENSE);
}

/* ---- proofs ---- */

static void sign(const ce_join *join, const char *purpose, int role, unsigned char *tag)
{
    struct iovec own_part = { (void *)(size_t)join->own_hello, join->own_hello_bytes };
    struct iovec its = { (void *)(size_t)join->other_hello, join->other_hello_bytes };
    char label[32];
    int length = snprintf(label, sizeof label, "cspeed %s %d", purpose, role);
    struct iovec parts[] = { { label, (size_t)length + 1 },
                             join->caller ? own_part : its,
                             join->caller ? its : own_part };
    ce_mac_once(tag, join->key, parts, 3);
}

static void prove(ce_join *join)
{
    unsigned char tag[CE_MAC_BYTES];
    sign(join, "proof", join->caller ? CALLER : LISTENER, tag);
    say(join, PROOF, tag, sizeof tag);
}

static void finish(ce_join *join)
{
    const unsigned char *body = join->other_hello + CE_JOIN_HEAD;
    size_t skip = (size_t)JOB_AT + body[6];
    join->peer_bytes = join->other_hello_bytes - CE_JOIN_HEAD - skip;
    memcpy(join->peer, body + skip, join->peer_bytes);
    sign(join, "session", 0, join->session);
    ce_mac_forget(join->key, sizeof join->key);
    join->phase = LAST_WORDS;
}

/* ---- received messages ---- */

static ce_join_state refuse_job(ce_join *join, int socket, const unsigned char *job, size_t bytes)
{
    char shown[CE_JOIN_JOB + 1] = "";
    for (size_t i = 0; i < bytes; i++)
        shown[i] = (char)(job[i] >= ' ' && job[i] < 127 ? job[i] : '?');
    ce_fail(CS_NO_PEER, "it belongs to job \"%s\", not \"%s\"", shown, join->job);
    return refuse(join, socket, OTHER_JOB);
}

static ce_join_state take_hello(ce_join *join, int socket, size_t length)
{
    const unsigned char *body = join->in + CE_JOIN_HEAD, *own_hello = join->own_hello + CE_JOIN_HEAD;
    uint32_t attempt;
    if (length < JOB_AT || body[6] > CE_JOIN_JOB || length - JOB_AT < body[6] ||
        length - JOB_AT - body[6] > CE_JOIN_IDENTITY || body[1] > 1 || body[0] != (join->caller ? LISTENER : CALLER))
        return refuse_nonsense(join, socket, "hello");
    memcpy(&attempt, body + 2, sizeof attempt);
    if ((ntohl(attempt) == (uint32_t)CE_JOIN_NODES) != (join->attempt == CE_JOIN_NODES)) {
        ce_fail(CS_NO_PEER, "%s",
                join->attempt == CE_JOIN_NODES ? "a rank has connected to the rendezvous of the nodes"
                                               : "a node has connected to the rendezvous of the ranks");
        return refuse(join, socket, OTHER_MEETING);
    }
    if (body[6] != strlen(join->job) || memcmp(body + JOB_AT, join->job, body[6]) != 0)
        return refuse_job(join, socket, body + JOB_AT, body[6]);
    if (ntohl(attempt) != (uint32_t)join->attempt) {
        ce_fail(CS_NO_PEER, "it belongs to attempt %u, not %d, of job \"%s\"", ntohl(attempt), join->attempt,
                join->job);
        return refuse(join, socket, OTHER_ATTEMPT);
    }
    if (body[1] != join->keyed) {
        ce_fail(CS_NO_PEER, "%s",
                join->keyed ? "it has no secret, but this side has one" : "it has a secret, but this side has none");
        return refuse(join, socket, ONE_SECRET);
    }
    if (memcmp(body + NONCE_AT, own_hello + NONCE_AT, NONCE) == 0) {
        ce_fail(CS_NO_PEER, "it has sent back this side's own challenge: it is not a member of the job");
        return refuse(join, socket, NO_SENSE);
    }
    memcpy(join->other_hello, join->in, CE_JOIN_HEAD + length);
    join->other_hello_bytes = CE_JOIN_HEAD + length;
    join->phase = AWAIT_PROOF;
    if (join->caller)
        prove(join);
    else
        say(join, HELLO, own_hello, join->own_hello_bytes - CE_JOIN_HEAD);
    return CE_JOIN_WAITS;
}

static ce_join_state take_proof(ce_join *join, int socket)
{
    unsigned char tag[CE_MAC_BYTES];
    sign(join, "proof", join->caller ? LISTENER : CALLER, tag);
    if (!ce_mac_equal(tag, join->in + CE_JOIN_HEAD, sizeof tag)) {
        ce_fail(CS_NO_PEER,
                "it does not have the secret of job \"%s\", or it repeats recorded messages of another connection",
                join->job);
        return refuse(join, socket, NO_SECRET);
    }
    if (!join->caller)
        prove(join);
    finish(join);
    return CE_JOIN_WAITS;
}

static ce_join_state take_refusal(ce_join *join)
{
    int reason = join->in[CE_JOIN_HEAD];
    ce_fail(CS_NO_PEER, "the other side refuses: %s (job \"%s\", attempt %d)",
            reasons[reason < REASON_COUNT ? reason : NO_SENSE], join->job, join->attempt);
    join->elsewhere = reason == OTHER_MEETING;
    ce_mac_forget(join->key, sizeof join->key);
    return CE_JOIN_REFUSED;
}

/* Returns the length of the body that the received head announces, or -1 if a message with this head is not allowed in
 * the present phase of the handshake. */
static int body_length(const ce_join *join)
{
    int kind = join->in[5], length = join->in[6] << 8 | join->in[7];
    if (kind == REFUSAL)
        return length == 1 ? length : -1;
    if (kind == HELLO && join->phase == AWAIT_HELLO)
        return length <= CE_JOIN_MESSAGE - CE_JOIN_HEAD ? length : -1;
    return kind == PROOF && join->phase == AWAIT_PROOF && length == CE_MAC_BYTES ? length : -1;
}

static ce_join_state check_head(ce_join *join, int socket)
{
    if (memcmp(join->in, magic, sizeof magic) != 0) {
        join->elsewhere = true;
        return refuse_nonsense(join, socket, "hello: this is not the protocol of cspeed's rendezvous");
    }
    if (join->in[4] != VERSION) {
        ce_fail(CS_NO_PEER,
                "it has version %d of the protocol of the rendezvous, not %d: install the same cspeed on all hosts",
                join->in[4], VERSION);
        return refuse(join, socket, OTHER_VERSION);
    }
    return body_length(join) >= 0 ? CE_JOIN_WAITS : refuse_nonsense(join, socket, "message");
}

static ce_join_state take(ce_join *join, int socket)
{
    int length = body_length(join);
    join->in_bytes = 0;
    switch (join->in[5]) {
    case HELLO:
        return take_hello(join, socket, (size_t)length);
    case PROOF:
        return take_proof(join, socket);
    default:
        return take_refusal(join);
    }
}

/* ---- sending and receiving ---- */

typedef enum { MOVED, LATER, GONE } motion;

static motion judge(ssize_t bytes)
{
    if (bytes > 0)
        return MOVED;
    return bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? LATER : GONE;
}

static motion flush(ce_join *join, int socket)
{
    while (join->out_sent < join->out_bytes) {
        ssize_t sent =
            send(socket, join->out + join->out_sent, join->out_bytes - join->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        motion how = judge(sent);
        if (how != MOVED)
            return how;
        join->out_sent += (size_t)sent;
    }
    join->out_bytes = join->out_sent = 0;
    return MOVED;
}

static motion fill(ce_join *join, int socket, size_t wanted)
{
    while (join->in_bytes < wanted) {
        ssize_t got = recv(socket, join->in + join->in_bytes, wanted - join->in_bytes, MSG_DONTWAIT);
        motion how = judge(got);
        if (how != MOVED)
            return how;
        join->in_bytes += (size_t)got;
    }
    return MOVED;
}

/* Receives one message and processes it. *how tells the caller whether bytes arrived. */
static ce_join_state hear(ce_join *join, int socket, motion *how)
{
    *how = fill(join, socket, CE_JOIN_HEAD);
    if (*how != MOVED)
        return CE_JOIN_WAITS;
    ce_join_state state = check_head(join, socket);
    if (state != CE_JOIN_WAITS)
        return state;
    *how = fill(join, socket, CE_JOIN_HEAD + (size_t)body_length(join));
    return *how == MOVED ? take(join, socket) : CE_JOIN_WAITS;
}

ce_join_state ce_join_advance(ce_join *join, int socket)
{
    motion how = flush(join, socket);
    while (how == MOVED) {
        if (join->phase == LAST_WORDS)
            return CE_JOIN_DONE;
        ce_join_state state = hear(join, socket, &how);
        if (state != CE_JOIN_WAITS)
            return state;
        if (how == MOVED)
            how = flush(join, socket);
    }
    if (how == GONE)
        ce_fail(CS_NO_PEER, "it closed the connection before it had joined");
    else if (ce_clock_seconds() > join->deadline)
        ce_fail(CS_NO_PEER, "it did not join in time");
    else
        return CE_JOIN_WAITS;
    join->silent = true;
    ce_mac_forget(join->key, sizeof join->key);
    return CE_JOIN_REFUSED;
}

/* ---- the key, and allowed addresses ---- */

static cs_status read_key(int descriptor, unsigned char *key)
{
    size_t got = 0;
    while (got < CE_MAC_BYTES) {
        /* ranks may share the memfd with its file offset, which `pread` neither reads nor changes */
        ssize_t more = pread(descriptor, key + got, CE_MAC_BYTES - got, (off_t)got);
        if (more < 0 && errno == ESPIPE)
            more = read(descriptor, key + got, CE_MAC_BYTES - got);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return ce_fail(CS_BAD_CONFIG, "CSPEED_KEY_FD: descriptor %d contains %zu bytes, and a key has %d",
                           descriptor, got, CE_MAC_BYTES);
        got += (size_t)more;
    }
    return CS_OK;
}

cs_status ce_join_key(unsigned char *key, bool *known)
{
    static bool remembered;
    static unsigned char memory[CE_MAC_BYTES];
    const char *text = getenv("CSPEED_KEY_FD");
    char *end = NULL;
    if (text && !remembered) {
        long descriptor = strtol(text, &end, 10);
        if (end == text || *end || descriptor < 0 || descriptor > 1 << 20)
            return ce_fail(CS_BAD_CONFIG, "CSPEED_KEY_FD: the number of an open descriptor, not \"%s\"", text);
        CE_TRY(read_key((int)descriptor, memory));
        close((int)descriptor);
        remembered = true;
    }
    *known = remembered;
    memcpy(key, memory, sizeof memory);
    return CS_OK;
}

bool ce_join_is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in *four = (const void *)address;
    const struct sockaddr_in6 *six = (const void *)address;
    if (address->sa_family == AF_INET)
        return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) && six->sin6_addr.s6_addr[12] == 127);
    return address->sa_family == AF_UNIX;
}

cs_status ce_join_allow(const struct sockaddr *address, bool keyed)
{
    static bool warned;
    const char *insecure = getenv("CSPEED_INSECURE_JOIN");
    if (keyed || ce_join_is_loopback(address))
        return CS_OK;
    if (!insecure || strcmp(insecure, "1") != 0)
        return ce_fail(CS_BAD_CONFIG,
                       "joining other hosts needs a secret: start the ranks with cspeed, which makes one, or set "
                       "CSPEED_SECRET; CSPEED_INSECURE_JOIN=1 (--insecure_join) turns secrets off");
    if (!warned)
        ce_log(CE_LOG_WARNING, "CSPEED_INSECURE_JOIN=1: whoever reaches this port can join the job");
    warned = true;
    return CS_OK;
}
