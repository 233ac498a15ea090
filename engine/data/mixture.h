/* mixture.h - mixes several data sets by weights: for each position, selects a data set and a window of this data set.
 *
 * An epoch has as many windows as all sets together. Each set gets a share of the epoch that is proportional to the
 * set's weight; the set's windows are spread pseudo-randomly over the epoch. In the next epoch, a set continues after
 * the last window that was read from this set. Each time all windows of a set have been read, the set is shuffled
 * again. Everything is a function of the seed and the position, so resuming needs no state. */
#ifndef CE_DATA_MIXTURE_H
#define CE_DATA_MIXTURE_H

#include "base/status.h"

enum { CE_MIXTURE_SETS = 256 };

typedef struct {
    int count;
    int64_t windows[CE_MIXTURE_SETS]; /* number of windows of each set */
    /* Before the epoch is shuffled, its windows first[i] to first[i + 1] - 1 belong to set i. */
    int64_t first[CE_MIXTURE_SETS + 1];
} ce_mixture;

/* Computes how many windows each set has in an epoch. Returns CS_BAD_CONFIG if a weight is negative or not finite, or
 * if all weights are 0. Returns CS_BAD_FILE if a set with a weight above 0 has no windows. */
cs_status ce_mixture_open(ce_mixture *mixture, const double *weights, const int64_t *windows, int count);

typedef struct {
    int set;
    int64_t window; /* index of a window within the set */
} ce_mixture_place;
ce_mixture_place ce_mixture_at(const ce_mixture *mixture, uint64_t seed, int64_t position);

#endif
