/* warmup_decay.c - WarmupDecayLR: the rate goes up as in WarmupLR. Then it goes linearly down to warmup_min_lr, which
 * it reaches at total_num_steps. */
#include "schedule/warmup.h"

#include <math.h>

static const ce_key keys[] = {
    { "warmup_min_lr", CE_KEY_NUMBER, CE_WARMUP_AT(warmup_min_lr), "0", 0, 1e30, "auto",
      "learning rate at the start of the warm-up; \"auto\": 0" },
    { "warmup_max_lr", CE_KEY_NUMBER, CE_WARMUP_AT(warmup_max_lr), "1e-3", 0, 1e30, "auto",
      "learning rate at the end of the warm-up; \"auto\": the optimizer's lr" },
    CE_WARMUP_TOTAL,
    CE_WARMUP_COMMON,
};

static double rate(const ce_schedule_settings *settings, int64_t iteration)
{
    double low = settings->warmup_min_lr, high = settings->warmup_max_lr, share;
    int64_t steps = ce_warmup_steps(settings), total = settings->total_num_steps;
    if (iteration < 0)
        return low;
    if (iteration < steps)
        share = ce_warmup_share(settings, iteration);
    else
        share = fmax(0, (double)(total - iteration) / fmax(1, (double)(total - steps)));
    return low + (high - low) * share;
}

const ce_schedule ce_schedule_WarmupDecayLR = { "WarmupDecayLR", CE_KEYS(keys), rate, NULL };
