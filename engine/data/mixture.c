/* mixture.c - mixes several data sets by weights: selects the data set and its window for each position. */
#include "data/mixture.h"
#include "base/must.h"
#include "base/rng.h"
#include "data/data.h"

#include <math.h>

static cs_status check(const double *weights, const int64_t *windows, int count, double *sum)
{
    *sum = 0;
    for (int i = 0; i < count; i++) {
        if (!(weights[i] >= 0 && weights[i] < INFINITY))
            return ce_fail(CS_BAD_CONFIG, "cspeed.data.weights: %g is not a weight; a weight is 0 or more", weights[i]);
        if (weights[i] > 0 && windows[i] == 0)
            return ce_fail(CS_BAD_FILE,
                           "cspeed.data.weights: set %d has a weight above 0, but too few tokens for one sequence",
                           i + 1);
        *sum += weights[i];
    }
    if (!(*sum > 0 && *sum < INFINITY))
        return ce_fail(CS_BAD_CONFIG, "cspeed.data.weights: at least one weight must be above 0");
    return CS_OK;
}

/* Computes each set's share of the epoch by rounding the running sums of the weights. Each share then differs from the
 * exact one by at most one window, and the shares add up to the epoch. */
cs_status ce_mixture_open(ce_mixture *mixture, const double *weights, const int64_t *windows, int count)
{
    int64_t total = 0;
    double sum, past = 0;
    CE_ASSERT(count <= CE_MIXTURE_SETS);
    CE_TRY(check(weights, windows, count, &sum));
    for (int i = 0; i < count; i++)
        total += windows[i];
    mixture->count = count;
    for (int i = 0; i < count; i++) {
        mixture->windows[i] = windows[i];
        mixture->first[i] = llround((double)total * (past / sum));
        past += weights[i];
    }
    mixture->first[count] = total;
    /* A set with weight 0 gets no windows, even if it is the last of the list and llround() has left windows over. */
    for (int i = count - 1; i >= 0 && weights[i] == 0; i--)
        mixture->first[i] = total;
    return CS_OK;
}

ce_mixture_place ce_mixture_at(const ce_mixture *mixture, uint64_t seed, int64_t position)
{
    int64_t total = mixture->first[mixture->count], epoch = position / total, set = 0;
    int64_t slot = ce_windows_permute(seed, epoch, total, position % total);
    while (slot >= mixture->first[set + 1])
        set++;
    int64_t share = mixture->first[set + 1] - mixture->first[set], windows = mixture->windows[set];
    /* number of windows of this set that earlier positions read */
    int64_t read = epoch * share + slot - mixture->first[set];
    return (ce_mixture_place){ (int)set, ce_windows_permute(ce_rng_mix(seed, (uint64_t)set + 1), read / windows,
                                                            windows, read % windows) };
}
