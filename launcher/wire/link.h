/* link.h - messages between the front process of a job and the agents of its nodes: framed, queued, non-blocking.
 *
 * A frame is `u32 length | u8 kind | u32 rank | bytes` in network byte order; `length` is the number of bytes in the
 * field `bytes` alone. On a sealed link (a network socket after the handshake of security/join.h), a tag of CE_SEAL_TAG
 * bytes follows each frame (security/seal.h). The tag is computed over a 64-bit sequence number of this direction, the
 * header and the bytes; a frame with a wrong tag ends the link. Sent messages are queued; cl_link_flush writes as much
 * as the socket accepts without blocking. A link that has failed remains readable up to its last complete frame. */
#ifndef CL_LINK_H
#define CL_LINK_H

#include "base/beat.h"
#include "security/seal.h"

#include <stdint.h>
#include <sys/types.h>

/* An agent writes this text before its first frame, so that the front process can skip the output of login shells. */
#define CL_LINK_MAGIC "\ncspeed agent 1\n"

/* The form of the messages below. A change of a message that another build of the same version would misread has a new
 * number; nodes with different numbers refuse each other. */
#define CL_LINK_EDITION "2"

/* The kinds of messages. The comments say what the fields `rank` and `bytes` of the frame contain. */
typedef enum {
    /* ---- front process to agent ---- */
    CL_LINK_ORDER = 1, /* bytes: the order (order.h); answered by READY or FAILED */
    /* starts the ranks; bytes: MASTER_ADDR NUL MASTER_PORT NUL; answered by one STARTED for each rank */
    CL_LINK_START,
    CL_LINK_STOP,   /* the agent sends the stop signal, waits `rank` milliseconds, and sends SIGKILL */
    CL_LINK_KILL,   /* the agent sends SIGKILL to its ranks immediately */
    CL_LINK_SIGNAL, /* rank: the number of a signal that the agent sends to every rank of the node */
    CL_LINK_STACK,  /* rank: the rank whose C stack is wanted; the agent answers with STACKED */
    CL_LINK_CREDIT, /* the field `rank` holds the number of output bytes that the front process has shown */
    CL_LINK_PING,
    CL_LINK_STAGE, /* a file, sent before the order; rank: its mode; bytes: FOLDER NUL PATH NUL, then its contents */
    /* The last message to a node. bytes: the closing message about the job; with --no_ssh, the node prints this
     * message. rank: the exit code. */
    CL_LINK_FINISH,

    /* ---- agent to front process ---- */
    /* bytes: NAME=VALUE NUL ..., with the names version, commit, edition, host, pid, cores, nodes, digest, workdir ... */
    CL_LINK_HELLO = 64,
    CL_LINK_READY,
    /* The agent could not carry out the order. rank: the exit code; bytes: the error message. Or a signal has asked the
     * node to end. rank: CL_CODE_SIGNAL + its number; no bytes. */
    CL_LINK_FAILED,
    CL_LINK_STARTED, /* rank: the rank; bytes: its process id as text */
    CL_LINK_OUTPUT,  /* rank: the rank; bytes: a part of its stdout */
    CL_LINK_ERROR,   /* rank: the rank; bytes: a part of its stderr */
    /* bytes: one cl_link_beat for each rank of the node; sent every second, and as the answer to PING */
    CL_LINK_BEATS,
    CL_LINK_ENDED,   /* rank: the rank; bytes: cl_link_end, then the last lines of its stderr */
    CL_LINK_SAY,     /* bytes: a line that is shown to the user */
    CL_LINK_STACKED, /* rank: the rank; bytes: its C stack as text */
    /* No process of this attempt runs on the node any more. rank: the number of processes that could not be ended;
     * bytes: the ids of these processes. */
    CL_LINK_SWEPT
} cl_link_kind;

typedef struct {
    int32_t rank;
    int32_t halted; /* true: the process of the rank is stopped (SIGSTOP) */
    /* age: nanoseconds since the record of the rank last changed, measured on its node. age and step are -1 if the rank
     * has not written its record yet. The members below `age` have the same meaning as in ce_beat. */
    int64_t age;
    int64_t step, kept;
    int32_t collectives[CE_BEAT_AXES], phase, unit, micro;
    int32_t gave_up, saves;
    char name[CE_BEAT_NAME];
} cl_link_beat;

typedef struct {
    int32_t status;  /* wait status */
    int32_t stopped; /* true: the agent had sent a stop signal to the rank before the rank ended */
    int64_t age;     /* nanoseconds between the end of the rank and this message */
    /* ce_cgroup_oom_kills() at the start of the attempt, and when this message was made; -1: unknown */
    int64_t oom_from, oom_to;
    cl_link_beat beat; /* the rank's last heartbeat record */
} cl_link_end;

typedef struct {
    cl_link_kind kind;
    uint32_t rank;
    /* the bytes of the message, valid until the next call on this link; a zero byte follows, so that they can be used
     * as text */
    const char *bytes;
    size_t length;
} cl_message;

/* A queue of bytes; the bytes [from, to) of `data` are pending. */
typedef struct {
    char *data;
    size_t from, to, capacity;
} cl_link_queue;

typedef struct {
    /* the descriptors: equal for a socket, different for a pair of pipes; non-blocking; -1: the link is closed */
    int in_fd, out_fd;
    bool broken;   /* the link has failed: no more bytes are received or sent */
    char why[160]; /* if `broken` is true: the reason */
    bool sealed;
    ce_seal seal; /* if `sealed` is true: the keys and the sequence numbers of both directions */
    cl_link_queue in, out;
    int64_t heard; /* time when bytes were last received, in CLOCK_MONOTONIC nanoseconds */
} cl_link;

/* Opens a link, which then owns the descriptors. `key` has CE_MAC_BYTES bytes; it is NULL for a link that is not
 * sealed. `calls` is true on the side that has opened the connection. */
void cl_link_open(cl_link *link, int in_fd, int out_fd, const unsigned char *key, bool calls);
/* closes the descriptors and frees the queues; does nothing if the link is closed or all its bytes are zero */
void cl_link_close(cl_link *link);
bool cl_link_is_open(const cl_link *link);

/* cl_link_send and cl_link_say queue one frame, or drop it if the link is broken or closed. cl_link_say formats the
 * bytes as text of at most 8191 bytes. */
void cl_link_send(cl_link *link, cl_link_kind kind, uint32_t rank, const void *bytes, size_t length);
void cl_link_say(cl_link *link, cl_link_kind kind, uint32_t rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* returns true if frames are queued, so that poll must wait for POLLOUT */
bool cl_link_waits(const cl_link *link);
/* writes queued frames until the queue is empty or a write would block */
void cl_link_flush(cl_link *link);
void cl_link_fill(cl_link *link, int64_t now); /* reads the bytes that have arrived, without blocking */
/* returns true and the next complete frame, or false if there is none */
bool cl_link_next(cl_link *link, cl_message *message);

#endif
