/* stall_timer.h - stall detection: it reports a job that makes no progress for --stall_timeout, and ends it if
 * requested. */
#ifndef CL_STALL_TIMER_H
#define CL_STALL_TIMER_H

#include "front/front.h"

typedef struct {
    bool said;       /* this stall has been reported */
    int64_t kill_at; /* CLOCK_MONOTONIC nanoseconds; leaves time for stacks to arrive; 0: the job is not to be ended */
} cl_stall_timer;

/* Does what --stall_timeout and --stall_action request. Call it about once a second. */
void cl_stall_timer_check(cl_stall_timer *timer, cl_front *front, int64_t now);

#endif
