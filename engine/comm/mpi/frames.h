/* frames.h - MPI in this process, and the messages of a comm. For the files of libcspeed_mpi.so.
 *
 * All comms of a process share one duplicate of MPI_COMM_WORLD. A comm has its own tag, which no other open comm of its
 * ranks has. So a group needs no MPI communicator, and only its own ranks take part when it is opened.
 *
 * A message is sent as a frame: a head, which names the collective call, and pieces of data of at most CE_MPI_PIECE
 * bytes, which go directly from the sender's buffer to the receiver's. MPI keeps the order of messages with the same
 * tag between two ranks. All ranks must have the same byte order.
 *
 * Only one thread at a time calls MPI (MPI_THREAD_SERIALIZED). Threads that send or receive hold ce_mpi_lock.
 * None of these calls blocks, so that the thread of the nonblocking calls can move its messages while another thread
 * waits. */
#ifndef CE_COMM_MPI_FRAMES_H
#define CE_COMM_MPI_FRAMES_H

#include "comm/transport.h"

#include <mpi.h>

enum {
    CE_MPI_FRAMES = 2,      /* maximum number of frames of a queue */
    CE_MPI_MEETING = 0,     /* tag of the messages by which the ranks of a new comm agree on its tag */
    CE_MPI_PIECE = 1 << 30, /* maximum bytes of a piece, because MPI counts bytes in an int */
    /* A value of ce_call.what that is not a collective. It means that the sender closes its comm. */
    CE_MPI_CLOSED = 100
};

typedef struct {
    ce_call call;
    uint64_t bytes; /* length of the data after the head, in bytes */
} ce_mpi_head;

typedef struct {
    ce_mpi_head head;
    char *data;
    size_t bytes, given;                    /* length of the data, and number of its bytes that were passed to MPI */
    bool begun;                             /* true if the head was passed to MPI */
    MPI_Request head_request, data_request; /* requests to MPI; MPI_REQUEST_NULL if nothing is in progress */
} ce_mpi_frame;

/* The frames of the current call for one direction. */
typedef struct {
    int count, at; /* number of frames in the queue, and number of complete frames */
    ce_mpi_frame frames[CE_MPI_FRAMES];
} ce_mpi_queue;

typedef struct {
    ce_mpi_queue out, in;
    bool is_early; /* True if `early` is the head of the next frame, which arrived before a frame was expected. */
    ce_mpi_head early;
} ce_mpi_link;

typedef struct {
    cs_comm *comm;
    int tag;            /* the comm's tag; 0 if the comm is not open */
    ce_mpi_link *links; /* array with one element for each rank */
    int yields;         /* number of times that a waiting rank yields its core before it sleeps */
} ce_mpi;

/* The functions and the variable from here to ce_mpi_is_done are in library.c. */
cs_status ce_mpi_library_open(const cs_comm *comm); /* initializes MPI, once for each process */
extern MPI_Comm ce_mpi_ranks;                       /* the duplicate of MPI_COMM_WORLD */
/* Returns the address of the last tag that this process has used, and sets *greatest to the greatest possible tag. */
int *ce_mpi_last_tag(int *greatest);
void ce_mpi_lock(void);
void ce_mpi_unlock(void);
void ce_mpi_check(int error, const char *what); /* ends the process if `error` is not MPI_SUCCESS */
bool ce_mpi_is_done(MPI_Request *request);      /* returns true if the request is complete or is MPI_REQUEST_NULL */

/* The next two functions are in frames.c and implement members of ce_transport. */
bool ce_mpi_frames_move(cs_comm *comm, ce_message *messages, int count, bool wait);
void ce_mpi_frames_lose(cs_comm *comm, int peer, const char *how);

#endif
