/* train_line.h - checks the command line of `train` before a job begins. */
#ifndef CL_TRAIN_LINE_H
#define CL_TRAIN_LINE_H

#include "plan/hostplan.h"

/* Checks the command line if the program of the plan is cspeed's `train`: its options, and, if this machine has rank 0,
 * the configuration and the existence of the model and of the data. Returns 0, or an exit code with a sentence in
 * cs_error(). */
int cl_train_line_check(const cl_plan *plan);

#endif
