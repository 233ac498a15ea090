/* launch.h - reading the command line that follows `run`. */
#ifndef CL_LAUNCH_H
#define CL_LAUNCH_H

#include "options.h"

/* Reads the flags before the command's word (`options`) and those after it (`arguments`) as one command line that ends
 * with the program. The caller frees both->argv, also after an error. Returns 0, or CL_CODE_USAGE or CL_CODE_SYSTEM
 * with a sentence in cs_error(). */
int cl_launch_read(cl_options *both, const cl_options *options, char **arguments);

#endif
