/* failure_hint.h - known causes of death, and what helps. */
#ifndef CS_LAUNCHER_HINT_H
#define CS_LAUNCHER_HINT_H

#include "front/front.h"

/* Whether the kernel has killed for want of memory on that node while the job ran, and the rank died as it would. */
bool cs_hint_is_oom(const cs_link_end *end);

/* A sentence for what failed first; "" when nothing is known. */
const char *cs_hint_text(const cs_front *front);

#endif
