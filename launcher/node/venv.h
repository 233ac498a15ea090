/* venv.h - the environment that a shell script sets (--venv_script), as with `source` in DeepSpeed. */
#ifndef CL_VENV_H
#define CL_VENV_H

#include "plan/order.h"

/* Runs the order's script once in a shell (sh) of this node, and copies the variables that the script has set into the
 * environment of this process. The ranks inherit these variables; the order's own variables override them. Returns 0,
 * or CL_CODE_NO_FILE, CL_CODE_FILE or CL_CODE_SYSTEM with a message. */
int cl_venv_read(cl_order *order);

#endif
