/* barrier.c - signals and the barrier in shared memory.
 *
 * Waking a sleeping rank without a lock follows Dekker's algorithm: the signalling rank writes the value and then reads
 * the number of sleepers; a sleeper increments that number and then reads the value. Both ranks use sequentially
 * consistent order, so at least one of them sees the other's write. Ten times a second a sleeping rank checks whether
 * the other ranks live and make the same call (watch.c). */
#include "comm/shm/shm.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLEEP_NANOSECONDS = 100 * 1000 * 1000 };

void ce_shm_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sets the signal to `value` and wakes the ranks that sleep until it changes. */
static void set(ce_shm_signal *signal, uint32_t value)
{
    atomic_store(&signal->value, value);
    if (atomic_load(&signal->sleepers) > 0)
        syscall(SYS_futex, &signal->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void ce_shm_signal_change(ce_shm_signal *signal)
{
    atomic_fetch_add(&signal->value, 1);
    if (atomic_load(&signal->sleepers) > 0)
        syscall(SYS_futex, &signal->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static inline bool reached(const ce_shm_signal *signal, uint32_t value)
{
    return (int32_t)(atomic_load_explicit(&signal->value, memory_order_acquire) - value) >= 0;
}

void ce_shm_signal_sleep(ce_shm_signal *signal, uint32_t seen)
{
    struct timespec max = { .tv_nsec = SLEEP_NANOSECONDS };
    atomic_fetch_add(&signal->sleepers, 1);
    if (atomic_load(&signal->value) == seen)
        syscall(SYS_futex, &signal->value, FUTEX_WAIT, seen, &max, NULL, 0);
    atomic_fetch_sub(&signal->sleepers, 1);
}

static void wait_long(ce_shm *shm, ce_shm_signal *signal, uint32_t value, int owner)
{
    for (int i = 0; i < shm->spins; i++) {
        ce_shm_pause();
        if (reached(signal, value))
            return;
    }
    for (int i = 0; i < shm->yields; i++) {
        sched_yield();
        if (reached(signal, value))
            return;
    }
    while (!reached(signal, value)) {
        const char *how;
        uint32_t seen = atomic_load(&signal->value);
        if (!reached(signal, value))
            ce_shm_signal_sleep(signal, seen);
        if (reached(signal, value))
            return;
        int lost = ce_shm_look_around(shm, owner, &how);
        if (lost >= 0 && !reached(signal, value))
            ce_shm_lose(shm, lost, how);
    }
}

/* Waits until the signal of rank `owner` is at least `value`: first spins, then yields the core, then sleeps. */
static void wait_for(ce_shm *shm, ce_shm_signal *signal, uint32_t value, int owner)
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
    set(arrival, point);
    for (int i = 0; i < shm->size; i++) {
        ce_shm_signal *signal = &ce_shm_header_of(shm, i)->arrival[point % 2];
        if (i == shm->rank)
            continue;
        wait_for(shm, signal, point, i);
        const ce_shm_call *its = &signal->call;
        if (!ce_call_same(&its->is, &call->is))
            ce_call_refuse(ce_comm_name(shm->comm, shm->rank), &call->is, ce_comm_name(shm->comm, i), &its->is);
    }
}
