/* launch.h - reads the command line of `cspeed run` and `cspeed launch`. */
#ifndef CL_LAUNCH_H
#define CL_LAUNCH_H

#include "ground/options.h"

/* Reads into `both` the flags before the command (`options`), and the flags, the program and its arguments after the
 * word "run" or "launch" (words[0]). For `launch` without --use_env and --local_rank_arg, both->local_rank_flag becomes
 * "--local-rank", the flag that torch.distributed.launch appends to the program's arguments. The caller frees
 * both->argv, also after an error. Returns 0, or CL_CODE_USAGE or CL_CODE_SYSTEM with a sentence in cs_error(). */
int cl_launch_read(cl_options *both, const cl_options *options, char **words);

#endif
