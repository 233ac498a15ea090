/* stack.h - reads the C stack of a rank that makes no progress. */
#ifndef CL_STACK_H
#define CL_STACK_H

#include "node/local.h"

/* Returns malloc'ed text: the C stack that the rank itself writes (base/beat.h). If the rank does not answer within 200
 * ms, or is suspended, the text has the positions of the rank's threads in the kernel instead. The function waits at
 * most 200 ms. */
char *cl_stack_text(cl_process *process);

#endif
