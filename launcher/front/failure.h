/* failure.h - the failure report of a job: which rank failed first, why, its last progress, and which processes
 * remain. */
#ifndef CL_FAILURE_H
#define CL_FAILURE_H

#include "front/front.h"

/* Returns the report as a malloc'ed text, which the caller frees. The text is empty ("") when the job succeeded. It is
 * one line when the job was stopped from outside, or when the program has explained its failure itself. It is a block
 * of lines when a rank died or a node was lost. Whenever the exit code is not 0, the text contains a line "cspeed: job
 * ID failed: ...". When the same command would resume from a checkpoint, a last line says so. The front process prints
 * the text and sends it to the nodes of a --no_ssh job. */
char *cl_failure_text(const cl_front *front);

/* Returns true if the reported failure is that of rank front->first, and false if it is the failure of a node or of the
 * whole job. */
bool cl_failure_is_rank(const cl_front *front);
/* Returns true if another attempt would end in the same way: the exit code says so, or the failed rank has said so. */
bool cl_failure_is_explained(const cl_front *front);

/* Writes result.json into front->run_dir, and /dev/termination-log where Kubernetes provides that file. An error while
 * writing result.json is printed and otherwise ignored. */
void cl_result_write(cl_front *front);

/* Returns the state of a running job as JSON text for the callers of the registry. The text is malloc'ed; the caller
 * frees it. */
char *cl_result_state(const cl_front *front);

#endif
