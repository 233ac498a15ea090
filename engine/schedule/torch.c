/* torch.c - schedules of PyTorch that are a closed form of the number of the update: ConstantLR, CosineAnnealingLR,
 * ExponentialLR, PolynomialLR and StepLR. Each begins at the optimizer's lr. */
#include "schedule/warmup.h"

#include <math.h>

/* clang-format off */
#define START                                                                                                          \
    { "last_epoch", CE_KEY_INT, CE_WARMUP_AT(last_batch_iteration), "-1", -1, CE_WARMUP_MAX, NULL,                     \
      "number of the iteration at which the schedule starts; -1: at its beginning" }
#define ITERS(fallback, min, sentence)                                                                                 \
    { "total_iters", CE_KEY_INT, CE_WARMUP_AT(total_num_steps), fallback, min, CE_WARMUP_MAX, "auto", sentence }
#define GAMMA(fallback, sentence)                                                                                      \
    { "gamma", CE_KEY_NUMBER, CE_WARMUP_AT(gamma), fallback, 0, 1e6, NULL, sentence }
/* clang-format on */

static const ce_key constant_keys[] = {
    { "factor", CE_KEY_NUMBER, CE_WARMUP_AT(start_factor), "0.3333333333333333", 0, 1, NULL,
      "factor of the optimizer's lr in the first total_iters updates" },
    ITERS("5", 1, "number of updates after which the rate is lr; \"auto\": cspeed.steps"),
    START,
};
static const ce_key cosine_keys[] = {
    { "T_max", CE_KEY_INT, CE_WARMUP_AT(restart_first), "null", 1, CE_WARMUP_MAX, NULL,
      "required: number of updates in which the rate falls to eta_min; then it rises again, as in PyTorch" },
    { "eta_min", CE_KEY_NUMBER, CE_WARMUP_AT(restart_min_lr), "0", 0, 1e30, NULL, "minimum learning rate" },
    START,
};
static const ce_key exponential_keys[] = { GAMMA("null", "required: factor of the rate from one update to the next"),
                                           START };
static const ce_key polynomial_keys[] = {
    ITERS("5", 1, "number of updates in which the rate falls to 0; \"auto\": cspeed.steps"),
    { "power", CE_KEY_NUMBER, CE_WARMUP_AT(power), "1.0", 0, 1e3, NULL, "exponent of the decay; 1: linear" },
    START,
};
static const ce_key step_keys[] = {
    { "step_size", CE_KEY_INT, CE_WARMUP_AT(restart_first), "null", 1, CE_WARMUP_MAX, NULL,
      "required: number of updates after which the rate is multiplied by gamma, and again after as many" },
    GAMMA("0.1", "factor of the rate every step_size updates"),
    START,
};

/* The number of the update as PyTorch counts it, from 0. `iteration` is -1 for the first one. */
static double update_of(int64_t iteration)
{
    return (double)(iteration + 1);
}

static double constant(const ce_schedule_settings *s, int64_t iteration)
{
    return s->base_rate * (iteration + 1 < s->total_num_steps ? s->start_factor : 1);
}

static double cosine(const ce_schedule_settings *s, int64_t iteration)
{
    double low = s->restart_min_lr, share = fmod(update_of(iteration), 2 * (double)s->restart_first);
    return low + (s->base_rate - low) * (1 + cos(M_PI * share / (double)s->restart_first)) / 2;
}

static double exponential(const ce_schedule_settings *s, int64_t iteration)
{
    return s->base_rate * pow(s->gamma, update_of(iteration));
}

static double polynomial(const ce_schedule_settings *s, int64_t iteration)
{
    double total = fmax(1, (double)s->total_num_steps);
    return s->base_rate * pow(1 - fmin(update_of(iteration), total) / total, s->power);
}

static double step(const ce_schedule_settings *s, int64_t iteration)
{
    return s->base_rate * pow(s->gamma, floor(update_of(iteration) / (double)s->restart_first));
}

const ce_schedule ce_schedule_ConstantLR = { "ConstantLR", CE_KEYS(constant_keys), constant, NULL };
const ce_schedule ce_schedule_CosineAnnealingLR = { "CosineAnnealingLR", CE_KEYS(cosine_keys), cosine, NULL };
const ce_schedule ce_schedule_ExponentialLR = { "ExponentialLR", CE_KEYS(exponential_keys), exponential, NULL };
const ce_schedule ce_schedule_PolynomialLR = { "PolynomialLR", CE_KEYS(polynomial_keys), polynomial, NULL };
const ce_schedule ce_schedule_StepLR = { "StepLR", CE_KEYS(step_keys), step, NULL };
