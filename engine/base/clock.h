/* clock.h - the monotonic clock, in seconds or nanoseconds since an arbitrary moment. */
#ifndef CE_BASE_CLOCK_H
#define CE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CE_SECOND INT64_C(1000000000) /* in nanoseconds */

static inline double ce_clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Returns the time of the monotonic clock in nanoseconds. */
static inline int64_t ce_clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * CE_SECOND + now.tv_nsec;
}

/* Returns this number of seconds in nanoseconds. */
static inline int64_t ce_clock_span(double seconds)
{
    return (int64_t)(seconds * (double)CE_SECOND);
}

#endif
