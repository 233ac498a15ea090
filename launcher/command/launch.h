/* launch.h - reads the command line of `cspeed run` and `cspeed launch`. */
#ifndef CL_LAUNCH_H
#define CL_LAUNCH_H

#include "options.h"

/* Combines the flags before the command (`options`) and the words from "run" or "launch" (words[0]) on into one command
 * line, and reads it into `both`. The line ends with the program. For `launch`, both->local_rank_flag is the flag that
 * torch.distributed.launch appends. The caller frees both->argv, also after an error. Returns 0; or returns
 * CL_CODE_USAGE or CL_CODE_SYSTEM, with a sentence in cs_error(). */
int cl_launch_read(cl_options *both, const cl_options *options, char **words);

#endif
