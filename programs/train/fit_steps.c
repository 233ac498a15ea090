/* fit_steps.c - the number of steps of a run with a time budget (cspeed.fit_seconds). */
#include "train.h"

#include <inttypes.h>

/* Returns how many of the first updates have the same learning rate whatever the number of steps is, for example the
 * updates of a warm-up. */
static int64_t count_warmup(const session *run)
{
    enum { MAX = 64 };
    double rates[MAX];
    int64_t count = 0;
    for (int64_t i = 0; i < MAX; i++)
        rates[i] = cs_schedule_rate(run->engine, i);
    cs_set_total_steps(run->engine, run->steps / 2 + 1);
    while (count < MAX && cs_schedule_rate(run->engine, count) == rates[count])
        count++;
    cs_set_total_steps(run->engine, run->steps);
    return count;
}

void fit_steps_begin(session *run)
{
    run->budget.seconds = cs_config_get_number(run->config, "cspeed.fit_seconds");
    run->budget.warmup = run->budget.seconds > 0 ? count_warmup(run) : 0;
}

void fit_steps_take(session *run, int64_t steps)
{
    run->steps = steps;
    run->fitted = run->planned = true;
    cs_set_total_steps(run->engine, steps);
}

/* Returns true if the next learning rate depends on the number of steps. */
static bool bends_rate(const session *run, int64_t steps)
{
    cs_metrics m = cs_last_step(run->engine);
    double before = cs_schedule_rate(run->engine, m.step - m.skipped);
    cs_set_total_steps(run->engine, steps);
    double after = cs_schedule_rate(run->engine, m.step - m.skipped);
    cs_set_total_steps(run->engine, run->steps);
    return after < before || after > before;
}

/* Rank 0's clock decides for all ranks. */
void fit_steps_again(session *run)
{
    int64_t done = cs_last_step(run->engine).step, before = run->steps;
    bool again = run->planned;
    int64_t interval = cs_config_get_int(run->config, "cspeed.save_interval");
    if (run->options.steps_given || !time_budget_due(&run->budget, again, done, before, interval) ||
        (!again && !cs_agree(run->engine, time_budget_knows(&run->budget, done))))
        return;
    run->planned = true;
    int64_t steps = time_budget_fit(&run->budget, done, before, run->max_steps);
    steps = cs_agree(run->engine, steps);
    if (steps == before || (again && bends_rate(run, steps)))
        return;
    say("a step takes %.2f s on this machine%s: %" PRId64 " steps instead of %" PRId64 ", so that the training takes "
        "about %.0f s (cspeed.fit_seconds; --steps N trains to step N instead)",
        run->budget.step, again ? " now" : "", steps, before, run->budget.seconds);
    fit_steps_take(run, steps);
}
