/* link.h - messages between the front of a job and the agents of its nodes: framed, queued, never blocking.
 *
 * A frame is `u32 length | u8 kind | u32 rank | bytes` in network byte order, length counting the bytes. On a sealed
 * link (a socket on a network, after join.h) 32 bytes of HMAC-SHA256 follow, over a 64-bit sequence number of this
 * direction, the header and the bytes; a frame whose MAC is wrong ends the link. What is sent is queued; cl_link_flush
 * writes what goes without blocking. A link that has failed stays readable until its last whole frame. */
#ifndef CL_LINK_H
#define CL_LINK_H

#include "base/mac.h"

#include <stdint.h>
#include <sys/types.h>

/* What an agent writes before its first frame, so that a shell's greetings can be skipped. */
#define CL_LINK_MAGIC "\ncspeed agent 1\n"

typedef enum {
    /* to an agent */
    CL_LINK_ORDER = 1, /* bytes: order.h; answered by READY or FAILED                         */
    CL_LINK_START,     /* bytes: MASTER_ADDR NUL MASTER_PORT NUL, as now known; answered by STARTED a rank */
    CL_LINK_STOP,      /* the stop signal, the grace, then SIGKILL                            */
    CL_LINK_KILL,      /* SIGKILL now                                                         */
    CL_LINK_SIGNAL,    /* rank: a signal's number, for every rank of the node                 */
    CL_LINK_STACK,     /* rank: whose C stack is wanted; answered by STACK                    */
    CL_LINK_CREDIT,    /* rank: bytes of output that have been shown                          */
    CL_LINK_PING,
    CL_LINK_STAGE,  /* a file, before the ORDER it is for; rank: its mode; bytes: FOLDER NUL PATH NUL, then its own */
    CL_LINK_FINISH, /* nothing more will come; bytes: the last words about the job (no_ssh nodes print them); rank: its
                       exit code */

    /* from an agent */
    CL_LINK_HELLO = 64, /* bytes: NAME=VALUE NUL ...: version, host, pid, cores, nodes, digest, workdir ...  */
    CL_LINK_READY,
    CL_LINK_FAILED,  /* could not do as ordered; rank: exit code; bytes: the sentence     */
    CL_LINK_STARTED, /* rank; bytes: pid as text                                          */
    CL_LINK_OUTPUT,  /* rank; bytes of its stdout                                         */
    CL_LINK_ERROR,   /* rank; bytes of its stderr                                         */
    CL_LINK_BEATS,   /* bytes: cl_link_beat a rank of the node; every --heartbeat, and when asked by PING */
    CL_LINK_ENDED,   /* rank; bytes: cl_link_end, then the tail of its stderr              */
    CL_LINK_SAY,     /* bytes: a line for the user                                        */
    CL_LINK_STACKED, /* rank; bytes: its C stack as text                                  */
    CL_LINK_SWEPT /* nothing of this attempt is left on the node; rank: processes that do not end; bytes: their pids as
                     text */
} cl_link_kind;

typedef struct {
    int32_t rank, collective; /* collective: index into cs_beat_names */
    int64_t step, age;        /* age: nanoseconds since the rank's last change, measured on its node */
    int64_t kept, gave_up;    /* as in cs_beat */
} cl_link_beat;

typedef struct {
    int32_t status;           /* of wait                                                    */
    int32_t stopped;          /* the agent had signalled it before                          */
    int64_t age;              /* nanoseconds since it ended, when this was sent             */
    int64_t oom_from, oom_to; /* kills for want of memory on the node: before, after; -1: not known */
    cl_link_beat beat;        /* where it was                                       */
} cl_link_end;

typedef struct {
    cl_link_kind kind;
    uint32_t rank;
    const char *bytes; /* until the next call on this link; a zero byte behind, so that text may be read as it is */
    size_t length;
} cl_message;

/* Bytes [from, to) of `data` wait. */
typedef struct {
    char *data;
    size_t from, to, room;
} cl_link_queue;

typedef struct {
    int in_fd, out_fd;               /* the same, but for an agent on a pair of pipes; non-blocking; -1: closed */
    bool broken;                     /* no more bytes come or go */
    char why[160];                   /* it is broken             */
    cs_mac *sent_mac, *received_mac; /* NULL: not sealed */
    uint64_t sent, received;         /* sequence numbers */
    cl_link_queue in, out;
    int64_t heard; /* when bytes last came; CLOCK_MONOTONIC nanoseconds */
} cl_link;

/* Takes the descriptors over. `key` is of CS_MAC_BYTES; NULL: not sealed. `calls`: which of the two ends this is. */
void cl_link_open(cl_link *link, int in_fd, int out_fd, const unsigned char *key, bool calls);
void cl_link_close(cl_link *link); /* accepts one that was closed, or zeroed */
bool cl_link_is_open(const cl_link *link);

void cl_link_send(cl_link *link, cl_link_kind kind, uint32_t rank, const void *bytes, size_t length);
void cl_link_say(cl_link *link, cl_link_kind kind, uint32_t rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool cl_link_waits(const cl_link *link); /* for room to write: poll for POLLOUT */
void cl_link_flush(cl_link *link);
void cl_link_fill(cl_link *link, int64_t now);         /* reads what is there        */
bool cl_link_next(cl_link *link, cl_message *message); /* takes the next whole frame */

#endif
