/* venv.h - --venv_script: the environment that a shell script sets, as with `source` in DeepSpeed. */
#ifndef CL_VENV_H
#define CL_VENV_H

#include "plan/order.h"

/* Runs the order's script once in this node's sh, and copies the variables that the script has set into the environment
 * of this process. Ranks inherit them; the order's own environment overrides them. Returns 0, or CL_CODE_NO_FILE,
 * CL_CODE_FILE with a message. */
int cl_venv_read(cl_order *order);

#endif
