/* stall.h - stall detection: a job that makes no progress for --stall_timeout is reported, with the rank that holds up
 * the others, and ended if requested. */
#ifndef CL_STALL_H
#define CL_STALL_H

#include "front/front.h"

typedef struct {
    bool said; /* this stall has been reported */
    /* Time at which the job is ended, in CLOCK_MONOTONIC nanoseconds, late enough for stacks to arrive; 0: it is not
     * ended. */
    int64_t kill_at;
} cl_stall_timer;

/* Does what --stall_timeout and --stall_action request. Call it about once a second. */
void cl_stall_check(cl_stall_timer *timer, cl_front *front, int64_t now);

/* ---- the report ---- */

/* Returns the nanoseconds since any rank of this job last made progress, that is, since the step or the collective of
 * its progress record changed. Returns INT64_MAX if no rank has sent a progress record. */
int64_t cl_stall_age(const cl_front *front, int64_t now);

/* Returns the rank that probably holds up the others: the one that is not in the collective in which the others wait,
 * or that is one step behind. Returns -1 when all ranks are at the same position. */
int cl_stall_suspect(const cl_front *front);

/* Returns the report as malloc'ed text: one row for each position, and a line that names the suspected rank. */
char *cl_stall_text(const cl_front *front, int64_t now);

#endif
