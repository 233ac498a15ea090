/* measures.h - measures of a two-class evaluation whose samples are divided among ranks: histogram and range of the
 * scores, accuracy, precision and recall. (public)
 *
 *     cs_measures measures;
 *     cs_measures_clear(&measures);
 *     for each sample of this rank's lane: cs_measures_add(&measures, score, label);
 *     cs_measures_reduce(engine, &measures);
 *     cs_precision_recall at = cs_measures_at(&measures, 0.5);
 *
 * Precision, recall and accuracy are ratios of counts. The mean of the ranks' ratios is not the ratio over all samples,
 * because the counts differ between ranks. Therefore each rank keeps counts, cs_measures_reduce adds the counts of all
 * ranks, and the ratios are computed from the sums. Each ratio is equal, bit for bit, to the ratio that one rank with
 * all samples would compute. Scores are counted in bins of equal width, so a threshold is rounded down to a multiple of
 * 1 / CS_MEASURES_BINS. */
#ifndef CSPEED_MEASURES_H
#define CSPEED_MEASURES_H

#include "cspeed/cspeed.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CS_MEASURES_BINS = 1024 };

/* The histogram of scores: bin b counts the scores in [b, b + 1) / CS_MEASURES_BINS. The last bin also counts the score
 * 1. */
typedef struct {
    int64_t positive[CS_MEASURES_BINS], negative[CS_MEASURES_BINS];
    float low, high; /* the smallest and the largest score; high < low before the first score is added */
} cs_measures;

void cs_measures_clear(cs_measures *measures);
/* Adds one sample. `score` is the predicted probability of the positive class, from 0 to 1; any other score ends the
 * program. */
void cs_measures_add(cs_measures *measures, double score, bool positive);
/* Adds the counts of all lanes; afterwards all ranks have the same counts and the same range. Collective. */
void cs_measures_reduce(cs_engine *engine, cs_measures *measures);

/* A sample counts as predicted positive if its score is at least the threshold. */
typedef struct {
    int64_t hits;      /* positives that are predicted positive */
    int64_t predicted; /* samples that are predicted positive */
    int64_t positives, samples;
    double precision; /* hits / predicted; 1 if no sample is predicted positive */
    double recall;    /* hits / positives; NaN if there is no positive */
    double accuracy;  /* share of the samples that are predicted correctly; NaN if there is no sample */
} cs_precision_recall;
cs_precision_recall cs_measures_at(const cs_measures *measures, double threshold);
/* The average precision: the area under the curve of precision over recall, as a sum over the bins. Each bin adds the
 * precision for a threshold at the bin's lower end, times the share of all positives that the bin contains. NaN if
 * there is no positive. */
double cs_measures_average_precision(const cs_measures *measures);

#ifdef __cplusplus
}
#endif
#endif
