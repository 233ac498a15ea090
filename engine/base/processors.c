/* processors.c - the number of processors that this process may use. */
#include "base/processors.h"

#include <sched.h>

int ce_processors_allowed(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}
