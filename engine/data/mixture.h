/* mixture.h - several data sets in given proportions: which one a position reads, and which window of it.
 *
 * An epoch has as many windows as all sets together, and of each set its weight's share of those, spread at random. A
 * set goes on in the next epoch where it stopped in the last, and is shuffled anew each time it has been read through.
 * So all is a function of (seed, position), and resuming is arithmetic. */
#ifndef CS_DATA_MIXTURE_H
#define CS_DATA_MIXTURE_H

#include "base/status.h"

enum { CS_MIXTURE_SETS = 256 };

typedef struct {
    int count;
    int64_t windows[CS_MIXTURE_SETS]; /* of the set */
    int64_t first[CS_MIXTURE_SETS +
                  1]; /* an epoch's windows first[i] to first[i + 1] - 1 are of set i, before the shuffle */
} cs_mixture;

/* CS_BAD_CONFIG for weights that are below 0, not finite or all 0; CS_BAD_FILE for a set with a weight and no window.
 */
cs_status cs_mixture_open(cs_mixture *mixture, const double *weights, const int64_t *windows, int count);

typedef struct {
    int set;
    int64_t window; /* of that set */
} cs_mixture_place;
cs_mixture_place cs_mixture_at(const cs_mixture *mixture, uint64_t seed, int64_t position);

#endif
