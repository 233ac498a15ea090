/* heap.c - memory for cs_comm_alloc in transports without shared memory. */
#include "comm/transport.h"

#include <errno.h>
#include <sys/mman.h>

enum { MIN_HEAP = 64 << 20 };

cs_status ce_heap_open(cs_comm *comm, const cs_comm_settings *settings)
{
    size_t bytes = ce_comm_heap_wish(settings);
    for (;; bytes /= 2) {
        void *heap = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (heap != MAP_FAILED) {
            comm->heap = heap;
            comm->heap_bytes = bytes;
            madvise(heap, bytes, MADV_HUGEPAGE); /* asks for huge pages; an error is ignored */
            return CS_OK;
        }
        if (settings->heap_bytes || bytes / 2 < MIN_HEAP)
            return ce_fail_errno(CS_NO_MEMORY, errno, "out of address space for a shared memory of %zu bytes", bytes);
    }
}

void ce_heap_close(cs_comm *comm)
{
    if (comm->heap)
        munmap(comm->heap, comm->heap_bytes);
}
