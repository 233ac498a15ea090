/* ranks.h - Environment variables of a rank (RANK, WORLD_SIZE, ...), under the names of torchrun, DeepSpeed and
 * cspeed. */
#ifndef CL_RANKS_H
#define CL_RANKS_H

#include "plan/bind.h"
#include "plan/order.h"

/* One variable of a rank's environment; value NULL: the variable is removed. */
typedef struct {
    const char *name;
    char value[512];
} cl_variable;

enum { CL_RANKS_VARIABLES = 40 };

/* Fills the variables of rank first_rank + local of the order; returns their number. local.c adds the variables that
 * name descriptors. */
int cl_ranks_variables(const cl_order *order, const cl_binding *binding, int local,
                       cl_variable variables[CL_RANKS_VARIABLES]);

/* Variables that a rank must not inherit: those of an outer launch, and the job's secret. NULL-terminated. */
extern const char *const cl_ranks_forgotten[];

#endif
