/* stack.h - reads the C stack of a rank that makes no progress. */
#ifndef CL_STACK_H
#define CL_STACK_H

#include "node/local.h"

/* Returns malloc'ed text: the C stack that the rank itself writes (base/beat.h). The function waits at most 200 ms for
 * it. If the rank has not answered by then, for example because it is suspended, the text instead has one line for each
 * thread of the rank: its state, and the kernel function in which it waits (/proc/PID/task/THREAD/wchan). */
char *cl_stack_text(cl_process *process);

#endif
