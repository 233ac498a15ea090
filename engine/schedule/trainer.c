/* trainer.c - the schedules of Hugging Face's Trainer (lr_scheduler_type), in the form that transformers computes them:
 * the rate is the optimizer's lr times a factor. Update n, counted from 0, has the factor of Trainer's step n. With a
 * warm-up the factor rises linearly from 0; DeepSpeed's Warmup schedules reach the same values one update later. */
#include "schedule/warmup.h"

#include <math.h>

/* clang-format off */
#define ROW(name, type, field, fallback, min, max, choices, sentence)                                                  \
    { name, CE_KEY_##type, CE_WARMUP_AT(field), fallback, min, max, choices, sentence }
#define WARMUP                                                                                                         \
    ROW("warmup_num_steps", INT, warmup_num_steps, "0", 0, CE_WARMUP_MAX, "auto", "length of the warm-up in updates"),           \
    CE_WARMUP_RATIO
#define TOTAL                                                                                                          \
    ROW("total_num_steps", INT, total_num_steps, "0", 0, CE_WARMUP_MAX, "auto",                                        \
        "number of updates of the whole training; 0 and \"auto\": cspeed.steps")
#define CYCLES(fallback, sentence) ROW("num_cycles", NUMBER, cycles, fallback, 0, 1e6, NULL, sentence)
#define WAVES CYCLES("0.5", "number of periods of the cosine; 0.5: the rate falls once from lr to its minimum")
#define MIN_LR                                                                                                         \
    ROW("min_lr", NUMBER, min_lr, "null", 0, 1e30, NULL, "learning rate at the end; give either this key or min_lr_rate"),    \
    ROW("min_lr_rate", NUMBER, min_lr_rate, "null", 0, 1, NULL, "learning rate at the end as a share of the optimizer's lr; give either this key or min_lr")
/* clang-format on */

static const ce_key plain_keys[] = { WARMUP, TOTAL };
static const ce_key cosine_keys[] = { WARMUP, TOTAL, WAVES };
static const ce_key restart_keys[] = {
    WARMUP, TOTAL, CYCLES("1", "number of cycles; in each the rate falls from lr to 0 along half a cosine")
};
static const ce_key polynomial_keys[] = {
    WARMUP,
    TOTAL,
    ROW("lr_end", NUMBER, lr_end, "1e-7", 0, 1e30, NULL,
        "learning rate at the end of the decay; must be below the optimizer's lr"),
    ROW("power", NUMBER, power, "1.0", 0, 1e3, NULL, "exponent of the polynomial decay; 1: linear"),
};
static const ce_key inverse_keys[] = {
    WARMUP,
    TOTAL,
    ROW("timescale", INT, timescale, "0", 0, CE_WARMUP_MAX, NULL,
        "updates after which the rate is lr / sqrt(1 + (update - warm-up) / timescale); 0: the length of the warm-up, "
        "or 10000 without one"),
};
static const ce_key min_keys[] = { WARMUP, TOTAL, WAVES, MIN_LR };
static const ce_key warmup_min_keys[] = {
    WARMUP,
    TOTAL,
    WAVES,
    MIN_LR,
    ROW("warmup_lr_rate", NUMBER, warmup_lr_rate, "null", 0, 1, NULL,
        "learning rate of the first update as a share of lr; null: 1 / length of the warm-up"),
};
static const ce_key stable_keys[] = {
    WARMUP,
    TOTAL,
    WAVES,
    ROW("num_decay_steps", INT, num_decay_steps, "null", 0, CE_WARMUP_MAX, NULL,
        "required: length of the decay at the end, in updates"),
    ROW("num_stable_steps", INT, num_stable_steps, "null", 0, CE_WARMUP_MAX, NULL,
        "number of updates at lr between warm-up and decay; null: total_num_steps - warm-up - num_decay_steps"),
    ROW("warmup_type", CHOICE, stable_warmup, "\"linear\"", 0, 0, "linear|cosine|1-sqrt",
        "curve of the learning rate in the warm-up"),
    ROW("decay_type", CHOICE, stable_decay, "\"cosine\"", 0, 0, "linear|cosine|1-sqrt",
        "curve of the learning rate in the decay"),
    ROW("min_lr_ratio", NUMBER, min_lr_ratio, "0", 0, 1, NULL,
        "learning rate at the end and at the start of the warm-up, as a share of lr"),
};

static double warmup_of(const ce_schedule_settings *s)
{
    return (double)ce_warmup_given(s);
}

/* The number of the update as a double, counted from 0. `iteration` is -1 for the first one. */
static double step_of(int64_t iteration)
{
    return (double)(iteration + 1);
}

/* Sets *factor to that of the linear warm-up and returns true if the warm-up is not over. */
static bool is_warming(const ce_schedule_settings *s, int64_t iteration, double *factor)
{
    *factor = step_of(iteration) / fmax(1, warmup_of(s));
    return step_of(iteration) < warmup_of(s);
}

/* The share of the updates after the warm-up that are done. */
static double progress_of(const ce_schedule_settings *s, int64_t iteration)
{
    return (step_of(iteration) - warmup_of(s)) / fmax(1, (double)s->total_num_steps - warmup_of(s));
}

static double wave(const ce_schedule_settings *s, double progress)
{
    return 0.5 * (1 + cos(M_PI * s->cycles * 2 * progress));
}

static double constant(const ce_schedule_settings *s, int64_t iteration)
{
    (void)iteration;
    return s->base_rate;
}

static double constant_with_warmup(const ce_schedule_settings *s, int64_t iteration)
{
    double factor;
    return s->base_rate * (is_warming(s, iteration, &factor) ? factor : 1);
}

static double linear(const ce_schedule_settings *s, int64_t iteration)
{
    double factor, total = (double)s->total_num_steps;
    if (!is_warming(s, iteration, &factor))
        factor = fmax(0, (total - step_of(iteration)) / fmax(1, total - warmup_of(s)));
    return s->base_rate * factor;
}

static double cosine(const ce_schedule_settings *s, int64_t iteration)
{
    double factor;
    if (!is_warming(s, iteration, &factor))
        factor = fmax(0, wave(s, progress_of(s, iteration)));
    return s->base_rate * factor;
}

static double cosine_with_restarts(const ce_schedule_settings *s, int64_t iteration)
{
    double factor, progress = progress_of(s, iteration);
    if (!is_warming(s, iteration, &factor))
        factor = progress >= 1 ? 0 : fmax(0, 0.5 * (1 + cos(M_PI * fmod(s->cycles * progress, 1))));
    return s->base_rate * factor;
}

static double polynomial(const ce_schedule_settings *s, int64_t iteration)
{
    double factor;
    if (is_warming(s, iteration, &factor))
        return s->base_rate * factor;
    return s->lr_end + (s->base_rate - s->lr_end) * pow(fmax(0, 1 - progress_of(s, iteration)), s->power);
}

static double inverse_sqrt(const ce_schedule_settings *s, int64_t iteration)
{
    double factor, warmup = warmup_of(s), scale = (double)s->timescale;
    if (s->timescale == 0)
        scale = warmup > 0 ? warmup : 10000;
    if (!is_warming(s, iteration, &factor))
        factor = 1 / sqrt((step_of(iteration) + scale - warmup) / scale);
    return s->base_rate * factor;
}

/* The rate at the end as a share of the optimizer's lr. */
static double floor_of(const ce_schedule_settings *s)
{
    return s->min_lr >= 0 ? s->min_lr / s->base_rate : s->min_lr_rate;
}

static double cosine_with_min_lr(const ce_schedule_settings *s, int64_t iteration)
{
    double factor, low = floor_of(s);
    if (!is_warming(s, iteration, &factor))
        factor = fmax(0, wave(s, progress_of(s, iteration)) * (1 - low) + low);
    return s->base_rate * factor;
}

/* As cosine_with_min_lr, but the first update of the warm-up does not have the rate 0, and the cosine is one update
 * ahead. */
static double cosine_warmup_with_min_lr(const ce_schedule_settings *s, int64_t iteration)
{
    double factor, low = floor_of(s), first = s->warmup_lr_rate;
    if (!is_warming(s, iteration, &factor))
        factor = fmax(0, wave(s, progress_of(s, iteration + 1)) * (1 - low) + low);
    else if (first < 0)
        factor = (step_of(iteration) + 1) / fmax(1, warmup_of(s));
    else
        factor = first + (1 - first) * step_of(iteration) / fmax(1, warmup_of(s) - 1);
    return s->base_rate * factor;
}

enum { LINEAR, COSINE };

static double warmup_stable_decay(const ce_schedule_settings *s, int64_t iteration)
{
    double warmup = warmup_of(s), decay = (double)s->num_decay_steps, stable = (double)s->num_stable_steps, factor;
    double left = (double)s->total_num_steps - warmup - decay, step = step_of(iteration);
    if (stable < 0)
        stable = left;
    if (is_warming(s, iteration, &factor)) {
        if (s->stable_warmup != LINEAR)
            factor = s->stable_warmup == COSINE ? 0.5 * (1 - cos(M_PI * factor)) : 1 - sqrt(1 - factor);
    } else if (step < warmup + stable) {
        factor = 1;
    } else if (step < warmup + stable + decay) {
        double progress = (step - warmup - stable) / fmax(1, decay);
        factor = s->stable_decay == LINEAR   ? 1 - progress
                 : s->stable_decay == COSINE ? wave(s, progress)
                                             : 1 - sqrt(progress);
    } else {
        factor = 0;
    }
    return s->base_rate * fmax(0, factor * (1 - s->min_lr_ratio) + s->min_lr_ratio);
}

const ce_schedule ce_schedule_constant = { "constant", NULL, 0, constant, NULL };
const ce_schedule ce_schedule_constant_with_warmup = { "constant_with_warmup", CE_KEYS(plain_keys),
                                                       constant_with_warmup, NULL };
const ce_schedule ce_schedule_linear = { "linear", CE_KEYS(plain_keys), linear, NULL };
const ce_schedule ce_schedule_cosine = { "cosine", CE_KEYS(cosine_keys), cosine, NULL };
const ce_schedule ce_schedule_cosine_with_restarts = { "cosine_with_restarts", CE_KEYS(restart_keys),
                                                       cosine_with_restarts, NULL };
const ce_schedule ce_schedule_polynomial = { "polynomial", CE_KEYS(polynomial_keys), polynomial, NULL };
const ce_schedule ce_schedule_inverse_sqrt = { "inverse_sqrt", CE_KEYS(inverse_keys), inverse_sqrt, NULL };
const ce_schedule ce_schedule_cosine_with_min_lr = { "cosine_with_min_lr", CE_KEYS(min_keys), cosine_with_min_lr,
                                                     NULL };
const ce_schedule ce_schedule_cosine_warmup_with_min_lr = { "cosine_warmup_with_min_lr", CE_KEYS(warmup_min_keys),
                                                            cosine_warmup_with_min_lr, NULL };
const ce_schedule ce_schedule_warmup_stable_decay = { "warmup_stable_decay", CE_KEYS(stable_keys), warmup_stable_decay,
                                                      NULL };
