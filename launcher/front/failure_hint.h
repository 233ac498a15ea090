/* failure_hint.h - known causes of death, and what helps. */
#ifndef CL_FAILURE_HINT_H
#define CL_FAILURE_HINT_H

#include "front/front.h"

/* Whether the kernel has killed for want of memory on that node while the job ran, and the rank died as it would. */
bool cl_failure_hint_is_oom(const cl_link_end *end);

/* A sentence for what failed first; "" when nothing is known. */
const char *cl_failure_hint_text(const cl_front *front);

#endif
