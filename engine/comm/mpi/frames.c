/* frames.c - sends and receives frames to and from all ranks at once, and compares the calls of ranks.
 *
 * The code does not look for lost ranks, because MPI does not say which rank is lost: when a process dies, mpirun or
 * srun ends the others. */
#include "comm/mpi/frames.h"
#include "base/clock.h"
#include "base/must.h"

#include <sched.h>
#include <time.h>

enum { PAUSE = 50 * 1000 }; /* sleep of a waiting rank, in nanoseconds */
#define LOOK_SECONDS 0.1    /* seconds between two checks of the call's time limit */
#define SENDER_SECONDS 1.0  /* seconds between two calls of check_senders */

static void add(ce_mpi_queue *queue, const cs_comm *comm, void *data, size_t bytes)
{
    CE_ASSERT(queue->count < CE_MPI_FRAMES);
    queue->frames[queue->count++] = (ce_mpi_frame){ .head = { comm->call, bytes },
                                                    .data = data,
                                                    .bytes = bytes,
                                                    .head_request = MPI_REQUEST_NULL,
                                                    .data_request = MPI_REQUEST_NULL };
}

void ce_mpi_frames_lose(cs_comm *comm, int peer, const char *how)
{
    ce_fatal(CS_NO_PEER, "rank %d %s (while this rank waited in %s)", ce_comm_name(comm, peer), how,
             ce_call_name(comm->call.what));
}

/* Ends the process unless rank `from` makes the same call as this rank. */
static void check_call(const ce_mpi *mpi, int from, const ce_call *its)
{
    cs_comm *comm = mpi->comm;
    if (its->what == CE_MPI_CLOSED)
        ce_mpi_frames_lose(comm, from, "has left");
    if (!ce_call_same(its, &comm->call))
        ce_call_refuse(ce_comm_name(comm, comm->world.rank), &comm->call, ce_comm_name(comm, from), its);
}

static void check_head(const ce_mpi *mpi, int from, const ce_mpi_frame *frame)
{
    check_call(mpi, from, &frame->head.call);
    if (ce_call_is_message(&frame->head.call) && frame->head.bytes != frame->bytes)
        ce_fatal(CS_DISAGREE, "rank %d sent %llu bytes, but rank %d receives %zu: both must name the same length",
                 ce_comm_name(mpi->comm, from), (unsigned long long)frame->head.bytes,
                 ce_comm_name(mpi->comm, mpi->comm->world.rank), frame->bytes);
    CE_ASSERT(frame->head.bytes == frame->bytes);
}

/* ---- queues ---- */

static bool is_complete(const ce_mpi_queue *queue)
{
    return queue->at == queue->count;
}

static MPI_Request give(const ce_mpi *mpi, int peer, bool incoming, void *data, size_t bytes)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int other = ce_comm_name(mpi->comm, peer);
    if (incoming)
        ce_mpi_check(MPI_Irecv(data, (int)bytes, MPI_BYTE, other, mpi->tag, ce_mpi_ranks, &request), "MPI_Irecv");
    else
        ce_mpi_check(MPI_Isend(data, (int)bytes, MPI_BYTE, other, mpi->tag, ce_mpi_ranks, &request), "MPI_Isend");
    return request;
}

static void begin_frame(const ce_mpi *mpi, int peer, ce_mpi_frame *frame, bool incoming)
{
    ce_mpi_link *link = &mpi->links[peer];
    frame->begun = true;
    if (incoming && link->is_early) {
        link->is_early = false;
        frame->head = link->early;
        check_head(mpi, peer, frame);
        return;
    }
    frame->head_request = give(mpi, peer, incoming, &frame->head, sizeof frame->head);
}

/* Passes the head and the first piece of each frame to MPI, and each further piece when the previous piece is complete.
 * A frame begins only after MPI has all pieces of the frame before it, so that the order of messages is the same on
 * both sides. */
static void give_frames(const ce_mpi *mpi, int peer, ce_mpi_queue *queue, bool incoming)
{
    for (int i = queue->at; i < queue->count; i++) {
        ce_mpi_frame *frame = &queue->frames[i];
        size_t left = frame->bytes - frame->given, piece = left < CE_MPI_PIECE ? left : CE_MPI_PIECE;
        if (!frame->begun)
            begin_frame(mpi, peer, frame, incoming);
        if (piece > 0 && frame->data_request == MPI_REQUEST_NULL) {
            frame->data_request = give(mpi, peer, incoming, frame->data + frame->given, piece);
            frame->given += piece;
        }
        if (frame->given < frame->bytes)
            return;
    }
}

/* Advances a queue of frames and returns true if anything moved. A head is checked before the data after it, because
 * the data of a different call may have a different length. */
static bool advance(const ce_mpi *mpi, int peer, ce_mpi_queue *queue, bool incoming)
{
    bool moved = false;
    give_frames(mpi, peer, queue, incoming);
    while (!is_complete(queue)) {
        ce_mpi_frame *frame = &queue->frames[queue->at];
        if (frame->head_request != MPI_REQUEST_NULL) {
            if (!ce_mpi_is_done(&frame->head_request))
                break;
            if (incoming)
                check_head(mpi, peer, frame);
        }
        if (!ce_mpi_is_done(&frame->data_request))
            break;
        moved = true;
        if (frame->given == frame->bytes)
            queue->at++;
        else
            give_frames(mpi, peer, queue, incoming);
    }
    return moved;
}

/* Moves the frames of all queues as far as is possible without blocking. Returns false when all queues are complete. */
static bool move_all(const ce_mpi *mpi, bool *moved)
{
    bool waits = false;
    *moved = false;
    ce_mpi_lock();
    for (int i = 0; i < mpi->comm->world.size; i++) {
        ce_mpi_link *link = &mpi->links[i];
        if (!is_complete(&link->out) && advance(mpi, i, &link->out, false))
            *moved = true;
        if (!is_complete(&link->in) && advance(mpi, i, &link->in, true))
            *moved = true;
        waits = waits || !is_complete(&link->in) || !is_complete(&link->out);
    }
    ce_mpi_unlock();
    return waits;
}

/* ---- waiting ---- */

/* Checks each rank that has not yet received all that this rank sends, and from which this rank expects no more frames.
 * Such a rank may be in a different call. If the head of a frame has arrived from that rank, the head is stored. The
 * next check compares the stored head with the call of this rank. A rank that is only ahead, in a later call, has
 * received all data of this call by the next check; its head is then not compared. */
static void check_senders(const ce_mpi *mpi)
{
    ce_mpi_lock();
    for (int i = 0; i < mpi->comm->world.size; i++) {
        ce_mpi_link *link = &mpi->links[i];
        int other = ce_comm_name(mpi->comm, i), arrived = 0;
        if (is_complete(&link->out) || !is_complete(&link->in))
            continue;
        if (link->is_early)
            check_call(mpi, i, &link->early.call);
        else
            ce_mpi_check(MPI_Iprobe(other, mpi->tag, ce_mpi_ranks, &arrived, MPI_STATUS_IGNORE), "MPI_Iprobe");
        if (arrived)
            ce_mpi_check(MPI_Recv(&link->early, sizeof link->early, MPI_BYTE, other, mpi->tag, ce_mpi_ranks,
                                  MPI_STATUS_IGNORE),
                         "MPI_Recv");
        link->is_early = link->is_early || arrived;
    }
    ce_mpi_unlock();
}

static void check_time(const ce_mpi *mpi, double now)
{
    double limit = mpi->comm->settings.call_seconds;
    if (limit <= 0 || now - mpi->comm->begun <= limit)
        return;
    for (int i = 0; i < mpi->comm->world.size; i++)
        if (!is_complete(&mpi->links[i].in) || !is_complete(&mpi->links[i].out))
            ce_mpi_frames_lose(mpi->comm, i, "did not take part within the time limit of a call");
}

/* Returns true if the head of a frame has arrived but its data has not. MPI then needs calls to move the data. */
static bool is_arriving(const ce_mpi *mpi)
{
    for (int i = 0; i < mpi->comm->world.size; i++) {
        const ce_mpi_queue *in = &mpi->links[i].in;
        const ce_mpi_frame *frame = &in->frames[in->at];
        if (!is_complete(in) && frame->begun && frame->head_request == MPI_REQUEST_NULL)
            return true;
    }
    return false;
}

static void run(const ce_mpi *mpi)
{
    double looked = ce_clock_seconds(), looked_at_senders = looked;
    bool moved;
    for (int idle = 0; move_all(mpi, &moved); idle = moved ? 0 : idle + 1) {
        double now = ce_clock_seconds();
        if (moved)
            looked_at_senders = now;
        if (now - looked > LOOK_SECONDS) {
            check_time(mpi, now);
            looked = now;
        }
        if (now - looked_at_senders > SENDER_SECONDS) {
            check_senders(mpi);
            looked_at_senders = now;
        }
        if (idle < mpi->yields || is_arriving(mpi))
            sched_yield();
        else
            nanosleep(&(struct timespec){ .tv_nsec = PAUSE }, NULL);
    }
}

/* ---- messages ---- */

static ce_mpi_queue *queue_of(const ce_mpi *mpi, const ce_message *message)
{
    ce_mpi_link *link = &mpi->links[message->peer];
    return message->incoming ? &link->in : &link->out;
}

/* Moves messages without waiting. Each queue has one frame at a time: that of the first message that is not done. */
static bool move_some(const ce_mpi *mpi, ce_message *messages, int count)
{
    bool moved;
    for (int i = 0; i < count; i++) {
        ce_mpi_queue *queue = queue_of(mpi, &messages[i]);
        if (messages[i].started || messages[i].done || queue->count > 0)
            continue;
        add(queue, mpi->comm, messages[i].data, messages[i].bytes);
        messages[i].started = true;
    }
    move_all(mpi, &moved);
    for (int i = 0; i < count; i++) {
        ce_mpi_queue *queue = queue_of(mpi, &messages[i]);
        if (!messages[i].started || messages[i].done || !is_complete(queue))
            continue;
        messages[i].done = true;
        queue->count = queue->at = 0;
    }
    return moved;
}

bool ce_mpi_frames_move(cs_comm *comm, ce_message *messages, int count, bool wait)
{
    const ce_mpi *mpi = comm->private_data;
    if (!wait)
        return move_some(mpi, messages, count);
    for (int i = 0; i < count; i++)
        add(queue_of(mpi, &messages[i]), comm, messages[i].data, messages[i].bytes);
    run(mpi);
    for (int i = 0; i < comm->world.size; i++)
        mpi->links[i].in.count = mpi->links[i].in.at = mpi->links[i].out.count = mpi->links[i].out.at = 0;
    return true;
}
