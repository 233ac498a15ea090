/* ranks.h - Environment variables of a rank (RANK, WORLD_SIZE, ...), under the names of torchrun, DeepSpeed and
 * cspeed. */
#ifndef CL_RANKS_H
#define CL_RANKS_H

#include "plan/bind.h"
#include "plan/order.h"

/* One variable of a rank's environment. */
typedef struct {
    const char *name;
    char value[512];
} cl_variable;

enum { CL_RANKS_VARIABLES = 40 };

/* Writes the variables of the rank first_rank + local of the order, and returns their number. local.c adds the
 * variables that contain file descriptors. */
int cl_ranks_variables(const cl_order *order, const cl_binding *binding, int local,
                       cl_variable variables[CL_RANKS_VARIABLES]);

/* NULL-terminated names of variables that a rank must not inherit: those of a job that started this job, and the job's
 * secret. */
extern const char *const cl_ranks_forgotten[];

#endif
