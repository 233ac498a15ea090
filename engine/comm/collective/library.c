/* library.c - the algorithm mpi: the collectives of the library that moves a transport's messages. MPI's own
 * collectives use what a fabric offers, for example reductions in a switch. They add in an order of their own, so the
 * bits of a sum can differ from the bits that the other algorithms give; all ranks get the same bits. The library
 * carries out these calls, if an all_reduce has less than 2^31 elements and a part of an all_gather less than 2^31
 * bytes:
 *
 *     all_reduce   sums and averages of f32, i32 and i64
 *     all_gather   adjacent parts of equal length, of any type
 *
 * All other calls use messages, as without this algorithm. Among them are reductions of 16-bit floats, because MPI has
 * no such type, and minima, because MPI does not define the minimum of a NaN. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"
#include "comm/collective/reduction.h"

/* Each rank sends an empty message to the next rank, and the transport compares the calls of these two ranks. If the
 * calls differ, the process ends here with an error that describes both calls. Without this comparison the ranks would
 * wait for each other inside the library. */
static void compare_calls(cs_comm *comm)
{
    int rank = comm->world.rank, size = comm->world.size;
    if (size == 1)
        return;
    ce_exchange_send(comm, (rank + 1) % size, NULL, 0);
    ce_exchange_receive(comm, (rank + size - 1) % size, NULL, 0);
    ce_exchange_run(comm);
}

void ce_library_all_reduce(cs_comm *comm, const ce_members *among, void *data, int64_t count, cs_dtype dtype,
                           cs_reduce_op op)
{
    bool sums = op == CS_SUM || op == CS_AVG, fits = dtype == CS_F32 || dtype == CS_I32 || dtype == CS_I64;
    if (!sums || !fits || count > INT32_MAX) {
        ce_among_all_reduce(comm, among, data, count, dtype, op);
        return;
    }
    compare_calls(comm);
    comm->transport->library_all_reduce(comm, data, count, dtype);
    if (op == CS_AVG)
        ce_reduce_divide(data, count, dtype, comm->world.size);
}

void ce_library_all_gather(cs_comm *comm, const ce_members *among, void *out, const void *in, const ce_parts *parts,
                           cs_dtype dtype)
{
    size_t bytes = (size_t)parts->count * cs_dtype_bytes(dtype);
    if (parts->counts || parts->apart != bytes || bytes > INT32_MAX) {
        comm->algorithm = "direct";
        ce_among_all_gather(comm, among, out, in, parts, dtype);
        return;
    }
    compare_calls(comm);
    comm->transport->library_all_gather(comm, out, in, bytes);
}
