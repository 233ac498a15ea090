/* stall.h - stall detection: if a job makes no progress for --stall_timeout, this is reported, with the rank that holds
 * up the others, and the job is ended if --stall_action requests it. */
#ifndef CL_STALL_H
#define CL_STALL_H

#include "front/front.h"

typedef struct {
    bool said; /* true: this stall has been reported */
    /* Time at which the job is ended, in CLOCK_MONOTONIC nanoseconds, late enough for the C stacks of the ranks to
     * arrive. 0: the job is not ended. */
    int64_t kill_at;
} cl_stall_timer;

/* Does what --stall_timeout and --stall_action request. Call this function about once a second. */
void cl_stall_check(cl_stall_timer *timer, cl_front *front, int64_t now);

/* ---- the report ---- */

/* Returns how many nanoseconds ago a rank of this job last made progress. A rank makes progress when the step, the
 * phase, the unit or the collective in the rank's progress record changes. Returns INT64_MAX if no rank has sent a progress record. */
int64_t cl_stall_age(const cl_front *front, int64_t now);

/* Returns the rank for which the others probably wait: first a rank that waits in no collective, then a rank that
 * shares its position with the fewest ranks, then a rank at the earliest point. Returns -1 if all ranks are at the same
 * position. */
int cl_stall_suspect(const cl_front *front);

/* Returns the report as malloc'ed text: one row for each position of ranks, and a line that names the suspected rank.
 */
char *cl_stall_text(const cl_front *front, int64_t now);

#endif
