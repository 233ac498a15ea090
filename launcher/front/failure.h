/* failure.h - the last words about a job that did not end well: which rank, why, how far, what is left. */
#ifndef CL_FAILURE_H
#define CL_FAILURE_H

#include "front/front.h"

/* Writes to a malloc'ed text: nothing ("") when the job ended well; one line when it was stopped from outside, or when
 * the program has explained itself; a block when a rank died or a node was lost; and always a line "cspeed: job ID
 * failed: ..." when the exit code is not 0; behind it, where that is so, that the same command goes on from a
 * checkpoint. The front prints it, and sends it to no_ssh nodes. */
char *cl_failure_text(const cl_front *front);

/* Whether the failure to be named is that of rank front->first, and not that of a node or of the job. */
bool cl_failure_is_rank(const cl_front *front);
/* Whether another attempt would end the same way: the exit code says so, or the rank that failed has said it. */
bool cl_failure_is_explained(const cl_front *front);

/* result.json into front->run_dir, and /dev/termination-log where a pod has one. A failure to write is said. */
void cl_result_write(cl_front *front);

/* The state of a running job as JSON, malloc'ed: for the registry's callers. */
char *cl_result_state(const cl_front *front);

#endif
