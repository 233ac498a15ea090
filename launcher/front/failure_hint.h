/* failure_hint.h - hints for known causes of failure, such as an out-of-memory kill or a port in use. */
#ifndef CL_FAILURE_HINT_H
#define CL_FAILURE_HINT_H

#include "front/front.h"

/* Returns true if the rank was killed by SIGKILL and the kernel's out-of-memory killer was active on that node while
 * the job ran. */
bool cl_failure_hint_is_oom(const cl_link_end *end);

/* Returns a sentence that may help against the reported failure, or "" if its cause is unknown. The text is static. */
const char *cl_failure_hint_text(const cl_front *front);

#endif
