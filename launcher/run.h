/* run.h - a program on its ranks: plan, start, watch, exit code. */
#ifndef CS_LAUNCHER_RUN_H
#define CS_LAUNCHER_RUN_H

#include "options.h"

/* The exit code of cspeed; with a sentence in cs_error() when the job could not be started. */
int cs_run(const cs_options *options);

#endif
