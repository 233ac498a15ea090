/* sampler.h - divides the samples of a data set among ranks or lanes (cs_lane), as PyTorch's DistributedSampler does. (public)
 *
 *     cs_sampler sampler = { .count = 4096, .rank = cs_lane(engine), .size = cs_lanes(engine), .shuffle = true };
 *     for (sampler.epoch = 0; sampler.epoch < 3; sampler.epoch++)
 *         for (int64_t i = 0; i < cs_sampler_count(&sampler); i++)
 *             read(cs_sampler_at(&sampler, i));
 *
 * A sampler consists of a few numbers and allocates no memory: each entry of the order is computed by the call that
 * needs it. The order is a function of (seed, epoch, count) and the same on all ranks; entry k of the order belongs to
 * rank k % size. A program that reads the samples several times and does not change `epoch` gets the same order each
 * time, as in PyTorch without set_epoch. A program whose data is tokens needs no sampler, because cs_data_next divides
 * the data. The threads of loader.h can read the samples. */
#ifndef CSPEED_SAMPLER_H
#define CSPEED_SAMPLER_H

#include "cspeed/cspeed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What happens if the number of ranks does not divide the number of samples. */
typedef enum {
    CS_SAMPLER_PAD,  /* the first entries of the order are repeated at its end; PyTorch's default, for training */
    CS_SAMPLER_DROP, /* the last entries of the order are left out; PyTorch's drop_last */
    CS_SAMPLER_EXACT /* each sample is used once, for an evaluation; some ranks then have one sample more than others */
} cs_sampler_end;

typedef struct {
    int64_t count;  /* samples of the data set, 1 or more */
    int rank, size; /* 0 <= rank < size */
    bool shuffle;   /* false: the samples stay in the order of the data set */
    cs_sampler_end end;
    uint64_t seed;
    int64_t epoch;
    /* If NULL, samples are drawn without replacement. Otherwise samples are drawn with replacement, as PyTorch's
     * WeightedRandomSampler draws them, and `shuffle` is not read. The array has `count` sums, which cs_sampler_weigh
     * computes. The caller owns it. */
    const double *cumulative;
} cs_sampler;

/* Sets cumulative[i] to weights[0] + ... + weights[i]. A sample's probability is its weight divided by the sum of all
 * weights. CS_MISUSE: a weight is negative or not finite, or all weights are 0. */
cs_status cs_sampler_weigh(double *cumulative, const double *weights, int64_t count);

/* Returns how many samples this rank has in an epoch. The number is the same on all ranks, except with
 * CS_SAMPLER_EXACT. */
int64_t cs_sampler_count(const cs_sampler *sampler);
/* Returns the position in the data set of this rank's sample number `index`, 0 <= index < cs_sampler_count. */
int64_t cs_sampler_at(const cs_sampler *sampler, int64_t index);

#ifdef __cplusplus
}
#endif
#endif
