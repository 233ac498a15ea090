/* difficulty.c - sequence length as a function of the step: DeepSpeed's curriculum learning. */
#include "data/difficulty.h"

#include <math.h>

static int64_t stair_at(const ce_difficulty *d, int64_t step)
{
    int i = 0;
    while (i < d->count - 1 && step > d->until[i])
        i++;
    return d->stairs[i];
}

int64_t ce_difficulty_at(const ce_difficulty *d, int64_t step)
{
    if (d->kind == CE_DIFFICULTY_STAIRCASE)
        return stair_at(d, step);
    if (d->min >= d->max)
        return d->max;
    /* If `max` is not a multiple of `stride`, step `total` gives less than `max`, because the value is rounded down to
     * a multiple of `stride`. Later steps, for which `part` is greater than 1, reach `max` nevertheless. */
    double part = pow((double)step / (double)d->total, 1 / d->degree);
    double exact = part * (double)(d->max - d->min) + (double)d->min;
    int64_t value = (int64_t)floor(fmin(exact, (double)(d->max + d->stride)));
    value -= value % d->stride;
    return value < d->max ? value : d->max;
}

bool ce_difficulty_may_be(const ce_difficulty *d, int64_t value)
{
    if (d->kind == CE_DIFFICULTY_STAIRCASE) {
        for (int i = 0; i < d->count; i++)
            if (d->stairs[i] == value)
                return true;
        return false;
    }
    return value == d->max || (value % d->stride == 0 && value < d->max && value > d->min - d->stride);
}
