/* collectives.c - MPI's own collectives, for the algorithm "mpi" (collective/library.c).
 *
 * A comm that uses this algorithm has an MPI communicator of its own. The collectives are begun with MPI's nonblocking
 * functions and tested under ce_mpi_lock, as messages are. */
#include "comm/mpi/frames.h"
#include "base/clock.h"
#include "base/must.h"

#include <sched.h>
#include <stdlib.h>

/* Makes an MPI communicator of the comm's ranks; other ranks take no part. MPI_Comm_create_group returns when all these
 * ranks have called it, and ce_mpi_lock is held until then. So no other thread of these ranks may need MPI while the
 * comm is being opened. */
cs_status ce_mpi_collectives_open(cs_comm *comm)
{
    ce_mpi *mpi = comm->private_data;
    int *members = calloc((size_t)comm->world.size, sizeof *members), error = MPI_SUCCESS;
    MPI_Group all, own;
    if (!members)
        return ce_fail(CS_NO_MEMORY, "no memory for the communication of %d ranks", comm->world.size);
    for (int i = 0; i < comm->world.size; i++)
        members[i] = ce_comm_name(comm, i);
    ce_mpi_lock();
    ce_mpi_check(MPI_Comm_group(ce_mpi_ranks, &all), "MPI_Comm_group");
    ce_mpi_check(MPI_Group_incl(all, comm->world.size, members, &own), "MPI_Group_incl");
    error = MPI_Comm_create_group(ce_mpi_ranks, own, mpi->tag, &mpi->own_ranks);
    MPI_Group_free(&own);
    MPI_Group_free(&all);
    ce_mpi_unlock();
    free(members);
    return error == MPI_SUCCESS
               ? CS_OK
               : ce_fail(CS_NO_PEER, "communication \"mpi\": MPI_Comm_create_group failed with code %d", error);
}

void ce_mpi_collectives_close(ce_mpi *mpi)
{
    if (mpi->own_ranks != MPI_COMM_NULL)
        ce_mpi_check(MPI_Comm_free(&mpi->own_ranks), "MPI_Comm_free");
}

/* Waits until the request is complete, or ends the process when the time limit of the call is over. */
static void wait_for(const cs_comm *comm, MPI_Request *request)
{
    double limit = comm->settings.call_seconds;
    for (bool done = false; !done; sched_yield()) {
        ce_mpi_lock();
        done = ce_mpi_is_done(request);
        ce_mpi_unlock();
        if (!done && limit > 0 && ce_clock_seconds() - comm->begun > limit)
            ce_fatal(CS_NO_PEER, "a rank did not come within the time of a call (while this rank waited in MPI's %s)",
                     ce_call_name(comm->call.what));
    }
}

void ce_mpi_collectives_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype)
{
    const ce_mpi *mpi = comm->private_data;
    MPI_Datatype type = dtype == CS_F32 ? MPI_FLOAT : dtype == CS_I32 ? MPI_INT32_T : MPI_INT64_T;
    MPI_Request request;
    ce_mpi_lock();
    ce_mpi_check(MPI_Iallreduce(MPI_IN_PLACE, data, (int)count, type, MPI_SUM, mpi->own_ranks, &request),
                 "MPI_Iallreduce");
    ce_mpi_unlock();
    wait_for(comm, &request);
}

void ce_mpi_collectives_all_gather(cs_comm *comm, void *out, const void *in, size_t bytes)
{
    const ce_mpi *mpi = comm->private_data;
    bool in_place = in == (char *)out + (size_t)comm->world.rank * bytes;
    MPI_Request request;
    ce_mpi_lock();
    ce_mpi_check(MPI_Iallgather(in_place ? MPI_IN_PLACE : in, (int)bytes, MPI_BYTE, out, (int)bytes, MPI_BYTE,
                                mpi->own_ranks, &request),
                 "MPI_Iallgather");
    ce_mpi_unlock();
    wait_for(comm, &request);
}
