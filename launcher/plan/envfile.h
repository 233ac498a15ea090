/* envfile.h - parser of environment files, over bytes in memory.
 *
 * A line is NAME=value, with an optional `export ` before the name. A line may also be only NAME: the variable then
 * gets the value that it has in the environment of this process. Blank lines and lines that begin with '#' are skipped.
 * A value without quotes ends at " #" and is trimmed. A value in '...' is literal. A value in "..." may contain \n \t
 * \\ \" \$, and ${NAME} with --env_expand. A value in quotes may span several lines. Nothing else is expanded, and
 * values are not split into words. */
#ifndef CL_ENVFILE_H
#define CL_ENVFILE_H

#include "plan/env.h"
#include "base/faults.h"

/* Adds the variables of the file to `env`, and the faults of the file to `faults`. */
void cl_envfile_read(cl_env *env, const char *file, const char *text, size_t length, bool expand, ce_faults *faults);

#endif
