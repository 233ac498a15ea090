/* library.c - MPI in this process: it is initialized when the first comm is opened, and finalized when the process
 * exits with code 0. After another exit code MPI is not finalized; mpirun then ends the other ranks. If the program has
 * initialized MPI itself, the program finalizes it too. */
#include "comm/mpi/frames.h"
#include "base/must.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

MPI_Comm ce_mpi_ranks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_open;
static int last_tag = CE_MPI_MEETING, greatest_tag;

int *ce_mpi_last_tag(int *greatest)
{
    *greatest = greatest_tag;
    return &last_tag;
}

void ce_mpi_lock(void)
{
    pthread_mutex_lock(&lock);
}

void ce_mpi_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void ce_mpi_check(int error, const char *what)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (error == MPI_SUCCESS)
        return;
    MPI_Error_string(error, text, &length);
    ce_fatal(CS_NO_PEER, "%s: %s", what, text);
}

bool ce_mpi_is_done(MPI_Request *request)
{
    int done = 1;
    if (*request != MPI_REQUEST_NULL)
        ce_mpi_check(MPI_Test(request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done;
}

/* Writes the name and version of the MPI library, for example "Open MPI v4.1.4". */
static const char *version(char text[MPI_MAX_LIBRARY_VERSION_STRING])
{
    int length = 0;
    text[0] = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = 0;
    return text;
}

/* ---- the end of the process ---- */

/* Receives the notices of ranks that have closed their comms, until all ranks have called this function. MPI requires
 * that every message is received before MPI_Finalize. */
static void receive_notices(void)
{
    MPI_Request all = MPI_REQUEST_NULL;
    ce_mpi_check(MPI_Ibarrier(ce_mpi_ranks, &all), "MPI_Ibarrier");
    for (int arrived = 1; arrived || !ce_mpi_is_done(&all);) {
        MPI_Status status;
        ce_mpi_head head;
        ce_mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, ce_mpi_ranks, &arrived, &status), "MPI_Iprobe");
        if (arrived)
            ce_mpi_check(MPI_Recv(&head, sizeof head, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, ce_mpi_ranks,
                                  MPI_STATUS_IGNORE),
                         "MPI_Recv");
        else
            nanosleep(&(struct timespec){ .tv_nsec = 1000 * 1000 }, NULL);
    }
}

static void finalize(int code, void *owner)
{
    int is_finalized = 0;
    bool *is_ours = owner;
    MPI_Finalized(&is_finalized);
    if (code != 0 || is_finalized)
        return;
    receive_notices();
    MPI_Comm_free(&ce_mpi_ranks);
    if (*is_ours)
        MPI_Finalize();
}

/* ---- opening ---- */

static cs_status initialize(bool *is_ours)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int is_initialized = 0, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&is_initialized);
    *is_ours = !is_initialized;
    int error = is_initialized ? MPI_Query_thread(&level) : MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (error != MPI_SUCCESS)
        return ce_fail(CS_NO_PEER, "communication \"mpi\": MPI_Init_thread failed with code %d", error);
    if (level < MPI_THREAD_SERIALIZED)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: communication \"mpi\" because %s supports threads only below the level "
                       "MPI_THREAD_SERIALIZED%s",
                       version(text),
                       *is_ours
                           ? ""
                           : ": the program has initialized MPI itself, and must call MPI_Init_thread with this level");
    return CS_OK;
}

/* Checks that the environment variables, from which the world was read, agree with MPI about the rank and the world
 * size. */
static cs_status compare(const cs_comm *comm)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int size = 0, rank = 0, own_rank = ce_comm_name(comm, comm->world.rank);
    ce_mpi_lock();
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ce_mpi_unlock();
    if (comm->names ? own_rank == rank : own_rank == rank && comm->world.size == size)
        return CS_OK;
    return ce_fail(
        CS_UNSUPPORTED,
        "not supported: communication \"mpi\" among ranks that MPI did not start: the environment says rank %d "
        "of %d, but %s says rank %d of %d; start them by the mpirun of this MPI, by srun, or by cspeed "
        "--launcher openmpi or mpich",
        own_rank, comm->world.size, version(text), rank, size);
}

static cs_status duplicate(void)
{
    int *bound = NULL, given = 0;
    if (MPI_Comm_dup(MPI_COMM_WORLD, &ce_mpi_ranks) != MPI_SUCCESS ||
        MPI_Comm_set_errhandler(ce_mpi_ranks, MPI_ERRORS_RETURN) != MPI_SUCCESS)
        return ce_fail(CS_NO_PEER, "communication \"mpi\": MPI_COMM_WORLD cannot be duplicated");
    MPI_Comm_get_attr(ce_mpi_ranks, MPI_TAG_UB, &bound, &given);
    greatest_tag = given ? *bound : 32767; /* the standard guarantees the tags 0 to 32767 */
    return CS_OK;
}

cs_status ce_mpi_library_open(const cs_comm *comm)
{
    static bool is_ours;
    if (!is_open)
        CE_TRY(initialize(&is_ours));
    CE_TRY(compare(comm));
    if (is_open)
        return CS_OK;
    CE_TRY(duplicate());
    is_open = true;
    return on_exit(finalize, &is_ours) == 0 ? CS_OK
                                            : ce_fail(CS_NO_MEMORY, "out of memory for the finalization of MPI");
}
