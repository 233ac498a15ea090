/* join.h - mutual authentication of two processes of a job over a stream socket: a challenge-response handshake.
 *
 *     caller                                listener
 *     hello: nonce, job, attempt, who  ->
 *                                      <-   hello: nonce, job, attempt, who
 *     proof                            ->
 *                                      <-   proof
 *
 * A proof is an HMAC with the job's key over the role of the sender and both hellos. It is therefore valid only for
 * these nonces, this role, this job and attempt and these identities, so a recorded proof cannot be replayed on another
 * connection. After the handshake both sides derive the same session key for the messages that follow.
 *
 * The caller sends its hello and its proof first. Anyone on the network may connect to a listener. The listener
 * therefore sends nothing that was computed with the key until the caller has proved that it knows the key. An attacker
 * that records a whole handshake, or takes the listener's place, can still test guesses of the secret against a proof;
 * only a long random secret protects against that. The key itself is never sent. All other data is authenticated but
 * not encrypted.
 *
 * Ranks join one attempt of a job, whose number is `attempt`; nodes join the job (CS_JOIN_NODES). Ranks and nodes may
 * use the same port at different times, so a listener first checks whether the caller joins what it listens for.
 *
 * No function blocks. Poll the socket for ce_join_events and call ce_join_advance then, and at least once a second, so
 * that a silent peer is refused at the deadline. No byte beyond the handshake is read. After DONE or REFUSED the
 * calling code owns the socket. The key has 32 bytes. NULL means that the job has no key; then both sides must give
 * NULL. */
#ifndef CS_BASE_JOIN_H
#define CS_BASE_JOIN_H

#include "base/mac.h"
#include "base/status.h"

#include <sys/socket.h>

enum {
    CS_JOIN_JOB = 128,      /* maximum length of a job's id, in bytes */
    CS_JOIN_IDENTITY = 256, /* maximum length of an identity, in bytes */
    CS_JOIN_SECONDS = 20,   /* time limit of a handshake */
    CS_JOIN_NODES = -1,     /* value of `attempt` with which nodes join */
    CS_JOIN_HEAD = 8,
    CS_JOIN_MESSAGE = CS_JOIN_HEAD + 39 + CS_JOIN_JOB + CS_JOIN_IDENTITY
};

typedef enum { CS_JOIN_WAITS, CS_JOIN_DONE, CS_JOIN_REFUSED } ce_join_state;

typedef struct {
    unsigned char session[CS_MAC_BYTES];      /* after DONE: the key of this connection, the same on both sides */
    unsigned char peer[CS_JOIN_IDENTITY + 1]; /* after DONE: the peer's identity, with a zero byte at the end */
    size_t peer_bytes;                        /* length of `peer` in bytes, without the zero byte */
    bool silent;     /* after REFUSED: the peer closed the connection or sent nothing, and gave no reason */
    bool elsewhere;  /* after REFUSED: the peer is of another job or attempt, or uses another protocol */
    double deadline; /* time of ce_clock_seconds; ce_join_begin sets it to CS_JOIN_SECONDS from now */

    /* private to join.c */
    bool caller, keyed;
    int phase, attempt;
    unsigned char key[CS_MAC_BYTES];
    char job[CS_JOIN_JOB + 1];
    unsigned char own_hello[CS_JOIN_MESSAGE], other_hello[CS_JOIN_MESSAGE]; /* the hellos */
    size_t own_hello_bytes, other_hello_bytes;
    unsigned char in[CS_JOIN_MESSAGE], out[CS_JOIN_MESSAGE + CS_JOIN_HEAD + CS_MAC_BYTES];
    size_t in_bytes, out_bytes, out_sent;
} ce_join;

/* Prepares a handshake. `caller` is true on the side that connected. CS_BAD_CONFIG: job or identity is too long. */
cs_status ce_join_begin(ce_join *join, bool caller, const unsigned char *key, const char *job, int attempt,
                        const void *identity, size_t identity_bytes);
/* Sends and receives what is possible without blocking. After REFUSED cs_error() has the reason. */
ce_join_state ce_join_advance(ce_join *join, int socket);
/* Returns the event for which to poll the socket while the handshake WAITS: POLLIN or POLLOUT. */
short ce_join_events(const ce_join *join);
/* True if a complete hello of this job has arrived. A listener that has too many connections first closes those from
 * which no hello has arrived: a process of the job sends its hello at once, and most foreign programs send none. */
bool ce_join_heard(const ce_join *join);

/* Reads the job's key from the file descriptor that CSPEED_KEY_FD names. The first call reads and closes the
 * descriptor, and the process keeps the key. *known is false if the variable is not set. CS_BAD_CONFIG: the descriptor
 * gives fewer than 32 bytes. */
cs_status ce_join_key(unsigned char *key, bool *known);
/* Checks whether a socket may be bound or connected to this address. With a key every address is allowed. Without a key
 * only loopback addresses are allowed. CSPEED_INSECURE_JOIN=1 allows every address without a key, and prints a warning
 * once. CS_BAD_CONFIG: cs_error() says what to do. */
cs_status ce_join_allow(const struct sockaddr *address, bool keyed);

#endif
