/* ranks.h - slots to ranks: how many there are, which cores each has, what each is told.
 *
 * A job is planned whole before anything is started. */
#ifndef CS_LAUNCHER_RANKS_H
#define CS_LAUNCHER_RANKS_H

#include "cores.h"
#include "options.h"

#include <limits.h>

/* Where a rank sits. */
typedef struct {
    cpu_set_t cpus; /* meaningful when the job is bound */
    int       threads;
} cs_seat;

typedef struct {
    const cs_options *options;
    char              program[PATH_MAX];
    char            **arguments; /* arguments[0] is the name as it was given */
    char              id[9];     /* CSPEED_JOB_ID: 8 random hex digits */
    int               port;
    int               columns; /* of the terminal that stdout is; 0: it is none */
    bool              bound, tell_threads;
    int               rank_count;
    cs_seat          *seats; /* one a rank */
} cs_job;

/* Decides ranks, cores and threads. 0, or CS_CODE_SLOTS, CS_CODE_SYSTEM with a sentence. */
int  cs_ranks_plan(cs_job *job, const cs_options *options);
void cs_ranks_free(cs_job *job);

/* One variable of a rank's environment. */
typedef struct {
    const char *name;
    char        value[64];
} cs_variable;

enum { CS_RANKS_VARIABLES = 24 };

/* What a rank is told beside the environment of cspeed itself; returns how many. */
int cs_ranks_variables(const cs_job *job, int rank, cs_variable variables[CS_RANKS_VARIABLES]);

#endif
