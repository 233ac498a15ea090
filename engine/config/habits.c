/* habits.c - checks of the keys of cspeed that change how a training is watched and what is learnt: the best checkpoint,
 * the early end, terms of the loss and noise. */
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

/* Checks the terms of the loss and the noise on embeddings. */
static void check_regular(cs_config *config)
{
    const ce_settings *s = &config->settings;
    const char *given = s->label_smoothing > 0       ? "cspeed.label_smoothing_factor"
                        : s->z_loss > 0              ? "cspeed.z_loss"
                        : s->neftune_noise_alpha > 0 ? "cspeed.neftune_noise_alpha"
                                                     : NULL;
    if (given && s->preference.beta > 0)
        ce_json_fault(config->doc, given,
                      "not supported: with cspeed.dpo, whose loss compares log-probabilities with those of the "
                      "reference model");
    if (s->ema_decay >= 1)
        ce_json_fault(config->doc, "cspeed.ema_decay", "less than 1 is needed: otherwise the average never changes");
    if (s->ema_decay > 0 && s->offload_optimizer == CE_OFFLOAD_CPU)
        ce_json_fault(
            config->doc, "cspeed.ema_decay",
            "not supported: with zero_optimization.offload_optimizer, because averages are kept on the device");
    if (s->label_smoothing >= 1)
        ce_json_fault(config->doc, "cspeed.label_smoothing_factor",
                      "less than 1 is needed: otherwise no target counts");
}

void ce_habits_resolve(cs_config *config)
{
    check_best(config);
    check_regular(config);
}
