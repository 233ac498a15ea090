/* failure_hint.h - hints for known causes of failure, such as an out-of-memory kill or a port in use. */
#ifndef CL_FAILURE_HINT_H
#define CL_FAILURE_HINT_H

#include "front/front.h"

/* Returns true if SIGKILL ended the rank, and if the count of out-of-memory kills that the rank's agent reads
 * (ce_cgroup_oom_kills) has increased since the attempt began. */
bool cl_failure_hint_is_oom(const cl_link_end *end);

/* Returns a sentence that may help against the reported failure, or "" if its cause is unknown. The text is static. */
const char *cl_failure_hint_text(const cl_front *front);

#endif
