/* mpi.c - the transport mpi: collectives over messages, which libcspeed_mpi.so moves. The module is opened when the
 * first comm with this transport is opened. */
#include "comm/mpi/module.h"
#include "base/library.h"
#include "comm/collective/collective.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define NAME "libcspeed_mpi.so"

static const ce_mpi_module *module; /* the module, or NULL while it is not open */

static cs_status open_module(void)
{
    ce_library library;
    if (module)
        return CS_OK;
    ce_library_open(&library, NAME, "CSPEED_MPI_MODULE");
    if (!library.handle)
        return ce_fail(CS_UNSUPPORTED,
                       "communication \"mpi\": " NAME " cannot be opened: %s. Install an MPI library with its "
                       "headers (Debian: apt install libopenmpi-dev, or libmpich-dev) and build with "
                       "-DCSPEED_MPI=ON, or use \"auto\"",
                       library.why);
    const ce_mpi_module *found = dlsym(library.handle, "ce_module_mpi");
    if (!found || found->edition != CE_TRANSPORT_EDITION || strcmp(found->release, CS_VERSION) != 0)
        return ce_fail(CS_UNSUPPORTED,
                       "communication \"mpi\": %s belongs to another build of this program: build cspeed again with "
                       "-DCSPEED_MPI=ON, or name the module of this build in CSPEED_MPI_MODULE",
                       library.path);
    module = found;
    return CS_OK;
}

static bool fits(const cs_world *world)
{
    (void)world;
    return true;
}

/* Opens a comm over MPI. Fails in a rank that the cspeed launcher has started without MPI, because MPI does not know
 * that process. */
static cs_status open_mpi(cs_comm *comm, const cs_comm_settings *settings)
{
    if (getenv("CSPEED_ATTEMPT"))
        return ce_fail(
            CS_UNSUPPORTED,
            "not supported: communication \"mpi\" among ranks that cspeed starts itself, locally, by SSH, "
            "with --no_ssh or by srun; use cspeed --launcher openmpi or mpich with --backend mpi, or start the "
            "program by mpirun or srun without cspeed");
    CE_TRY(open_module());
    CE_TRY(ce_heap_open(comm, settings));
    return module->open(comm, settings);
}

static void close_mpi(cs_comm *comm)
{
    if (module)
        module->close(comm);
    ce_heap_close(comm);
}

static bool move(cs_comm *comm, ce_message *messages, int count, bool wait)
{
    return module->move(comm, messages, count, wait);
}

static void lose(cs_comm *comm, int peer, const char *how)
{
    module->lose(comm, peer, how);
}

const ce_transport ce_comm_mpi = {
    .name = "mpi",
    .fits = fits,
    .open = open_mpi,
    .close = close_mpi,
    .move = move,
    .all_reduce = ce_messages_all_reduce,
    .reduce_scatter = ce_messages_reduce_scatter,
    .all_gather = ce_messages_all_gather,
    .broadcast = ce_messages_broadcast,
    .barrier = ce_messages_barrier,
    .lose = lose,
};
