/* warmup.h - what the shapes of schedules share, above all the three that warm up. */
#ifndef CS_SCHEDULE_WARMUP_H
#define CS_SCHEDULE_WARMUP_H

#include "schedule/schedule.h"

#include <stddef.h>

#define CS_WARMUP_AT(field) offsetof(cs_schedule_settings, field)
#define CS_WARMUP_MOST 9e15 /* steps: what a double counts exactly */

/* Rows that stand in more than one table. */
#define CS_WARMUP_COMMON                                                                                                    \
    { "warmup_num_steps",                                                                                                   \
      CS_KEY_INT,                                                                                                           \
      CS_WARMUP_AT(warmup_num_steps),                                                                                       \
      "1000",                                                                                                               \
      0,                                                                                                                    \
      CS_WARMUP_MOST,                                                                                                       \
      "auto",                                                                                                               \
      "updates of the warm-up; below 2 counts as 2; \"auto\": 0, Hugging Face's default" },                                 \
        { "warmup_type", CS_KEY_CHOICE, CS_WARMUP_AT(warmup_type), "\"log\"", 0, 0, "log|linear", "shape of the warm-up" }, \
        CS_WARMUP_START
#define CS_WARMUP_START                                                                                                \
    {                                                                                                                  \
        "last_batch_iteration", CS_KEY_INT, CS_WARMUP_AT(last_batch_iteration), "-1", -1, CS_WARMUP_MOST, NULL,        \
            "where the schedule starts; -1: at its beginning"                                                          \
    }
#define CS_WARMUP_TOTAL                                                                                                \
    {                                                                                                                  \
        "total_num_steps", CS_KEY_INT, CS_WARMUP_AT(total_num_steps), "null", 1, CS_WARMUP_MOST, "auto",               \
            "needed: updates until the end of the decay; \"auto\": cspeed.steps"                                       \
    }

extern const cs_schedule cs_schedule_warmup, cs_schedule_warmup_decay, cs_schedule_warmup_cosine;
extern const cs_schedule cs_schedule_range_test, cs_schedule_one_cycle, cs_schedule_warm_restarts, cs_schedule_linear;

int64_t cs_warmup_steps(const cs_schedule_settings *settings); /* W: at least 2 */
double cs_warmup_share(const cs_schedule_settings *settings,
                       int64_t iteration); /* 0 to 1, of the way up; iteration in [0, W) */

#endif
