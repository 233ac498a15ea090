/* venv.h - --venv_script: what a shell script leaves in the environment, as DeepSpeed's `source`. */
#ifndef CS_LAUNCHER_VENV_H
#define CS_LAUNCHER_VENV_H

#include "plan/order.h"

/* Runs the order's script once in this node's sh and puts what it set in front of the order's environment. 0, or
 * CS_CODE_NO_FILE, CS_CODE_FILE with a sentence. */
int cs_venv_read(cs_order *order);

#endif
