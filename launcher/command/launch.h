/* launch.h - what stands behind `run`. */
#ifndef CL_LAUNCH_H
#define CL_LAUNCH_H

#include "options.h"

/* The flags before the command's word and those behind it (`arguments`), read as one command line, with the program
 * behind them; both->argv is to be freed, also after a failure. 0, or CL_CODE_USAGE or CL_CODE_SYSTEM with a sentence.
 */
int cl_launch_read(cl_options *both, const cl_options *options, char **arguments);

#endif
