/* schedule.h - learning-rate schedules, as DeepSpeed's lr_schedules.py, PyTorch and Hugging Face's Trainer compute
 * them. A rate depends only on the settings and on the number of applied updates. */
#ifndef CE_SCHEDULE_SCHEDULE_H
#define CE_SCHEDULE_SCHEDULE_H

#include "json/keys.h"

typedef struct ce_schedule ce_schedule;

/* The settings of all schedules. Each schedule uses the fields that its own key table names. */
typedef struct {
    const ce_schedule *shape; /* schedule; NULL means that the rate is constant and equal to base_rate */
    double base_rate;         /* optimizer's lr */

    /* keys of WarmupLR, WarmupDecayLR and WarmupCosineLR */
    double warmup_min_lr, warmup_max_lr;
    int64_t warmup_num_steps, total_num_steps; /* total_num_steps is also LinearLR's total_iters. */
    double warmup_ratio; /* share of total_num_steps that is the warm-up, if warmup_num_steps is 0 */
    bool total_is_auto;  /* True if cs_set_total_steps sets total_num_steps, because the file says "auto". */
    int warmup_type;     /* 0 for a logarithmic warm-up, 1 for a linear one */
    double warmup_min_ratio, cos_min_ratio;

    /* keys of LRRangeTest */
    double range_min_lr, range_step_rate;
    int64_t range_step_size;
    bool range_staircase;

    /* keys of OneCycle */
    double cycle_min_lr, cycle_max_lr, decay_lr_rate;
    double cycle_min_mom, cycle_max_mom, decay_mom_rate;
    int64_t cycle_first_step_size, cycle_second_step_size, decay_step_size;
    int64_t cycle_first_stair_count, cycle_second_stair_count;
    bool cycle_momentum;

    /* keys of CosineAnnealingWarmRestarts */
    int64_t restart_first, restart_factor; /* values of T_0 and T_mult */
    double restart_min_lr;                 /* value of eta_min */

    /* keys of LinearLR, and of PyTorch's other schedules beside those above */
    double start_factor, end_factor, gamma;

    /* keys of Trainer's schedules; below 0: not given */
    double cycles, power, lr_end, min_lr, min_lr_rate, min_lr_ratio, warmup_lr_rate;
    int64_t timescale, num_stable_steps, num_decay_steps;
    int stable_warmup, stable_decay; /* 0: linear, 1: cosine, 2: 1-sqrt */

    /* value of last_batch_iteration (last_epoch in PyTorch's schedules): iteration number at update 0; -1, the default,
     * begins the schedule at its start */
    int64_t last_batch_iteration;
} ce_schedule_settings;

struct ce_schedule {
    const char *name; /* name, such as "WarmupLR" */
    const ce_key *keys;
    int key_count;
    double (*rate)(const ce_schedule_settings *settings, int64_t iteration);
    double (*momentum)(const ce_schedule_settings *settings,
                       int64_t iteration); /* NULL if the schedule does not change momentum */
};

/* Returns the rate of update number `update`. The first update has the number 0. Update n uses iteration n - 1 of
 * DeepSpeed's schedule. Iteration -1 has the rate that DeepSpeed sets in the constructor of the schedule. */
double ce_schedule_rate(const ce_schedule_settings *settings, int64_t update);
/* Returns whether the schedule also sets the momentum of update number `update`. If it does, sets the values that
 * replace the optimizer's betas: *beta1 follows the cycle, and *beta2 is 0.99, as in DeepSpeed. The optimizer must have
 * betas. */
bool ce_schedule_momentum(const ce_schedule_settings *settings, int64_t update, double *beta1, double *beta2);
/* Reads the section "scheduler" {type, params}. If the section is NULL, the rate is constant and equal to base_rate.
 * Errors are added to doc. In the section, each "auto" is replaced by the number for which it stands, for example
 * base_rate for warmup_max_lr. For the key that says when the schedule ends (ce_schedule_total), "auto" stands for
 * total_steps. A total_steps of 0 means that the number of steps is not known yet; the "auto" of that key then
 * stays. Trainer's schedules have "auto" if the key is missing, and any schedule has it if the warm-up is a ratio. */
void ce_schedule_read(ce_json *doc, json_t *section, double base_rate, int64_t total_steps,
                      ce_schedule_settings *settings);
/* Turns the momentum cycle of OneCycle off, because the optimizer has no betas, and adds a note to doc. */
void ce_schedule_leave_momentum(ce_json *doc, ce_schedule_settings *settings);
/* Returns the name of the key that says after how many updates the schedule ends, or NULL if it does not end. */
const char *ce_schedule_total(const ce_schedule_settings *settings);
/* Prints all key tables. */
void ce_schedule_help(void);

/* Returns schedule number `index` of the table, or NULL after the last schedule. */
const ce_schedule *ce_schedule_at(int index);
/* Returns the key table of the section "scheduler" itself, and sets *count to the number of keys. */
const ce_key *ce_schedule_keys(int *count);

#endif
