/* update.c - the optimizer's update of all parameters. Most rules update each element by itself; directions.c has the
 * rules that first return a direction. */
#include "zero/update.h"
#include "base/must.h"

#include <stdlib.h>

ce_update *ce_update_open(const ce_zero *zero, ce_shard **shards, const cs_model *model, void *scratch, void *table)
{
    ce_update *update = ce_must_alloc(sizeof *update);
    *update = (ce_update){ .zero = zero, .shards = shards, .model = model };
    ce_ranges_open(&update->ranges, zero, shards, model, table);
    ce_directions_open(update, scratch);
    return update;
}

void ce_update_close(ce_update *update)
{
    if (!update)
        return;
    ce_ranges_close(&update->ranges);
    ce_directions_close(update->directions);
    free(update);
}

void ce_update_begin(ce_update *update, const ce_update_terms *move)
{
    const ce_groups *groups = update->zero->groups;
    update->gate = move->gate;
    for (int i = 0; i < groups->count; i++) {
        ce_optim_settings settings = groups->group[i].settings;
        if (move->cycles && ce_optim_has_betas(&settings)) {
            settings.betas[0] = move->betas[0];
            settings.betas[1] = move->betas[1];
        }
        update->hyper[i] = ce_optim_hyper(&settings, move->rate * groups->group[i].ratio, move->t, 1);
    }
    if (update->directions)
        ce_directions_begin(update);
}

/* Rules that return no direction run first: they read the row of gradients, which Muon's work overwrites. */
void ce_update_take(ce_update *update, int number)
{
    ce_apply_rules(update, number, CE_DIRECTLY);
    if (update->directions)
        ce_directions_take(update, number);
}
