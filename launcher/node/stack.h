/* stack.h - Reads the C stack of a rank that makes no progress. */
#ifndef CL_STACK_H
#define CL_STACK_H

#include "node/local.h"

/* Returns malloc'ed text: the stack as the rank itself writes it (base/beat.h) within a fifth of a second, or, if the
 * rank does not answer or is frozen, the positions of its threads in the kernel. The function blocks for no longer than
 * that fifth of a second. */
char *cl_stack_text(cl_process *process);

#endif
