/* schedule.h - step to learning rate, as DeepSpeed's lr_schedules.py computes it; a function of applied updates alone.
 */
#ifndef CS_SCHEDULE_SCHEDULE_H
#define CS_SCHEDULE_SCHEDULE_H

#include "base/keys.h"

typedef struct cs_schedule cs_schedule;

/* The settings of every shape in one struct; each shape's key table names those it uses. */
typedef struct {
    const cs_schedule *shape; /* NULL: constant at base_rate                       */
    double base_rate;         /* the optimizer's lr                                */

    /* WarmupLR, WarmupDecayLR, WarmupCosineLR */
    double warmup_min_lr, warmup_max_lr;
    int64_t warmup_num_steps, total_num_steps; /* LinearLR: total_iters */
    bool total_is_auto;                        /* it was "auto": cs_set_total_steps moves it */
    int warmup_type;                           /* 0 log, 1 linear                                   */
    double warmup_min_ratio, cos_min_ratio;

    /* LRRangeTest */
    double range_min_lr, range_step_rate;
    int64_t range_step_size;
    bool range_staircase;

    /* OneCycle */
    double cycle_min_lr, cycle_max_lr, decay_lr_rate;
    double cycle_min_mom, cycle_max_mom, decay_mom_rate;
    int64_t cycle_first_step_size, cycle_second_step_size, decay_step_size;
    int64_t cycle_first_stair_count, cycle_second_stair_count;
    bool cycle_momentum;

    /* CosineAnnealingWarmRestarts */
    int64_t restart_first, restart_factor; /* T_0, T_mult */
    double restart_min_lr;                 /* eta_min     */

    /* LinearLR */
    double start_factor, end_factor;

    int64_t last_batch_iteration; /* resume index of the file; -1 */
} cs_schedule_settings;

struct cs_schedule {
    const char *name; /* "WarmupLR" */
    const cs_key *keys;
    int key_count;
    double (*rate)(const cs_schedule_settings *settings, int64_t iteration);
    double (*momentum)(const cs_schedule_settings *settings, int64_t iteration); /* NULL: it leaves momentum alone */
};

/* The rate that update number `update` uses (from 0): DeepSpeed's iteration i = update - 1, so update 0 uses the
 * construction value. */
double cs_schedule_rate(const cs_schedule_settings *settings, int64_t update);
/* Whether the schedule decides the momentum of that update too; if so, what stands in place of the optimizer's betas:
 * *beta1 is cycled, *beta2 is 0.99, as DeepSpeed overwrites it. Only for an optimizer that has betas. */
bool cs_schedule_momentum(const cs_schedule_settings *settings, int64_t update, double *beta1, double *beta2);
/* Reads "scheduler" {type, params}; NULL: constant at base_rate. "auto" in warmup_max_lr is base_rate; in
 * total_num_steps it is total_steps (0: not known, a fault). Faults go to doc; "auto" is resolved in place. */
void cs_schedule_read(cs_json *doc, json_t *section, double base_rate, int64_t total_steps,
                      cs_schedule_settings *settings);
/* An optimizer without betas leaves OneCycle nothing to cycle: noted. */
void cs_schedule_leave_momentum(cs_json *doc, cs_schedule_settings *settings);
void cs_schedule_help(void);

/* The table of shapes: from 0 to NULL. */
const cs_schedule *cs_schedule_at(int index);
/* The table of "scheduler" itself. */
const cs_key *cs_schedule_keys(int *count);

#endif
