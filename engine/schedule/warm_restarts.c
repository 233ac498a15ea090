/* warm_restarts.c - CosineAnnealingWarmRestarts (SGDR, Loshchilov & Hutter 2017) as in PyTorch: the rate follows half
 * cosines from the optimizer's lr down to eta_min. Each half cosine is T_mult times as long as the previous one. */
#include "schedule/warmup.h"

#include <math.h>

static const ce_key keys[] = {
    { "T_0", CE_KEY_INT, CE_WARMUP_AT(restart_first), "null", 1, CE_WARMUP_MAX, NULL,
      "required: number of updates until the first restart" },
    { "T_mult", CE_KEY_INT, CE_WARMUP_AT(restart_factor), "1", 1, 1e6, NULL,
      "factor by which each period between restarts is longer than the one before" },
    { "eta_min", CE_KEY_NUMBER, CE_WARMUP_AT(restart_min_lr), "0", 0, 1e30, NULL,
      "minimum learning rate, at the end of each period" },
    { "last_epoch", CE_KEY_INT, CE_WARMUP_AT(last_batch_iteration), "-1", -1, CE_WARMUP_MAX, NULL,
      "number of the iteration at which the schedule starts; -1: at its beginning" },
};

static double rate(const ce_schedule_settings *settings, int64_t iteration)
{
    int64_t since = iteration + 1, length = settings->restart_first, factor = settings->restart_factor;
    if (factor == 1)
        since %= length;
    while (since >= length) {
        since -= length;
        if (__builtin_mul_overflow(length, factor, &length))
            length = INT64_MAX;
    }
    double low = settings->restart_min_lr, high = settings->base_rate;
    return low + (high - low) * (1 + cos(M_PI * (double)since / (double)length)) / 2;
}

const ce_schedule ce_schedule_CosineAnnealingWarmRestarts = { "CosineAnnealingWarmRestarts", CE_KEYS(keys), rate,
                                                              NULL };
