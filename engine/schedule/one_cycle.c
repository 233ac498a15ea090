/* one_cycle.c - OneCycle: the rate goes up and down once while the momentum goes down and up. Then the rate decays
 * slowly. */
#include "schedule/warmup.h"

#include <math.h>

/* The upper bound of the momentum. DeepSpeed has no bound: after the cycle its momentum grows beyond 1, where Adam's
 * bias correction is undefined. */
#define MAX_MOMENTUM 0.999

static const ce_key keys[] = {
    { "cycle_min_lr", CE_KEY_NUMBER, CE_WARMUP_AT(cycle_min_lr), "null", 0, 1e30, NULL,
      "required: learning rate at the start and at the end of the cycle" },
    { "cycle_max_lr", CE_KEY_NUMBER, CE_WARMUP_AT(cycle_max_lr), "null", 0, 1e30, NULL,
      "required: learning rate at the peak of the cycle" },
    { "decay_lr_rate", CE_KEY_NUMBER, CE_WARMUP_AT(decay_lr_rate), "0", 0, 1e30, NULL,
      "after the cycle the rate is cycle_min_lr / (1 + decay_lr_rate x updates since the cycle / decay_step_size)" },
    { "cycle_first_step_size", CE_KEY_INT, CE_WARMUP_AT(cycle_first_step_size), "2000", 1, CE_WARMUP_MAX, NULL,
      "number of updates in which the learning rate rises" },
    { "cycle_second_step_size", CE_KEY_INT, CE_WARMUP_AT(cycle_second_step_size), "null", 0, CE_WARMUP_MAX, NULL,
      "number of updates in which the learning rate falls; null: cycle_first_step_size" },
    { "cycle_first_stair_count", CE_KEY_INT, CE_WARMUP_AT(cycle_first_stair_count), "0", 0, CE_WARMUP_MAX, NULL,
      "number of equal stairs in which the rate rises; 0: it rises linearly" },
    { "cycle_second_stair_count", CE_KEY_INT, CE_WARMUP_AT(cycle_second_stair_count), "null", 0, CE_WARMUP_MAX, NULL,
      "number of equal stairs in which the rate falls; 0: linearly; null: cycle_first_stair_count" },
    { "decay_step_size", CE_KEY_INT, CE_WARMUP_AT(decay_step_size), "0", 0, CE_WARMUP_MAX, NULL,
      "unit, in updates, of the decay of rate and momentum after the cycle; 0: no decay" },
    { "cycle_momentum", CE_KEY_BOOL, CE_WARMUP_AT(cycle_momentum), "true", 0, 0, NULL,
      "true: beta1 falls while the rate rises and rises while it falls, and beta2 is 0.99; only for optimizers with betas" },
    { "cycle_min_mom", CE_KEY_NUMBER, CE_WARMUP_AT(cycle_min_mom), "0.8", 0, MAX_MOMENTUM, NULL,
      "beta1 at the peak of the cycle" },
    { "cycle_max_mom", CE_KEY_NUMBER, CE_WARMUP_AT(cycle_max_mom), "0.9", 0, MAX_MOMENTUM, NULL,
      "beta1 at the start and at the end of the cycle" },
    { "decay_mom_rate", CE_KEY_NUMBER, CE_WARMUP_AT(decay_mom_rate), "0", 0, 1e30, NULL,
      "after the cycle beta1 is cycle_max_mom x (1 + decay_mom_rate x updates since the cycle / decay_step_size), at most 0.999" },
    CE_WARMUP_START,
};

static double stairs(double place, double count)
{
    return floor(place) / count;
}

/* Returns how far update n is on the way to the peak of the cycle: 0 at the two ends of the cycle, 1 at the peak. */
static double share(const ce_schedule_settings *settings, int64_t n)
{
    double first = (double)settings->cycle_first_step_size, second = (double)settings->cycle_second_step_size;
    double whole = first + second, at = (double)n / whole, peak = first / whole;
    double up = (double)settings->cycle_first_stair_count, down = (double)settings->cycle_second_stair_count;
    double j = fmod((double)n, whole);
    at -= floor(at);
    if (j <= first)
        return up > 0 ? stairs(j * up / first, up) : at / peak;
    return down > 0 ? stairs((whole - j) * down / second, down) : (at - 1) / (peak - 1);
}

static bool is_cycling(const ce_schedule_settings *settings, int64_t iteration)
{
    return iteration < settings->cycle_first_step_size + settings->cycle_second_step_size;
}

/* Returns the number of decay steps since the end of the cycle. This number may be a fraction. */
static double decayed(const ce_schedule_settings *settings, int64_t iteration)
{
    int64_t since = iteration - settings->cycle_first_step_size - settings->cycle_second_step_size + 1;
    return settings->decay_step_size ? (double)since / (double)settings->decay_step_size : 0;
}

static double rate(const ce_schedule_settings *settings, int64_t iteration)
{
    double low = settings->cycle_min_lr, high = settings->cycle_max_lr;
    if (is_cycling(settings, iteration))
        return low + (high - low) * share(settings, iteration + 1);
    return low / (1 + settings->decay_lr_rate * decayed(settings, iteration));
}

/* Returns the momentum of an iteration. The first update (iteration -1) uses cycle_min_mom, as in DeepSpeed. */
static double momentum(const ce_schedule_settings *settings, int64_t iteration)
{
    double low = settings->cycle_min_mom, high = settings->cycle_max_mom;
    if (iteration < 0)
        return low;
    if (is_cycling(settings, iteration))
        return high - (high - low) * share(settings, iteration + 1);
    return fmin(MAX_MOMENTUM, high * (1 + settings->decay_mom_rate * decayed(settings, iteration)));
}

const ce_schedule ce_schedule_OneCycle = { "OneCycle", CE_KEYS(keys), rate, momentum };
