/* link.h - Messages between the front of a job and the agents of its nodes: framed, queued, non-blocking.
 *
 * A frame is `u32 length | u8 kind | u32 rank | bytes` in network byte order; `length` counts the bytes. On a sealed
 * link (a network socket after the handshake of join.h) a tag of CS_SEAL_TAG bytes follows (base/seal.h), computed over
 * a 64-bit sequence number of this direction, the header and the bytes; a frame with a wrong tag ends the link. Sent
 * messages are queued; cl_link_flush writes as much as the socket accepts without blocking. A link that has failed
 * remains readable up to its last complete frame. */
#ifndef CL_LINK_H
#define CL_LINK_H

#include "base/seal.h"

#include <stdint.h>
#include <sys/types.h>

/* An agent writes this before its first frame, so that the output of login shells can be skipped. */
#define CL_LINK_MAGIC "\ncspeed agent 1\n"

typedef enum {
    /* front to agent */
    CL_LINK_ORDER = 1, /* bytes: order.h; answered by READY or FAILED */
    /* bytes: MASTER_ADDR NUL MASTER_PORT NUL, which are now known; answered by one STARTED for each rank */
    CL_LINK_START,
    CL_LINK_STOP,   /* send the stop signal, wait for the grace period, send SIGKILL */
    CL_LINK_KILL,   /* send SIGKILL immediately */
    CL_LINK_SIGNAL, /* rank: number of a signal to send to every rank of the node */
    CL_LINK_SAVE,   /* rank: ask this rank for a checkpoint (ce_beat.save_asked) */
    CL_LINK_STACK,  /* rank: send the C stack of this rank; answered by STACKED */
    CL_LINK_CREDIT, /* rank: number of output bytes that the front has shown */
    CL_LINK_PING,
    CL_LINK_STAGE, /* a file, sent before its ORDER; rank: mode; bytes: FOLDER NUL PATH NUL, then the contents */
    /* the last message; bytes: closing message about the job (printed by --no_ssh nodes); rank: exit code */
    CL_LINK_FINISH,

    /* agent to front */
    CL_LINK_HELLO = 64, /* bytes: NAME=VALUE NUL ...: version, host, pid, cores, nodes, digest, workdir ... */
    CL_LINK_READY,
    CL_LINK_FAILED,  /* the order could not be carried out; rank: exit code; bytes: message */
    CL_LINK_STARTED, /* rank; bytes: pid as text                                          */
    CL_LINK_OUTPUT,  /* rank; bytes of its stdout                                         */
    CL_LINK_ERROR,   /* rank; bytes of its stderr                                         */
    /* bytes: one cl_link_beat for each rank of the node; sent every --heartbeat, and as answer to PING */
    CL_LINK_BEATS,
    CL_LINK_ENDED,   /* rank; bytes: cl_link_end, then the last lines of its stderr */
    CL_LINK_SAY,     /* bytes: a line to show to the user */
    CL_LINK_STACKED, /* rank; bytes: its C stack as text */
    /* no process of this attempt is left on the node; rank: number of processes that could not be ended; bytes:
     * their pids */
    CL_LINK_SWEPT
} cl_link_kind;

typedef struct {
    int32_t rank, collective; /* collective: index into ce_beat_names */
    int64_t step, age;        /* age: nanoseconds since the rank's last change, measured on its node */
    int64_t kept;             /* as in ce_beat, and so are the next two */
    int32_t gave_up, saves;
} cl_link_beat;

typedef struct {
    int32_t status;           /* wait status */
    int32_t stopped;          /* the agent had sent it a stop signal before it ended */
    int64_t age;              /* nanoseconds between its end and this message */
    int64_t oom_from, oom_to; /* OOM kills on the node before and after the attempt; -1: unknown */
    cl_link_beat beat;        /* the rank's last heartbeat record */
} cl_link_end;

typedef struct {
    cl_link_kind kind;
    uint32_t rank;
    /* valid until the next call on this link; a zero byte follows, so that text can be used as a string */
    const char *bytes;
    size_t length;
} cl_message;

/* A queue; bytes [from, to) of `data` are pending. */
typedef struct {
    char *data;
    size_t from, to, room;
} cl_link_queue;

typedef struct {
    int in_fd, out_fd; /* equal for a socket, different for a pair of pipes; non-blocking; -1: closed */
    bool broken;       /* no more bytes are received or sent */
    char why[160];     /* reason, if broken */
    bool sealed;
    ce_seal seal; /* of a sealed link: the keys and sequence numbers of both directions */
    cl_link_queue in, out;
    int64_t heard; /* time of the last received bytes; CLOCK_MONOTONIC nanoseconds */
} cl_link;

/* Opens a link and takes ownership of the descriptors. `key` has CS_MAC_BYTES bytes, or is NULL for an unsealed
 * link. `calls` is true at the end that opened the connection. */
void cl_link_open(cl_link *link, int in_fd, int out_fd, const unsigned char *key, bool calls);
void cl_link_close(cl_link *link); /* accepts a link that is closed, or all zero */
bool cl_link_is_open(const cl_link *link);

/* Queue one frame. A broken or closed link drops it. cl_link_say formats the bytes as text of at most 8191 bytes. */
void cl_link_send(cl_link *link, cl_link_kind kind, uint32_t rank, const void *bytes, size_t length);
void cl_link_say(cl_link *link, cl_link_kind kind, uint32_t rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool cl_link_waits(const cl_link *link);               /* true if output is pending: poll for POLLOUT */
void cl_link_flush(cl_link *link);                     /* writes queued frames until done, or until it would block */
void cl_link_fill(cl_link *link, int64_t now);         /* reads the available bytes without blocking */
bool cl_link_next(cl_link *link, cl_message *message); /* returns true and the next complete frame, if there is one */

#endif
