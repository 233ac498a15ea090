/* ranks.h - what a rank is told: its place in the world, in torchrun's, DeepSpeed's and our own names. */
#ifndef CL_RANKS_H
#define CL_RANKS_H

#include "plan/bind.h"
#include "plan/order.h"

/* One variable of a rank's environment; value NULL: it is taken away. */
typedef struct {
    const char *name;
    char value[512];
} cl_variable;

enum { CL_RANKS_VARIABLES = 40 };

/* For rank first_rank + local of the order; returns how many there are. Descriptors are the agent's (local.c). */
int cl_ranks_variables(const cl_order *order, const cl_seats *seats, int local,
                       cl_variable variables[CL_RANKS_VARIABLES]);

/* Variables that a rank must not inherit: those of an outer launch, and the job's secret. NULL-terminated. */
extern const char *const cl_ranks_forgotten[];

#endif
