/* stall_timer.h - a job that stands still is noticed, said, and if wanted ended. */
#ifndef CL_STALL_TIMER_H
#define CL_STALL_TIMER_H

#include "front/front.h"

typedef struct {
    bool said;       /* of this standstill */
    int64_t kill_at; /* when stacks have had time to come; 0: not to be ended */
} cl_stall_timer;

/* Call every second or so: what --stall_timeout and --stall_action ask for. */
void cl_stall_timer_check(cl_stall_timer *timer, cl_front *front, int64_t now);

#endif
