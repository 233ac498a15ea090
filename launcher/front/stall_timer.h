/* stall_timer.h - a job that stands still is noticed, said, and if wanted ended. */
#ifndef CL_WATCH_H
#define CL_WATCH_H

#include "front/front.h"

typedef struct {
    bool said;       /* of this standstill */
    int64_t kill_at; /* when stacks have had time to come; 0: not to be ended */
} cl_watch;

/* Call every second or so: what --stall_timeout and --stall_action ask for. */
void cl_watch_stall(cl_watch *watch, cl_front *front, int64_t now);

#endif
