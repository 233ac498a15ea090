/* beat.c - the record a rank leaves for its launcher. */
#include "base/beat.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

const char *const cs_beat_names[] = { "",           "barrier",   "all_reduce", "reduce_scatter",
                                      "all_gather", "broadcast", "send",       "receive" };

static cs_beat  private_beat;
static cs_beat *own;

cs_beat *cs_beat_own(void)
{
    if (own)
        return own;
    const char *text = getenv("CSPEED_BEAT_FD");
    void *page = text ? mmap(NULL, sizeof(cs_beat), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(text), 0) : MAP_FAILED;
    own        = page == MAP_FAILED ? &private_beat : page;
    return own;
}

static void touch(cs_beat *beat)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store_explicit(&beat->since, now.tv_sec * 1000000000 + now.tv_nsec, memory_order_relaxed);
}

void cs_beat_step(int64_t step)
{
    cs_beat *beat = cs_beat_own();
    atomic_store_explicit(&beat->step, step, memory_order_relaxed);
    touch(beat);
}

void cs_beat_enter(int collective)
{
    cs_beat *beat = cs_beat_own();
    atomic_store_explicit(&beat->collective, collective, memory_order_relaxed);
    touch(beat);
}

void cs_beat_leave(void)
{
    atomic_store_explicit(&cs_beat_own()->collective, CS_BEAT_NONE, memory_order_relaxed);
}
