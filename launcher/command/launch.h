/* launch.h - reads the command line of `cspeed run` and `cspeed launch`. */
#ifndef CL_LAUNCH_H
#define CL_LAUNCH_H

#include "options.h"

/* Combines the flags before the command (`options`) and those after the word "run" or "launch" (words[0]) into one
 * command line, which ends with the program, and reads it. For `launch`, both->local_rank_flag is the flag that
 * torch.distributed.launch appends. The caller frees both->argv, also after an error. Returns 0, or CL_CODE_USAGE or
 * CL_CODE_SYSTEM with a sentence in cs_error(). */
int cl_launch_read(cl_options *both, const cl_options *options, char **words);

#endif
