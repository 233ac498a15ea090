/* self.c - a world of one: every sum is what it was. */
#include "comm/transport.h"
#include "base/must.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { LEAST_HEAP = 64 << 20 };

static bool fits(const cs_world *world)
{
    return world->size == 1;
}

static cs_status open_self(cs_comm *comm, const cs_comm_settings *settings)
{
    size_t bytes = cs_comm_heap_wish(settings);
    for (;; bytes /= 2) {
        void *heap = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (heap != MAP_FAILED) {
            comm->heap       = heap;
            comm->heap_bytes = bytes;
            madvise(heap, bytes, MADV_HUGEPAGE); /* where the system grants them */
            return CS_OK;
        }
        if (settings->heap_bytes || bytes / 2 < LEAST_HEAP)
            return cs_fail_errno(CS_NO_MEMORY, errno, "no address space for a heap of %zu bytes", bytes);
    }
}

static void close_self(cs_comm *comm)
{
    if (comm->heap)
        munmap(comm->heap, comm->heap_bytes);
}

static void all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    (void)comm, (void)data, (void)count, (void)dtype, (void)op;
}

static void copy(void *out, const void *in, int64_t count, cs_dtype dtype)
{
    if (out != in && count > 0)
        memcpy(out, in, (size_t)count * cs_dtype_bytes(dtype));
}

static void reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    (void)comm, (void)op;
    copy(out, in, count, dtype);
}

static void all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    (void)comm;
    copy(out, in, count, dtype);
}

static void broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    (void)comm, (void)data, (void)count, (void)dtype, (void)root;
}

static void barrier(cs_comm *comm)
{
    (void)comm;
}

/* comm.c lets nobody send to itself, so a world of one has nobody to send to. */
const cs_transport cs_comm_self = {
    .name           = "self",
    .fits           = fits,
    .open           = open_self,
    .close          = close_self,
    .all_reduce     = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather     = all_gather,
    .broadcast      = broadcast,
    .barrier        = barrier,
};
