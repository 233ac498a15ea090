/* warmup_cosine.c - WarmupCosineLR: the rate goes up to the optimizer's lr and then down along a half cosine. The keys
 * warmup_min_ratio and cos_min_ratio are shares of this lr.
 *
 * As in DeepSpeed, the first update has the rate 0. The last iteration of a linear warm-up is one increment below the
 * optimizer's lr, and the first iteration after the warm-up has the second value of the cosine. */
#include "schedule/warmup.h"

#include <math.h>

static const ce_key keys[] = {
    CE_WARMUP_TOTAL,
    { "warmup_min_ratio", CE_KEY_NUMBER, CE_WARMUP_AT(warmup_min_ratio), "0", 0, 1e30, "auto",
      "learning rate at the start of the warm-up, as a share of the optimizer's lr" },
    { "cos_min_ratio", CE_KEY_NUMBER, CE_WARMUP_AT(cos_min_ratio), "0.0001", 0, 1e30, "auto",
      "learning rate at the end of the cosine, as a share of the optimizer's lr" },
    CE_WARMUP_COMMON,
};

static double rate(const ce_schedule_settings *settings, int64_t iteration)
{
    double low = settings->warmup_min_ratio, end = settings->cos_min_ratio, ratio;
    int64_t steps = ce_warmup_steps(settings), total = settings->total_num_steps;
    if (iteration < 0)
        return 0;
    if (iteration < steps) {
        ratio = low + (1 - low) * ce_warmup_share(settings, iteration);
    } else {
        double progress = fmin(1, (double)(iteration - steps + 1) / fmax(1, (double)(total - steps)));
        ratio = fmax(0, end + (1 - end) * (1 + cos(M_PI * progress)) / 2);
    }
    return settings->base_rate * ratio;
}

const ce_schedule ce_schedule_WarmupCosineLR = { "WarmupCosineLR", CE_KEYS(keys), rate, NULL };
