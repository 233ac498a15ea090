/* clock.h - seconds of a steady clock, from some moment in the past. */
#ifndef CS_BASE_CLOCK_H
#define CS_BASE_CLOCK_H

#include <time.h>

static inline double cs_clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
