/* warmup.h - what the files of the schedules share: rows of key tables, and the warm-up. */
#ifndef CE_SCHEDULE_WARMUP_H
#define CE_SCHEDULE_WARMUP_H

#include "schedule/schedule.h"

#include <stddef.h>

#define CE_WARMUP_AT(field) offsetof(ce_schedule_settings, field)
#define CE_WARMUP_MAX 9e15 /* largest number of steps; a double holds all integers up to this number exactly */

/* The rows that several key tables have. */
#define CE_WARMUP_COMMON                                                                                               \
    { "warmup_num_steps",                                                                                              \
      CE_KEY_INT,                                                                                                      \
      CE_WARMUP_AT(warmup_num_steps),                                                                                  \
      "1000",                                                                                                          \
      0,                                                                                                               \
      CE_WARMUP_MAX,                                                                                                   \
      "auto",                                                                                                          \
      "length of the warm-up in updates; 0 and 1 mean 2, as in DeepSpeed; \"auto\": 0, Hugging Face's default" },      \
        CE_WARMUP_RATIO,                                                                                               \
        { "warmup_type",                                                                                               \
          CE_KEY_CHOICE,                                                                                               \
          CE_WARMUP_AT(warmup_type),                                                                                   \
          "\"log\"",                                                                                                   \
          0,                                                                                                           \
          0,                                                                                                           \
          "log|linear",                                                                                                \
          "curve of the learning rate in the warm-up" },                                                               \
        CE_WARMUP_START
#define CE_WARMUP_RATIO                                                                                                                       \
    {                                                                                                                                         \
        "warmup_ratio", CE_KEY_NUMBER, CE_WARMUP_AT(warmup_ratio), "0", 0, 1, NULL,                                                           \
            "length of the warm-up as a share of all updates, 0 to 1, rounded up (as in Hugging Face's Trainer); give it or warmup_num_steps" \
    }
#define CE_WARMUP_START                                                                                                \
    {                                                                                                                  \
        "last_batch_iteration", CE_KEY_INT, CE_WARMUP_AT(last_batch_iteration), "-1", -1, CE_WARMUP_MAX, NULL,         \
            "number of the iteration at which the schedule starts; -1: at its beginning"                               \
    }
#define CE_WARMUP_TOTAL                                                                                                \
    {                                                                                                                  \
        "total_num_steps", CE_KEY_INT, CE_WARMUP_AT(total_num_steps), "null", 1, CE_WARMUP_MAX, "auto",                \
            "required: number of the update at which the decay ends; \"auto\": cspeed.steps"                           \
    }

/* The list of schedules. For SCHEDULE(type), "type" is the name in the section "scheduler", and ce_schedule_<type> is
 * the schedule. To add a schedule, write its file and add its type here; parameters that no other schedule has go into
 * ce_schedule_settings. */
#define CE_SCHEDULES(SCHEDULE)                                                                                         \
    SCHEDULE(WarmupLR)                                                                                                 \
    SCHEDULE(WarmupDecayLR)                                                                                            \
    SCHEDULE(WarmupCosineLR)                                                                                           \
    SCHEDULE(LRRangeTest)                                                                                              \
    SCHEDULE(OneCycle)                                                                                                 \
    SCHEDULE(CosineAnnealingWarmRestarts)                                                                              \
    SCHEDULE(LinearLR)                                                                                                 \
    SCHEDULE(ConstantLR)                                                                                               \
    SCHEDULE(CosineAnnealingLR)                                                                                        \
    SCHEDULE(ExponentialLR)                                                                                            \
    SCHEDULE(PolynomialLR)                                                                                             \
    SCHEDULE(StepLR)                                                                                                   \
    SCHEDULE(linear)                                                                                                   \
    SCHEDULE(cosine)                                                                                                   \
    SCHEDULE(cosine_with_restarts)                                                                                     \
    SCHEDULE(polynomial)                                                                                               \
    SCHEDULE(constant)                                                                                                 \
    SCHEDULE(constant_with_warmup)                                                                                     \
    SCHEDULE(inverse_sqrt)                                                                                             \
    SCHEDULE(cosine_with_min_lr)                                                                                       \
    SCHEDULE(cosine_warmup_with_min_lr)                                                                                \
    SCHEDULE(warmup_stable_decay)

#define CE_SCHEDULE_DECLARE(type) extern const ce_schedule ce_schedule_##type;
CE_SCHEDULES(CE_SCHEDULE_DECLARE)
#undef CE_SCHEDULE_DECLARE

/* Returns the length of the warm-up in updates, as the configuration gives it: warmup_num_steps, or warmup_ratio of all
 * updates. */
int64_t ce_warmup_given(const ce_schedule_settings *settings);
/* Returns the length of DeepSpeed's warm-up: as given, but at least 2. */
int64_t ce_warmup_steps(const ce_schedule_settings *settings);
/* Returns the fraction of the warm-up, 0 to 1, that is complete at an iteration in [0, ce_warmup_steps). */
double ce_warmup_share(const ce_schedule_settings *settings, int64_t iteration);

#endif
