/* join.h - mutual authentication of two processes of a job over a stream socket: a challenge-response handshake.
 *
 *     caller                                     listener
 *     hello: nonce, job, attempt, identity  ->
 *                                           <-   hello: nonce, job, attempt, identity
 *     proof                                 ->
 *                                           <-   proof
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
 * Ranks join one attempt of a job: `attempt` is the number of this attempt. Nodes join the job as a whole: `attempt` is
 * CE_JOIN_NODES. Ranks and nodes may use the same port at different times, so a listener refuses a caller whose
 * `attempt` differs from its own.
 *
 * No function blocks. The program polls the socket for the events that ce_join_events returns. It calls ce_join_advance
 * when such an event occurs, and at least once a second, so that a silent peer is refused at the deadline. No byte
 * after the handshake is read. In the states CE_JOIN_DONE and CE_JOIN_REFUSED the socket belongs to the program. The
 * key has 32 bytes. If the job has no key, both sides give NULL as the key. */
#ifndef CE_SECURITY_JOIN_H
#define CE_SECURITY_JOIN_H

#include "security/mac.h"
#include "base/status.h"

#include <sys/socket.h>

enum {
    CE_JOIN_JOB = 128,      /* maximum length of a job's id, in bytes */
    CE_JOIN_IDENTITY = 256, /* maximum length of an identity, in bytes */
    CE_JOIN_SECONDS = 20,   /* time limit of a handshake, in seconds */
    CE_JOIN_NODES = -1,     /* the value of `attempt` that nodes use */
    CE_JOIN_HEAD = 8,
    CE_JOIN_MESSAGE = CE_JOIN_HEAD + 39 + CE_JOIN_JOB + CE_JOIN_IDENTITY
};

typedef enum { CE_JOIN_WAITS, CE_JOIN_DONE, CE_JOIN_REFUSED } ce_join_state;

typedef struct {
    /* After CE_JOIN_DONE: the session key of this connection, the same on both sides. */
    unsigned char session[CE_MAC_BYTES];
    unsigned char peer[CE_JOIN_IDENTITY + 1]; /* after CE_JOIN_DONE: the peer's identity, with a zero byte at the end */
    size_t peer_bytes;                        /* length of `peer` in bytes, without the zero byte */
    /* True after CE_JOIN_REFUSED if the peer gave no reason: it closed the connection, or its messages did not arrive
     * before `deadline`. */
    bool silent;
    /* True after CE_JOIN_REFUSED if the peer does not use this protocol, or if the peer has refused this side for being
     * of the wrong kind: the peer accepts only ranks and this side is a node, or the peer accepts only nodes and this
     * side is a rank. */
    bool elsewhere;
    /* The time of ce_clock_seconds at which the handshake fails; ce_join_begin sets it to CE_JOIN_SECONDS from now. */
    double deadline;

    /* The members below are private to join.c. */
    bool caller, keyed;
    int phase, attempt;
    unsigned char key[CE_MAC_BYTES];
    char job[CE_JOIN_JOB + 1];
    unsigned char own_hello[CE_JOIN_MESSAGE], other_hello[CE_JOIN_MESSAGE]; /* hellos of both sides, with heads */
    size_t own_hello_bytes, other_hello_bytes;
    unsigned char in[CE_JOIN_MESSAGE], out[CE_JOIN_MESSAGE + CE_JOIN_HEAD + CE_MAC_BYTES];
    size_t in_bytes, out_bytes, out_sent;
} ce_join;

/* Prepares a handshake. `caller` is true on the side that opened the connection. Returns CS_BAD_CONFIG if `job` or
 * `identity` is too long. */
cs_status ce_join_begin(ce_join *join, bool caller, const unsigned char *key, const char *job, int attempt,
                        const void *identity, size_t identity_bytes);
/* Sends and receives what is possible without blocking, and returns the new state. If that is CE_JOIN_REFUSED,
 * cs_error() has the reason. */
ce_join_state ce_join_advance(ce_join *join, int socket);
/* Returns the event for which to poll the socket while the state is CE_JOIN_WAITS: POLLIN or POLLOUT. */
short ce_join_events(const ce_join *join);
/* Returns true if a complete hello of this job has arrived. A listener with too many connections first closes the
 * connections on which no hello has arrived: a process of the job sends its hello at once, and most foreign programs
 * send none. */
bool ce_join_heard(const ce_join *join);

/* Reads the job's key from the file descriptor that CSPEED_KEY_FD names. The first call reads and closes the
 * descriptor; the process stores the key for later calls. *known is false if the variable is not set. Returns
 * CS_BAD_CONFIG if the descriptor gives fewer than 32 bytes. */
cs_status ce_join_key(unsigned char *key, bool *known);
/* Checks whether a socket may be bound or connected to this address. With a key every address is allowed. Without a key
 * only loopback addresses are allowed, unless CSPEED_INSECURE_JOIN=1 allows every address, with a warning that is
 * printed once. Returns CS_BAD_CONFIG if the address is not allowed; cs_error() then says what to do. */
bool ce_join_is_loopback(const struct sockaddr *address);
cs_status ce_join_allow(const struct sockaddr *address, bool keyed);

#endif
