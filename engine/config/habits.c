/* habits.c - checks of the keys of cspeed that change how a training is watched and what is learnt: the best checkpoint
 * and the early end. */
#include "config/resolve.h"

/* Checks the keys that need evaluations, or preference training. */
static void check_best(cs_config *config)
{
    const ce_settings *s = &config->settings;
    const char *given = s->keep_best                     ? "cspeed.keep_best"
                        : s->early_stopping_patience > 0 ? "cspeed.early_stopping_patience"
                                                         : NULL;
    if (given && s->valid_count == 0)
        ce_json_fault(config->doc, given, "it needs evaluations, and cspeed.data.valid names no data");
    if (s->best_metric != CE_BEST_LOSS && s->preference.beta <= 0)
        ce_json_fault(config->doc, "cspeed.best_metric",
                      "only preference training (cspeed.dpo.beta) has rewards; \"loss\" is the only other metric");
}

void ce_habits_resolve(cs_config *config)
{
    check_best(config);
}
