/* open.c - opens and closes a comm over MPI: its ranks agree on a tag. */
#include "comm/mpi/frames.h"
#include "comm/mpi/module.h"
#include "base/clock.h"
#include "base/processors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_SECONDS = 600, YIELDS_ROOMY = 2000, YIELDS_CROWDED = 20 };

/* What each rank of a new comm sends to the other ranks. */
typedef struct {
    int32_t last_tag, size;
    char job[64];
} greeting;

typedef struct {
    greeting own_greeting, *all; /* `all` has the greetings of all ranks, one element for each rank */
    MPI_Request *requests;       /* two requests for each rank: first all receives, then all sends */
} meeting;

/* ---- agreement on a tag ---- */

static void exchange(const cs_comm *comm, meeting *m)
{
    int size = comm->world.size, bytes = sizeof(greeting);
    ce_mpi_lock();
    for (int i = 0; i < size; i++) {
        int other = ce_comm_name(comm, i);
        m->requests[i] = m->requests[size + i] = MPI_REQUEST_NULL;
        if (i == comm->world.rank)
            continue;
        ce_mpi_check(MPI_Irecv(&m->all[i], bytes, MPI_BYTE, other, CE_MPI_MEETING, ce_mpi_ranks, &m->requests[i]),
                     "MPI_Irecv");
        ce_mpi_check(MPI_Isend(&m->own_greeting, bytes, MPI_BYTE, other, CE_MPI_MEETING, ce_mpi_ranks,
                               &m->requests[size + i]),
                     "MPI_Isend");
    }
    ce_mpi_unlock();
}

static cs_status wait_for_all(const cs_comm *comm, meeting *m, double seconds)
{
    double end = ce_clock_seconds() + seconds;
    for (int missing = 0; missing >= 0;) {
        ce_mpi_lock();
        missing = -1;
        for (int i = 0; i < 2 * comm->world.size; i++)
            if (!ce_mpi_is_done(&m->requests[i]))
                missing = i % comm->world.size;
        ce_mpi_unlock();
        if (missing >= 0 && ce_clock_seconds() > end)
            return ce_fail(CS_NO_PEER, "rank %d waited %.3g seconds for rank %d to open the same comm",
                           ce_comm_name(comm, comm->world.rank), seconds, ce_comm_name(comm, missing));
        if (missing >= 0)
            nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 }, NULL);
    }
    return CS_OK;
}

/* Chooses the comm's tag. The tag is greater than every tag that any rank of the comm has used, so no two open comms of
 * a rank have the same tag. */
static cs_status choose_tag(const cs_comm *comm, ce_mpi *mpi, const meeting *m)
{
    int greatest, *last = ce_mpi_last_tag(&greatest), tag = m->own_greeting.last_tag;
    for (int i = 0; i < comm->world.size; i++) {
        if (i == comm->world.rank)
            continue;
        if (m->all[i].size != comm->world.size || strcmp(m->all[i].job, m->own_greeting.job) != 0)
            return ce_fail(CS_DISAGREE,
                           "rank %d opens a comm of %d ranks (job \"%s\"), but rank %d one of %d ranks (job \"%.63s\")",
                           ce_comm_name(comm, comm->world.rank), comm->world.size, m->own_greeting.job,
                           ce_comm_name(comm, i), m->all[i].size, m->all[i].job);
        tag = m->all[i].last_tag > tag ? m->all[i].last_tag : tag;
    }
    if (tag >= greatest)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: more than %d comms in a process, because this MPI has no more tags", greatest);
    mpi->tag = *last = tag + 1;
    return CS_OK;
}

static cs_status meet(cs_comm *comm, ce_mpi *mpi, double seconds)
{
    int greatest;
    meeting *m = calloc(1, sizeof *m);
    if (m) {
        m->own_greeting = (greeting){ .last_tag = *ce_mpi_last_tag(&greatest), .size = comm->world.size };
        snprintf(m->own_greeting.job, sizeof m->own_greeting.job, "%s", comm->world.job);
        m->all = calloc((size_t)comm->world.size, sizeof *m->all);
        m->requests = calloc(2 * (size_t)comm->world.size, sizeof(MPI_Request));
    }
    if (!m || !m->all || !m->requests)
        return ce_fail(CS_NO_MEMORY, "out of memory for the rendezvous of %d ranks", comm->world.size);
    exchange(comm, m);
    /* After a failure the memory stays allocated, because MPI may still write to it. */
    CE_TRY(wait_for_all(comm, m, seconds));
    cs_status status = choose_tag(comm, mpi, m);
    free(m->all);
    free(m->requests);
    free(m);
    return status;
}

/* ---- opening, closing ---- */

static cs_status open_mpi(cs_comm *comm, const cs_comm_settings *settings)
{
    double seconds = settings->timeout_seconds > 0 ? settings->timeout_seconds : DEFAULT_SECONDS;
    ce_mpi *mpi = calloc(1, sizeof *mpi);
    comm->private_data = mpi;
    if (!mpi || !(mpi->links = calloc((size_t)comm->world.size, sizeof *mpi->links)))
        return ce_fail(CS_NO_MEMORY, "no memory for the communication of %d ranks", comm->world.size);
    bool roomy = ce_processors_allowed() >= comm->world.local_size || comm->world.bound;
    mpi->comm = comm;
    mpi->yields = roomy ? YIELDS_ROOMY : YIELDS_CROWDED;
    CE_TRY(ce_mpi_library_open(comm));
    return meet(comm, mpi, seconds);
}

/* Tells rank `to` that this rank has left. Does not wait for the request, because a rank that also closes its comm
 * receives the notice only at the end of its process. */
static void send_notice(const ce_mpi *mpi, int to)
{
    static const ce_mpi_head closed = { .call = { .what = CE_MPI_CLOSED } };
    MPI_Request request;
    ce_mpi_check(MPI_Isend(&closed, sizeof closed, MPI_BYTE, ce_comm_name(mpi->comm, to), mpi->tag, ce_mpi_ranks,
                           &request),
                 "MPI_Isend");
    ce_mpi_check(MPI_Request_free(&request), "MPI_Request_free");
}

static void close_mpi(cs_comm *comm)
{
    ce_mpi *mpi = comm->private_data;
    ce_mpi_lock();
    for (int i = 0; mpi && mpi->tag && i < comm->world.size; i++)
        if (i != comm->world.rank)
            send_notice(mpi, i);
    ce_mpi_unlock();
    if (mpi)
        free(mpi->links);
    free(mpi);
}

__attribute__((visibility("default"))) const ce_mpi_module ce_module_mpi = {
    .edition = CE_TRANSPORT_EDITION,
    .release = CS_VERSION,
    .open = open_mpi,
    .close = close_mpi,
    .move = ce_mpi_frames_move,
    .lose = ce_mpi_frames_lose,
};
