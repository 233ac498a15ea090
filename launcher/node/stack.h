/* stack.h - the C stack of a rank that does not move. */
#ifndef CL_STACK_H
#define CL_STACK_H

#include "node/local.h"

/* Malloc'ed text: the stack as the rank itself writes it (base/beat.h) within a fifth of a second; from one that does
 * not, or is frozen, where the kernel says its threads are. Never blocks for longer. */
char *cl_stack_text(cl_process *process);

#endif
