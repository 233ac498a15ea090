/* shm_barrier.c - the barrier in shared memory, waiting for other ranks of the host, and detection of a lost rank.
 *
 * Waking a sleeper without a lock follows Dekker's algorithm: the signalling rank writes the value and then reads the
 * number of sleepers; a sleeper increments that number and then reads the value. Both use sequentially consistent
 * order, so at least one of them sees the other's write. A sleeping rank checks ten times a second whether its peers
 * live. */
#include "comm/shm.h"
#include "base/beat.h"
#include "base/must.h"

#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLEEP_NANOSECONDS = 100 * 1000 * 1000 };

/* Tells the core that this thread spins. */
static inline void pause_core(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void ce_shm_signal_set(ce_shm_signal *signal, uint32_t value)
{
    atomic_store(&signal->value, value);
    if (atomic_load(&signal->sleepers) > 0)
        syscall(SYS_futex, &signal->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static inline bool reached(const ce_shm_signal *signal, uint32_t value)
{
    return (int32_t)(atomic_load_explicit(&signal->value, memory_order_acquire) - value) >= 0;
}

static void sleep_for(ce_shm_signal *signal, uint32_t value)
{
    struct timespec max = { .tv_nsec = SLEEP_NANOSECONDS };
    atomic_fetch_add(&signal->sleepers, 1);
    uint32_t seen = atomic_load(&signal->value);
    if ((int32_t)(seen - value) < 0)
        syscall(SYS_futex, &signal->value, FUTEX_WAIT, seen, &max, NULL, 0);
    atomic_fetch_sub(&signal->sleepers, 1);
}

static _Noreturn void lose(ce_shm *shm, int peer, const char *what)
{
    atomic_store(&ce_shm_header_of(shm, shm->rank)->gave_up, 1);
    ce_fatal(CS_NO_PEER, "rank %d %s (while this rank waited in %s)", shm->first + peer, what,
             ce_beat_names[shm->comm->doing]);
}

int ce_shm_missing(cs_comm *comm, bool *closed)
{
    const ce_shm *shm = comm->private_data;
    int missing = -1, left = -1;
    for (int i = 0; i < shm->size; i++) {
        ce_shm_header *header = ce_shm_header_of(shm, i);
        struct pollfd life = { i == shm->rank ? -1 : shm->handles[i].life, POLLIN, 0 };
        if (poll(&life, 1, 0) <= 0 && !atomic_load(&header->closed))
            continue;
        if (atomic_load(&header->closed))
            left = i;
        else if (missing < 0 || atomic_load(&ce_shm_header_of(shm, missing)->gave_up))
            missing = i;
    }
    *closed = missing < 0;
    return missing < 0 ? left : missing;
}

/* Ends this process if that of a peer has ended. A peer that closed its comm is only missing for a rank that waits for
 * it. If several ended, the message names one that did not end because of another. */
static void check_peers(ce_shm *shm, const ce_shm_signal *signal, uint32_t value, int owner)
{
    bool closed;
    if (atomic_load(&ce_shm_header_of(shm, owner)->closed) && !reached(signal, value))
        lose(shm, owner, "has left");
    int lost = ce_shm_missing(shm->comm, &closed);
    if (lost >= 0 && !closed && !reached(signal, value))
        lose(shm, lost, "was lost");
}

static void wait_long(ce_shm *shm, ce_shm_signal *signal, uint32_t value, int owner)
{
    for (int i = 0; i < shm->spins; i++) {
        pause_core();
        if (reached(signal, value))
            return;
    }
    for (int i = 0; i < shm->yields; i++) {
        sched_yield();
        if (reached(signal, value))
            return;
    }
    while (!reached(signal, value)) {
        sleep_for(signal, value);
        check_peers(shm, signal, value, owner);
    }
}

void ce_shm_signal_wait(ce_shm *shm, ce_shm_signal *signal, uint32_t value, int owner)
{
    if (!reached(signal, value))
        wait_long(shm, signal, value, owner);
}

const ce_shm_call *ce_shm_call_of(const ce_shm *shm, int rank)
{
    return &ce_shm_header_of(shm, rank)->arrival[shm->point % 2].call;
}

void ce_shm_barrier(ce_shm *shm, const ce_shm_call *call)
{
    uint32_t point = ++shm->point;
    ce_shm_signal *arrival = &ce_shm_header_of(shm, shm->rank)->arrival[point % 2];
    arrival->call = *call;
    ce_shm_signal_set(arrival, point);
    for (int i = 0; i < shm->size; i++) {
        ce_shm_signal *signal = &ce_shm_header_of(shm, i)->arrival[point % 2];
        if (i == shm->rank)
            continue;
        ce_shm_signal_wait(shm, signal, point, i);
        const ce_shm_call *its = &signal->call;
        if (!ce_call_same(&its->is, &call->is))
            ce_call_refuse(shm->first + shm->rank, &call->is, shm->first + i, &its->is);
    }
}
