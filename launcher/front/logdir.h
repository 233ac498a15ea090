/* logdir.h - the folder where a job's ranks have left what they printed: attempt_N/RANK.out and .err. */
#ifndef CL_LOGDIR_H
#define CL_LOGDIR_H

#include "front/registry_read.h"

/* `id`: of a running job or how it begins (then `runs`, and `job` is it); of one whose logs are in ./cspeed_runs; a
 * path; or "latest". 0, or CL_CODE_NO_FILE. */
int cl_logdir_find(const char *id, cl_registry_job *job, bool *runs, char folder[PATH_MAX]);

#endif
