/* launch.h - what stands behind `run`. */
#ifndef CS_LAUNCHER_LAUNCH_H
#define CS_LAUNCHER_LAUNCH_H

#include "options.h"

/* The flags before the command's word and those behind it (`arguments`), read as one command line, with the program
 * behind them; both->argv is to be freed, also after a failure. 0, or CS_CODE_USAGE or CS_CODE_SYSTEM with a sentence.
 */
int cs_launch_read(cs_options *both, const cs_options *options, char **arguments);

#endif
