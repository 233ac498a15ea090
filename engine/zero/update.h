/* update.h - struct ce_update, and the directions of LAMB and Muon. Private to this folder. */
#ifndef CE_ZERO_UPDATE_H
#define CE_ZERO_UPDATE_H

#include "zero/zero.h"

typedef struct ce_directions ce_directions;

struct ce_update {
    const ce_zero *zero;
    ce_shard **shards;
    const cs_model *model;
    ce_ranges ranges;
    ce_directions *directions; /* NULL if every rule updates the parameters itself */
    const ce_gate *gate;
    ce_hyper hyper[CE_GROUPS];
};

/* ---- apply.c ---- */

/* Runs the optimizer's rule over some ranges of this rank's rows in one launch, if the gate is open or `gate` is NULL.
 * A rule that returns a direction (LAMB, Muon) overwrites the gradient with the direction and does not change the
 * master. */
void ce_apply_rule(ce_shard *shard, ce_state_ranges ranges, const ce_optimizer *optimizer, ce_hyper hyper,
                   const ce_gate *gate);
/* Runs, over the shard with this number, the rules of the groups whose optimizer is of the given kind, with one launch
 * for each group. CE_DIRECTLY stands for all optimizers whose rule returns no direction. */
enum { CE_DIRECTLY = -1 };
void ce_apply_rules(ce_update *update, int number, int kind);

/* ---- directions.c: optimizers whose rule returns a direction ---- */

/* Opens update->directions if the optimizer of a group returns a direction. `scratch` is ce_update_scratch bytes. */
void ce_directions_open(ce_update *update, void *scratch);
void ce_directions_close(ce_directions *directions); /* accepts NULL */
void ce_directions_begin(ce_update *update);         /* computes LAMB's trust ratios */
/* Computes the directions of the shard with this number, and moves its parameters along them. */
void ce_directions_take(ce_update *update, int number);

#endif
