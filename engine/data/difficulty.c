/* difficulty.c - the length of samples as a function of the step: DeepSpeed's curriculum of sequence lengths. */
#include "data/difficulty.h"

#include <math.h>

static int64_t stair_at(const cs_difficulty *d, int64_t step)
{
    int i = 0;
    while (i < d->count - 1 && step > d->until[i])
        i++;
    return d->stairs[i];
}

int64_t cs_difficulty_at(const cs_difficulty *d, int64_t step)
{
    if (d->kind == CS_DIFFICULTY_STAIRCASE)
        return stair_at(d, step);
    if (d->least >= d->most)
        return d->most;
    double  part  = pow((double)step / (double)d->total, 1 / d->degree); /* above 1 in the end, so that `most` is met */
    double  exact = part * (double)(d->most - d->least) + (double)d->least;
    int64_t value = (int64_t)floor(fmin(exact, (double)(d->most + d->stride)));
    value -= value % d->stride;
    return value < d->most ? value : d->most;
}

bool cs_difficulty_may_be(const cs_difficulty *d, int64_t value)
{
    if (d->kind == CS_DIFFICULTY_STAIRCASE) {
        for (int i = 0; i < d->count; i++)
            if (d->stairs[i] == value)
                return true;
        return false;
    }
    return value == d->most || (value % d->stride == 0 && value < d->most && value > d->least - d->stride);
}
