/* failure.h - the failure report of a job: the rank that failed first, the reason, the last progress of that rank, and
 * the processes that could not be ended. */
#ifndef CL_FAILURE_H
#define CL_FAILURE_H

#include "front/front.h"
#include "ground/codes.h"

/* Returns the report as a malloc'ed text, which the caller frees. If the job succeeded, the report is empty (""),
 * except that one line is written with --verbose or if processes remain. The report has several lines if a rank died or
 * a node was lost. It is one line if the job was stopped from outside, or if the program has explained its failure
 * itself. Whenever the exit code is not 0, one line begins with "cspeed: job ID failed: ". If the same command would
 * resume from a checkpoint, the line after that one says so. The front process prints the report and sends it to the
 * nodes of a --no_ssh job. */
char *cl_failure_text(const cl_front *front);

/* Returns true if the reported failure is that of the rank front->first; false if a node or the whole job failed. */
static inline bool cl_failure_is_rank(const cl_front *front)
{
    return front->first >= 0 &&
           (!front->code || cl_codes_of_status(front->workers[front->first].end.status) != CL_CODE_PEER);
}
/* Returns true if another attempt would end in the same way: the job's exit code says this (cl_codes_explained), or the
 * failed rank has reported it (cl_workers_explained). */
bool cl_failure_is_explained(const cl_front *front);

/* Returns why the job has ended, for result.json and --on_end; "" if it succeeded. */
const char *cl_failure_why(const cl_front *front);

/* ---- failure_hint.c: hints for known causes of failure ---- */

/* Returns true if SIGKILL ended the rank, and if the count of out-of-memory kills that the rank's agent reads
 * (ce_cgroup_oom_kills) has increased since the attempt began. */
bool cl_failure_hint_is_oom(const cl_link_end *end);

/* Returns a sentence that may help against the reported failure, or "" if its cause is unknown. The text is static. */
const char *cl_failure_hint_text(const cl_front *front);

/* ---- result.c: the result and the state as JSON ---- */

/* Writes result.json into front->run_dir, and /dev/termination-log where Kubernetes provides this file. If result.json
 * cannot be written, an error is printed, and nothing else changes. */
void cl_result_write(cl_front *front);

/* Returns the state of a running job as JSON, for clients of the registry (registry.h). The caller frees the text. */
char *cl_result_state(const cl_front *front);

#endif
