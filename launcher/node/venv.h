/* venv.h - --venv_script: what a shell script leaves in the environment, as DeepSpeed's `source`. */
#ifndef CL_VENV_H
#define CL_VENV_H

#include "plan/order.h"

/* Runs the order's script once in this node's sh and puts what it set in front of the order's environment. 0, or
 * CL_CODE_NO_FILE, CL_CODE_FILE with a sentence. */
int cl_venv_read(cl_order *order);

#endif
