/* segment.c - shared memory of the ranks of one host: creates, exchanges, maps and unmaps the segments.
 *
 * A segment is a memfd as large as the heap may become; only pages that are written cost memory. It has no name, is
 * sealed against changes of its size, and is freed when the last process that maps it ends. */
#include "comm/shm/shm.h"
#include "comm/shm/unix_socket.h"
#include "base/range.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MIN_HEAP = 64 << 20, DEFAULT_SECONDS = 600 };

/* SPINS and YIELDS say how often a waiting rank spins, and how often it then yields its core, before it sleeps. If each
 * rank has a core of its own, most waits end before the sleep. If ranks share cores, a waiting rank had better give its
 * core to the rank for which it waits. */
enum { SPINS_OWN_CORE = 4000, YIELDS_OWN_CORE = 2000, SPINS_SHARED_CORE = 0, YIELDS_SHARED_CORE = 200 };
/* The values of ce_shm.small_bytes. If ranks share cores, a barrier costs more, so longer vectors are copied through
 * slots, which saves a barrier. */
enum { SMALL_OWN_CORE = 2 << 10, SMALL_SHARED_CORE = 8 << 10 };

_Static_assert(sizeof(ce_shm_header) <= CE_SHM_PAGE, "a header is one page");
_Static_assert(sizeof(ce_shm_signal) == CE_SHM_LINE, "a signal is one cache line");

static cs_status reserve(ce_shm *shm, const cs_comm_settings *settings)
{
    for (size_t heap = ce_comm_heap_wish(settings);; heap /= 2) {
        size_t segment = (size_t)ce_round_up((int64_t)(ce_shm_heap_at(shm->size) + heap), CE_SHM_HUGE);
        size_t bytes = segment * (size_t)shm->size;
        void *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        shm->segment_bytes = segment;
        shm->reserved_bytes = bytes;
        if (base != MAP_FAILED) {
            shm->base = base;
            return CS_OK;
        }
        if (settings->heap_bytes || heap / 2 < MIN_HEAP)
            return ce_fail_errno(CS_NO_MEMORY, errno, "out of address space for %d shared memories of %zu bytes",
                                 shm->size, heap);
    }
}

static cs_status make_memory(ce_shm *shm)
{
    cpu_set_t cores;
    int memory = memfd_create("cspeed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    shm->handles[shm->rank].memory = memory;
    if (memory < 0 || ftruncate(memory, (off_t)shm->segment_bytes) < 0)
        return ce_fail_errno(CS_NO_MEMORY, errno, "no shared memory of %zu bytes", shm->segment_bytes);
    if (fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "shared memory could not be sealed");
    if (sched_getaffinity(0, sizeof cores, &cores) < 0)
        /* This host has more cores than cpu_set_t can hold: the mask stays empty, so waiting ranks yield. */
        return CS_OK;
    if (pwrite(memory, &cores, sizeof cores, offsetof(ce_shm_header, cores)) != sizeof cores)
        return ce_fail_errno(CS_NO_MEMORY, errno, "shared memory could not be written");
    return CS_OK;
}

/* Sets handles.life of this rank. It is a pidfd, which shows the end of this process even if children that the process
 * has forked still live. On kernels without pidfds it is the read end of a pipe whose write end belongs to this
 * process. */
static cs_status make_life(ce_shm *shm)
{
    int pipes[2];
    shm->handles[shm->rank].life = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (shm->handles[shm->rank].life >= 0)
        return CS_OK;
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return ce_fail_errno(CS_IO_ERROR, errno,
                             "no pipe can be opened, by which other ranks notice the end of this one");
    shm->handles[shm->rank].life = pipes[0];
    shm->life_end = pipes[1];
    return CS_OK;
}

static cs_status map_all(ce_shm *shm)
{
    for (int i = 0; i < shm->size; i++) {
        char *at = ce_shm_segment(shm, i);
        if (mmap(at, shm->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                 shm->handles[i].memory, 0) == MAP_FAILED)
            return ce_fail_errno(CS_NO_MEMORY, errno, "the shared memory of rank %d (%zu bytes) could not be mapped", i,
                                 shm->segment_bytes);
        madvise(at, shm->segment_bytes, MADV_DONTDUMP);
        madvise(at, shm->segment_bytes, MADV_HUGEPAGE); /* asks for huge pages; an error is ignored */
        close(shm->handles[i].memory);
        shm->handles[i].memory = -1;
    }
    return CS_OK;
}

static void choose_patience(ce_shm *shm)
{
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int i = 0; i < shm->size; i++)
        CPU_OR(&all, &all, &ce_shm_header_of(shm, i)->cores);
    bool roomy = CPU_COUNT(&all) >= shm->size;
    shm->spins = roomy ? SPINS_OWN_CORE : SPINS_SHARED_CORE;
    shm->yields = roomy ? YIELDS_OWN_CORE : YIELDS_SHARED_CORE;
    shm->small_bytes = roomy ? SMALL_OWN_CORE : SMALL_SHARED_CORE;
}

static cs_status make_lists(ce_shm *shm)
{
    size_t size = (size_t)shm->size;
    shm->handles = calloc(size, sizeof *shm->handles);
    shm->inputs = calloc(size, sizeof *shm->inputs);
    shm->outputs = calloc(size, sizeof *shm->outputs);
    shm->sent = calloc(size, sizeof *shm->sent);
    shm->received = calloc(size, sizeof *shm->received);
    shm->looks = calloc(size, sizeof *shm->looks);
    for (int i = 0; shm->handles && i < shm->size; i++)
        shm->handles[i] = (ce_shm_handles){ -1, -1 };
    if (!shm->handles || !shm->inputs || !shm->outputs || !shm->sent || !shm->received || !shm->looks)
        return ce_fail(CS_NO_MEMORY, "no memory for the lists of %d ranks", shm->size);
    return CS_OK;
}

cs_status ce_segment_open(cs_comm *comm, const cs_comm_settings *settings)
{
    ce_shm *shm = calloc(1, sizeof *shm);
    comm->private_data = shm;
    if (!shm)
        return ce_fail(CS_NO_MEMORY, "no memory for the communication of %d ranks", comm->world.size);
    shm->comm = comm;
    shm->rank = comm->world.rank;
    shm->size = comm->world.size;
    shm->life_end = -1;
    CE_TRY(make_lists(shm));
    CE_TRY(reserve(shm, settings));
    CE_TRY(make_memory(shm));
    CE_TRY(make_life(shm));
    uint64_t agreed = shm->segment_bytes;
    double seconds = settings->timeout_seconds > 0 ? settings->timeout_seconds : DEFAULT_SECONDS;
    CE_TRY(ce_shm_rendezvous(&comm->world, seconds, &agreed, shm->handles));
    shm->segment_bytes = agreed;
    CE_TRY(map_all(shm));
    choose_patience(shm);
    comm->heap = ce_shm_segment(shm, shm->rank) + ce_shm_heap_at(shm->size);
    comm->heap_bytes = shm->segment_bytes - ce_shm_heap_at(shm->size);
    return CS_OK;
}

void ce_segment_close(cs_comm *comm)
{
    ce_shm *shm = comm->private_data;
    if (!shm)
        return;
    if (comm->heap)
        atomic_store(&ce_shm_header_of(shm, shm->rank)->closed, 1);
    if (shm->base)
        munmap(shm->base, shm->reserved_bytes);
    for (int i = 0; shm->handles && i < shm->size; i++)
        ce_unix_socket_drop(&shm->handles[i]);
    if (shm->life_end >= 0)
        close(shm->life_end);
    free(shm->handles);
    free(shm->inputs);
    free(shm->outputs);
    free(shm->sent);
    free(shm->received);
    free(shm->looks);
    free(shm);
}
