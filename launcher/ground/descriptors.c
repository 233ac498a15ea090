/* descriptors.c - raises the limit of open files (RLIMIT_NOFILE) of this process. */
#include "ground/descriptors.h"

#include <stdbool.h>

static struct rlimit before;
static bool raised;

void cl_descriptors_raise(void)
{
    raised = getrlimit(RLIMIT_NOFILE, &before) == 0 &&
             setrlimit(RLIMIT_NOFILE, &(struct rlimit){ before.rlim_max, before.rlim_max }) == 0;
}

void cl_descriptors_restore(void)
{
    if (raised)
        setrlimit(RLIMIT_NOFILE, &before);
}

struct rlimit cl_descriptors_before(void)
{
    if (!raised)
        getrlimit(RLIMIT_NOFILE, &before);
    return before;
}
