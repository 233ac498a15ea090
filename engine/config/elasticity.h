/* elasticity.h - elastic training: one batch size for many world sizes, as in versions 0.1 and 0.2 of DeepSpeed's
 * elasticity.
 *
 * This is arithmetic only. The launcher uses it to find the world sizes with which a job may continue; the
 * configuration uses it to find the batch size. DeepSpeed's version 0.2 confuses ranks with data-parallel ranks, so the
 * micro batch that it chooses sometimes does not divide the batch of a rank. Here all counts are numbers of ranks, and
 * a batch is divided among ranks / model_parallel_size data-parallel ranks. */
#ifndef CE_CONFIG_ELASTICITY_H
#define CE_CONFIG_ELASTICITY_H

#include "json/json.h"

enum { CE_ELASTICITY_MICROS = 32, CE_ELASTICITY_RANKS = 1 << 16 };

typedef struct {
    bool enabled, prefer_larger_batch, ignore_non_elastic_batch_info;
    int64_t max_train_batch_size;
    int64_t micro_batch_sizes[CE_ELASTICITY_MICROS];
    int micro_count;
    json_t *micro_batch_sizes_json; /* the key's value, which is read into micro_batch_sizes */
    int64_t min_gpus, max_gpus, num_gpus_per_node, model_parallel_size;
    double version;
} ce_elasticity;

typedef struct {
    int64_t batch;   /* value of train_batch_size for every world size in `worlds` */
    int64_t *worlds; /* world sizes in ascending order, which ce_elasticity_free frees */
    int count;
} ce_elasticity_plan;

/* Computes the batch size and the world sizes that can train it. `world` is the current number of ranks, or 0 if it is
 * not known. Version 0.2 needs `world`: if the general solution does not contain this world size, the plan is for this
 * world size only. Returns CS_BAD_CONFIG if there is no solution. */
cs_status ce_elasticity_solve(ce_elasticity_plan *plan, const ce_elasticity *settings, int64_t world);
void ce_elasticity_free(ce_elasticity_plan *plan);
bool ce_elasticity_allows(const ce_elasticity_plan *plan, int64_t world);
/* Returns the largest micro batch that divides the batch of one data-parallel rank, or 0 if there is none. */
int64_t ce_elasticity_micro(const ce_elasticity *settings, int64_t batch, int64_t world);

#endif
