/* time_budget.c - cspeed.fit_seconds: how many optimizer steps fit into a time budget, from the times measured so far.
 *
 * The functions read no clock: the caller measures the times. */
#include "train.h"

#include <math.h>

enum { MIN_STEPS = 6, WINDOW = 16 };

void time_budget_step(time_budget *budget, double seconds)
{
    budget->spent += seconds;
    /* the first step includes work that is done only once, so its time says nothing about later steps */
    if (budget->steps++ == 0)
        return;
    double weight = 1.0 / fmin((double)(budget->steps - 1), WINDOW);
    budget->step += (seconds - budget->step) * weight;
}

void time_budget_pause(time_budget *budget, double seconds)
{
    budget->spent += seconds;
    budget->pauses += seconds;
}

double time_budget_pace(const time_budget *budget)
{
    return budget->steps > 1 ? budget->step + budget->pauses / (double)budget->steps : 0;
}

/* After the first plan the number of steps is computed again only at the steps that save a checkpoint. The checkpoint
 * records the number, so a run that resumes from it has the same learning rates. A run that saves only at its end
 * computes the number again each time another tenth of its steps is done. */
bool time_budget_due(const time_budget *budget, bool planned, int64_t done, int64_t total, int64_t save_interval)
{
    if (budget->seconds <= 0 || budget->steps < MIN_STEPS || done >= total)
        return false;
    int64_t tenth = total / 10 > 0 ? total / 10 : 1;
    int64_t interval = save_interval > 0 && save_interval < total ? save_interval : tenth;
    return !planned || done % interval == 0;
}

/* The first plan waits for the end of the warm-up, because more steps give a better measurement and the number of steps
 * does not change the rates until then, but at most for a tenth of the budget. */
bool time_budget_knows(const time_budget *budget, int64_t done)
{
    return done >= budget->warmup || budget->spent >= 0.1 * budget->seconds;
}

/* If the number of remaining steps would change by less than 2 %, the result is `total`, because a change also changes
 * the learning-rate schedule. */
int64_t time_budget_fit(const time_budget *budget, int64_t done, int64_t total, int64_t max)
{
    double left = fmax(budget->seconds - budget->spent, 0);
    double fitting = left / time_budget_pace(budget);
    int64_t steps = fitting < (double)(max - done) ? done + (int64_t)fitting : max;
    return fabs((double)(steps - total)) < 0.02 * (double)(total - done) ? total : steps;
}
