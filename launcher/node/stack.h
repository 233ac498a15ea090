/* stack.h - the C stack of a rank that does not move. */
#ifndef CS_LAUNCHER_STACK_H
#define CS_LAUNCHER_STACK_H

#include "node/local.h"

/* Malloc'ed text: the stack as the rank itself writes it (base/beat.h) within a fifth of a second; from one that does
 * not, or is frozen, where the kernel says its threads are. Never blocks for longer. */
char *cs_stack_text(cs_process *process);

#endif
