/* envfile.h - the grammar of an environment file, over bytes in memory.
 *
 * NAME=value, `export ` before it, NAME alone for the caller's value; blank lines and lines that begin with '#'. A bare
 * value is trimmed and ends at " #"; '...' is literal; "..." knows \n \t \\ \" \$, and ${NAME} with --env_expand.
 * Quoted values may have several lines. Nothing else is expanded or split. */
#ifndef CL_ENVFILE_H
#define CL_ENVFILE_H

#include "plan/env.h"
#include "plan/faults.h"

/* Sets what the file says; faults are added. */
void cl_envfile_read(cl_env *env, const char *file, const char *text, size_t length, bool expand, cl_faults *faults);

#endif
