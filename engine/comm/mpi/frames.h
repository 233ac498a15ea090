/* frames.h - MPI in this process, and the messages of a comm. For the files of libcspeed_mpi.so.
 *
 * All comms of a process share one duplicate of MPI_COMM_WORLD. A comm has a tag of its own there, which is not the tag
 * of any other open comm of its ranks, so a group needs no MPI communicator, and its ranks meet without the others.
 *
 * A message is sent as a head, which names the collective call, and pieces of data of at most CS_MPI_PIECE bytes, which
 * go directly from the sender's buffer to the receiver's. MPI keeps the order of messages with the same tag between two
 * ranks. All ranks must have the same byte order.
 *
 * Only one thread at a time calls MPI (MPI_THREAD_SERIALIZED), under ce_mpi_lock. No call blocks while the lock is
 * held, so that the thread of the calls that return at once moves its messages while another thread waits. */
#ifndef CS_COMM_MPI_FRAMES_H
#define CS_COMM_MPI_FRAMES_H

#include "comm/transport.h"

#include <mpi.h>

enum {
    CS_MPI_FRAMES = 2,      /* maximum number of frames of a queue */
    CS_MPI_MEETING = 0,     /* the tag of the messages by which ranks agree on a comm's tag */
    CS_MPI_PIECE = 1 << 30, /* bytes; MPI counts them in an int */
    CS_MPI_CLOSED = 100     /* a value of ce_call.what that is not a collective: the sender closes its comm */
};

typedef struct {
    ce_call call;
    uint64_t bytes; /* length of the data after the head */
} ce_mpi_head;

typedef struct {
    ce_mpi_head head;
    char *data;
    size_t bytes, given;                    /* given: bytes of the data that were given to MPI */
    bool begun;                             /* the head was given to MPI */
    MPI_Request head_request, data_request; /* MPI_REQUEST_NULL: nothing is under way */
} ce_mpi_frame;

/* The frames of the current call for one direction. */
typedef struct {
    int count, at; /* count: frames in the queue; at: frames that are complete */
    ce_mpi_frame frames[CS_MPI_FRAMES];
} ce_mpi_queue;

typedef struct {
    ce_mpi_queue out, in;
    bool is_early; /* `early` is the head of the next frame, which arrived before a frame was expected */
    ce_mpi_head early;
} ce_mpi_link;

typedef struct {
    cs_comm *comm;
    int tag;            /* 0: the comm is not open */
    ce_mpi_link *links; /* [size] */
    int yields;         /* how often a waiting rank yields its core before it sleeps */
} ce_mpi;

/* library.c */
cs_status ce_mpi_library_open(const cs_comm *comm); /* initializes MPI, once for each process */
extern MPI_Comm ce_mpi_ranks;                       /* the duplicate of MPI_COMM_WORLD */
int *ce_mpi_last_tag(int *greatest); /* the last tag that this process has used, and the greatest possible one */
void ce_mpi_lock(void);
void ce_mpi_unlock(void);
void ce_mpi_check(int error, const char *what); /* ends the process if `error` is not MPI_SUCCESS */
bool ce_mpi_is_done(MPI_Request *request);      /* MPI_REQUEST_NULL is done */

/* frames.c: functions of ce_transport */
bool ce_mpi_frames_move(cs_comm *comm, ce_message *messages, int count, bool wait);
void ce_mpi_frames_lose(cs_comm *comm, int peer, const char *how);

#endif
