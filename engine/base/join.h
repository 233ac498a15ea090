/* join.h - how two processes of a job find out that both are of it: a mutual challenge over a stream socket.
 *
 *     caller                                listener
 *     hello: nonce, job, attempt, who  ->
 *                                      <-   hello: nonce, job, attempt, who
 *     proof                            ->
 *                                      <-   proof
 *
 * A proof is the HMAC, under the job's key, of who proves and both hellos, so it holds for these nonces, this role,
 * this job and attempt and these identities alone: nothing heard on another connection can be used again. Both then
 * have a session key of their own, for the frames that follow. The caller speaks first and proves first: a listener,
 * which anybody on the network may call, gives nothing that was made with the key before the caller has proved that it
 * knows it. Whoever hears a whole joining, or listens in a listener's place, can still try guesses of the secret
 * against a proof; against that only a long random secret helps. Nothing is hidden on the way but the key, which does
 * not travel.
 *
 * Ranks meet in an attempt of a job, whose number is `attempt`, and nodes in the job itself (CS_JOIN_NODES). Both may
 * use the same port one after the other, so a listener says first of all whether it is the other meeting.
 *
 * It never blocks: poll the socket for cs_join_events and call cs_join_advance, once a second at least, so that whoever
 * is silent is let go of at the deadline. It reads not one byte beyond the handshake. After DONE or REFUSED the socket
 * is the caller's to use or to close. The key is 32 bytes, or NULL: none (both sides must have none). */
#ifndef CS_BASE_JOIN_H
#define CS_BASE_JOIN_H

#include "base/mac.h"
#include "base/status.h"

#include <sys/socket.h>

enum {
    CS_JOIN_JOB = 128,      /* most bytes of a job's id   */
    CS_JOIN_IDENTITY = 256, /* most bytes of an identity  */
    CS_JOIN_SECONDS = 20,   /* a handshake may take       */
    CS_JOIN_NODES = -1,     /* as `attempt`: see above    */
    CS_JOIN_HEAD = 8,
    CS_JOIN_MESSAGE = CS_JOIN_HEAD + 39 + CS_JOIN_JOB + CS_JOIN_IDENTITY
};

typedef enum { CS_JOIN_WAITS, CS_JOIN_DONE, CS_JOIN_REFUSED } cs_join_state;

typedef struct {
    unsigned char session[CS_MAC_BYTES];      /* when DONE: the key of this connection, the same on both sides */
    unsigned char peer[CS_JOIN_IDENTITY + 1]; /* when DONE: what the other said it is; a zero byte behind      */
    size_t peer_bytes;
    bool silent;     /* when REFUSED: the other hung up or said nothing, and gave no reason             */
    bool elsewhere;  /* when REFUSED: the other is not of this meeting, or does not speak this protocol */
    double deadline; /* of cs_clock_seconds; begin sets it to CS_JOIN_SECONDS from now                  */

    /* join.c's own */
    bool caller, keyed;
    int phase, attempt;
    unsigned char key[CS_MAC_BYTES];
    char job[CS_JOIN_JOB + 1];
    unsigned char own[CS_JOIN_MESSAGE], other[CS_JOIN_MESSAGE]; /* the hellos */
    size_t own_bytes, other_bytes;
    unsigned char in[CS_JOIN_MESSAGE], out[CS_JOIN_MESSAGE + CS_JOIN_HEAD + CS_MAC_BYTES];
    size_t in_bytes, out_bytes, out_sent;
} cs_join;

/* CS_BAD_CONFIG when job or identity are too long. */
cs_status cs_join_begin(cs_join *join, bool caller, const unsigned char *key, const char *job, int attempt,
                        const void *identity, size_t identity_bytes);
/* REFUSED leaves its sentence in cs_error(). */
cs_join_state cs_join_advance(cs_join *join, int socket);
/* What to poll the socket for while it WAITS: POLLIN or POLLOUT. */
short cs_join_events(const cs_join *join);
/* Whether a whole hello of this job has come. A listener that must let go of a caller lets go of one without first: a
 * process of the job sends its hello at once, and most strangers send none. */
bool cs_join_heard(const cs_join *join);

/* The job's key from the descriptor that CSPEED_KEY_FD names; it is read and closed once, and the process remembers.
 * *known is false when the variable is unset. A descriptor that holds less than 32 bytes: CS_BAD_CONFIG. */
cs_status cs_join_key(unsigned char *key, bool *known);
/* Whether a socket may be bound to, or connected to, this address: any with a key, loopback alone without, unless
 * CSPEED_INSECURE_JOIN=1, which warns once. CS_BAD_CONFIG says what to do. */
cs_status cs_join_allow(const struct sockaddr *address, bool keyed);

#endif
