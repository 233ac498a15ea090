/* logdir.h - finds the log folders of jobs. Such a folder contains attempt_N/RANK.out and attempt_N/RANK.err, and
 * result.json when the job has ended. */
#ifndef CL_LOGDIR_H
#define CL_LOGDIR_H

#include "front/registry_read.h"

/* Finds a log folder. `id` is one of these: the id of a running job; the id of a job whose logs are in ./cspeed_runs;
 * the beginning of such an id; a path; or "latest". If the job is running, *runs becomes true and *job describes the
 * job, even if it writes no log files. Returns 0, or CL_CODE_NO_FILE with a sentence in cs_error(). */
int cl_logdir_find(const char *id, cl_registry_job *job, bool *runs, char folder[PATH_MAX]);

/* Calls `each` for the folder of every job in ./cspeed_runs, in the order in which the jobs were started. */
void cl_logdir_each(void (*each)(const char *folder, const char *id, void *argument), void *argument);

#endif
