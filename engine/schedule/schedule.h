/* schedule.h - learning-rate schedules, as DeepSpeed's lr_schedules.py computes them. A rate depends only on the
 * settings and on the number of applied updates. */
#ifndef CS_SCHEDULE_SCHEDULE_H
#define CS_SCHEDULE_SCHEDULE_H

#include "base/keys.h"

typedef struct ce_schedule ce_schedule;

/* The settings of every schedule. The key table of a schedule names the fields that it uses. */
typedef struct {
    const ce_schedule *shape; /* NULL: the rate is constant, base_rate */
    double base_rate;         /* the optimizer's lr                    */

    /* WarmupLR, WarmupDecayLR, WarmupCosineLR */
    double warmup_min_lr, warmup_max_lr;
    int64_t warmup_num_steps, total_num_steps; /* LinearLR's total_iters is total_num_steps, too          */
    bool total_is_auto;                        /* the file says "auto": cs_set_total_steps sets the value */
    int warmup_type;                           /* 0: logarithmic, 1: linear                               */
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

    int64_t last_batch_iteration; /* the iteration at which the schedule starts, as the file gives it; -1: at its
                                   * beginning */
} ce_schedule_settings;

struct ce_schedule {
    const char *name; /* "WarmupLR" */
    const ce_key *keys;
    int key_count;
    double (*rate)(const ce_schedule_settings *settings, int64_t iteration);
    double (*momentum)(const ce_schedule_settings *settings,
                       int64_t iteration); /* NULL: the schedule does not change momentum */
};

/* Returns the rate of update number `update`, counted from 0. Update n uses DeepSpeed's iteration n - 1. Iteration -1,
 * of update 0, has the rate that DeepSpeed sets when it constructs the schedule. */
double ce_schedule_rate(const ce_schedule_settings *settings, int64_t update);
/* Returns whether the schedule also sets the momentum of update number `update`. If so, sets the values that replace
 * the optimizer's betas: *beta1 follows the cycle, *beta2 is 0.99, as in DeepSpeed. Only for an optimizer that has
 * betas. */
bool ce_schedule_momentum(const ce_schedule_settings *settings, int64_t update, double *beta1, double *beta2);
/* Reads the section "scheduler" {type, params}; NULL: the rate is constant, base_rate. "auto" means base_rate for
 * warmup_max_lr and total_steps for total_num_steps (a total_steps of 0 means that it is not known yet). Errors are
 * added to doc; values of "auto" are replaced in the section. */
void ce_schedule_read(ce_json *doc, json_t *section, double base_rate, int64_t total_steps,
                      ce_schedule_settings *settings);
/* Turns OneCycle's momentum cycle off, because the optimizer has no betas, and adds a note to doc. */
void ce_schedule_leave_momentum(ce_json *doc, ce_schedule_settings *settings);
/* The name of the key that says after how many updates the schedule ends; NULL: it does not end. */
const char *ce_schedule_total(const ce_schedule_settings *settings);
/* Prints all key tables. */
void ce_schedule_help(void);

/* Returns schedule number `index` of the table, or NULL after the last one. */
const ce_schedule *ce_schedule_at(int index);
/* The key table of the section "scheduler" itself. */
const ce_key *ce_schedule_keys(int *count);

#endif
