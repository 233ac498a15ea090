/* linear.c - PyTorch's LinearLR: the rate is the optimizer's lr times a factor. The factor changes linearly from
 * start_factor to end_factor in total_iters updates and is then constant. */
#include "schedule/warmup.h"

static const ce_key keys[] = {
    { "start_factor", CE_KEY_NUMBER, CE_WARMUP_AT(start_factor), "0.3333333333333333", 1e-30, 1, NULL,
      "factor of the optimizer's lr in the first update; greater than 0" },
    { "end_factor", CE_KEY_NUMBER, CE_WARMUP_AT(end_factor), "1.0", 0, 1, NULL,
      "factor of the optimizer's lr after total_iters updates" },
    { "total_iters", CE_KEY_INT, CE_WARMUP_AT(total_num_steps), "5", 1, CE_WARMUP_MAX, "auto",
      "number of updates in which the factor goes from start_factor to end_factor; \"auto\": cspeed.steps" },
    { "last_epoch", CE_KEY_INT, CE_WARMUP_AT(last_batch_iteration), "-1", -1, CE_WARMUP_MAX, NULL,
      "number of the iteration at which the schedule starts; -1: at its beginning" },
};

static double rate(const ce_schedule_settings *settings, int64_t iteration)
{
    int64_t update = iteration + 1, total = settings->total_num_steps;
    double share = total > 0 ? (double)(update < total ? update : total) / (double)total : 0;
    return settings->base_rate * (settings->start_factor + (settings->end_factor - settings->start_factor) * share);
}

const ce_schedule ce_schedule_LinearLR = { "LinearLR", CE_KEYS(keys), rate, NULL };
