/* warmup.c - WarmupLR: the rate goes from warmup_min_lr to warmup_max_lr in warmup_num_steps iterations and is then
 * constant. */
#include "schedule/warmup.h"

#include <math.h>

static const ce_key keys[] = {
    { "warmup_min_lr", CE_KEY_NUMBER, CE_WARMUP_AT(warmup_min_lr), "0", 0, 1e30, "auto",
      "learning rate at the start of the warm-up; \"auto\": 0" },
    { "warmup_max_lr", CE_KEY_NUMBER, CE_WARMUP_AT(warmup_max_lr), "null", 0, 1e30, "auto",
      "learning rate at the end of the warm-up; null and \"auto\": the optimizer's lr" },
    CE_WARMUP_COMMON,
};

int64_t ce_warmup_given(const ce_schedule_settings *settings)
{
    if (settings->warmup_num_steps > 0)
        return settings->warmup_num_steps;
    return (int64_t)ceil((double)settings->total_num_steps * settings->warmup_ratio);
}

int64_t ce_warmup_steps(const ce_schedule_settings *settings)
{
    int64_t given = ce_warmup_given(settings);
    return given > 2 ? given : 2;
}

double ce_warmup_share(const ce_schedule_settings *settings, int64_t iteration)
{
    double i = (double)iteration, steps = (double)ce_warmup_steps(settings);
    return settings->warmup_type == 1 ? i / steps : log(i + 1) / log(steps);
}

static double rate(const ce_schedule_settings *settings, int64_t iteration)
{
    double low = settings->warmup_min_lr, high = settings->warmup_max_lr;
    if (iteration < 0)
        return low;
    return iteration < ce_warmup_steps(settings) ? low + (high - low) * ce_warmup_share(settings, iteration) : high;
}

const ce_schedule ce_schedule_WarmupLR = { "WarmupLR", CE_KEYS(keys), rate, NULL };
