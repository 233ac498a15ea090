/* failure.h - the last words about a job that did not end well: which rank, why, how far, what is left. */
#ifndef CS_LAUNCHER_FAILURE_H
#define CS_LAUNCHER_FAILURE_H

#include "watch.h"

/* Says nothing when the job ended well; one line when it was stopped from outside, or when the program has
 * explained itself; a block when a rank died. */
void cs_failure_say(const cs_watch *watch);

#endif
