/* elasticity.h - one batch size for many world sizes: DeepSpeed's elasticity, versions 0.1 and 0.2.
 *
 * Pure arithmetic: the launcher asks it which world sizes a job may go on with, the configuration which batch to train.
 * Where DeepSpeed 0.2 mixes ranks with data-parallel ranks (its micro batch may not divide the batch of a rank), both
 * are ranks here: every count is of ranks, and a batch is shared out over ranks / model_parallel_size. */
#ifndef CS_CONFIG_ELASTICITY_H
#define CS_CONFIG_ELASTICITY_H

#include "base/json.h"

enum { CS_ELASTICITY_MICROS = 32, CS_ELASTICITY_RANKS = 1 << 16 };

typedef struct {
    bool enabled, prefer_larger_batch, ignore_non_elastic_batch_info;
    int64_t max_train_batch_size;
    int64_t micro_batch_sizes[CS_ELASTICITY_MICROS];
    int micro_count;
    json_t *written; /* micro_batch_sizes, as the file has it */
    int64_t min_gpus, max_gpus, min_time, num_gpus_per_node, model_parallel_size;
    double version;
} cs_elasticity;

typedef struct {
    int64_t batch;   /* train_batch_size of every world size below */
    int64_t *worlds; /* ascending, malloc'ed                       */
    int count;
} cs_elasticity_plan;

/* The batch and the worlds it can train on. `world` is the number of ranks now, 0 when not known, which version 0.2
 * needs: where the general answer has no place for it, 0.2 makes one for it alone. CS_BAD_CONFIG when there is none. */
cs_status cs_elasticity_solve(cs_elasticity_plan *plan, const cs_elasticity *settings, int64_t world);
void cs_elasticity_free(cs_elasticity_plan *plan);
bool cs_elasticity_allows(const cs_elasticity_plan *plan, int64_t world);
/* The largest micro batch that the share of a data-parallel rank is a multiple of; 0: none. */
int64_t cs_elasticity_micro(const cs_elasticity *settings, int64_t batch, int64_t world);

#endif
