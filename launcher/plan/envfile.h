/* envfile.h - Parser of environment files, over bytes in memory.
 *
 * A line is NAME=value, with an optional `export ` before it, or only NAME, which takes the caller's value. Blank
 * lines and lines that begin with '#' are skipped. An unquoted value is trimmed and ends at " #"; '...' is literal;
 * "..." supports \n \t \\ \" \$, and ${NAME} with --env_expand. Quoted values may span several lines. Nothing else
 * is expanded or split. */
#ifndef CL_ENVFILE_H
#define CL_ENVFILE_H

#include "plan/env.h"
#include "base/faults.h"

/* Adds the variables of the file to `env`, and its faults to `faults`. */
void cl_envfile_read(cl_env *env, const char *file, const char *text, size_t length, bool expand, ce_faults *faults);

#endif
