/* logdir.h - finds the log folder of a job. The folder contains attempt_N/RANK.out and attempt_N/RANK.err. */
#ifndef CL_LOGDIR_H
#define CL_LOGDIR_H

#include "front/registry_read.h"

/* Finds a log folder. `id` is one of these: the id of a running job (then *runs becomes true and *job describes the
 * job); the id of a job whose logs are in ./cspeed_runs; the beginning of such an id; a path; or "latest". Returns 0,
 * or CL_CODE_NO_FILE with a sentence in cs_error(). */
int cl_logdir_find(const char *id, cl_registry_job *job, bool *runs, char folder[PATH_MAX]);

#endif
