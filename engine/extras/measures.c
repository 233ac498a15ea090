/* measures.c - the counts of a two-class evaluation, and the ratios that are computed from them. */
#include "cspeed/measures.h"
#include "base/misuse.h"

#include "core/engine.h"
#include "base/must.h"

#include <math.h>
#include <string.h>

enum { BINS = CS_MEASURES_BINS };

void cs_measures_clear(cs_measures *measures)
{
    CE_GIVEN(measures);
    memset(measures, 0, sizeof *measures);
    measures->low = INFINITY;
    measures->high = -INFINITY;
}

static int bin_of(double score)
{
    int bin = (int)(score * BINS);
    return bin < BINS ? bin : BINS - 1;
}

void cs_measures_add(cs_measures *measures, double score, bool positive)
{
    CE_GIVEN(measures);
    if (!(score >= 0 && score <= 1))
        ce_fatal(CS_MISUSE, "cs_measures_add: a score is a probability from 0 to 1, not %g", score);
    (positive ? measures->positive : measures->negative)[bin_of(score)]++;
    measures->low = fminf(measures->low, (float)score);
    measures->high = fmaxf(measures->high, (float)score);
}

void cs_measures_reduce(cs_engine *engine, cs_measures *measures)
{
    CE_GIVEN(engine);
    ce_walk_settle(engine);
    if (!ce_mesh_leads(&engine->mesh)) {
        memset(measures->positive, 0, sizeof measures->positive);
        memset(measures->negative, 0, sizeof measures->negative);
    }
    cs_comm_all_reduce(engine->comm, measures->positive, BINS, CS_I64, CS_SUM);
    cs_comm_all_reduce(engine->comm, measures->negative, BINS, CS_I64, CS_SUM);
    cs_comm_all_reduce(engine->comm, &measures->low, 1, CS_F32, CS_MIN);
    cs_comm_all_reduce(engine->comm, &measures->high, 1, CS_F32, CS_MAX);
}

static double share(int64_t part, int64_t whole, double without)
{
    return whole > 0 ? (double)part / (double)whole : without;
}

cs_precision_recall cs_measures_at(const cs_measures *measures, double threshold)
{
    CE_GIVEN(measures);
    cs_precision_recall at = { 0 };
    int64_t first = threshold > 0 ? (int64_t)fmin(threshold * BINS, BINS) : 0;
    for (int bin = 0; bin < BINS; bin++) {
        at.positives += measures->positive[bin];
        at.samples += measures->positive[bin] + measures->negative[bin];
        if (bin < first)
            continue;
        at.hits += measures->positive[bin];
        at.predicted += measures->positive[bin] + measures->negative[bin];
    }
    int64_t wrong = at.predicted - at.hits + at.positives - at.hits;
    at.precision = share(at.hits, at.predicted, 1);
    at.recall = share(at.hits, at.positives, (double)NAN);
    at.accuracy = share(at.samples - wrong, at.samples, (double)NAN);
    return at;
}

double cs_measures_average_precision(const cs_measures *measures)
{
    CE_GIVEN(measures);
    int64_t hits = 0, predicted = 0, positives = cs_measures_at(measures, 0).positives;
    double area = 0;
    for (int bin = BINS - 1; bin >= 0; bin--) {
        hits += measures->positive[bin];
        predicted += measures->positive[bin] + measures->negative[bin];
        if (measures->positive[bin] > 0)
            area += (double)hits / (double)predicted * (double)measures->positive[bin];
    }
    return positives > 0 ? area / (double)positives : (double)NAN;
}
