/* test_measures.c - measures of an evaluation: the counts added over ranks are the counts of one rank with all samples,
 * and the ratios of these counts equal the ratios of a loop over the samples. */
#include "suite.h"
#include "runs.h"

#include "cspeed/measures.h"
#include "cspeed/sampler.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 501, WORLD = 3 };

/* Returns a multiple of the bins' width, so that the sample is counted in its bin without rounding. */
static double score_of(int64_t sample)
{
    return (double)(sample * 37 % (CS_MEASURES_BINS + 1)) / CS_MEASURES_BINS;
}

static bool is_positive(int64_t sample)
{
    return sample % 7 == 0 || (score_of(sample) > 0.6 && sample % 3 == 0);
}

/* The measures of each of the WORLD ranks after the reduction, and then those of one rank with all samples. */
static cs_measures *shared;

static int evaluate(void *argument)
{
    static const run_spec spec = {
        .steps = 1, .world = WORLD, .micro = 2, .accumulation = 1, .precision = "fp32", .recompute = "none"
    };
    cs_engine *engine = run_open(&spec, NULL);
    cs_sampler sampler = {
        .count = SAMPLES, .rank = cs_rank(engine), .size = WORLD, .shuffle = true, .end = CS_SAMPLER_EXACT
    };
    cs_measures *mine = &shared[cs_rank(engine)];
    (void)argument;
    cs_measures_clear(mine);
    for (int64_t i = 0; i < cs_sampler_count(&sampler); i++) {
        int64_t sample = cs_sampler_at(&sampler, i);
        cs_measures_add(mine, score_of(sample), is_positive(sample));
    }
    cs_measures_reduce(engine, mine);
    cs_destroy(engine);
    return 0;
}

START_TEST(ranks_compute_what_one_rank_would)
{
    shared = run_share((WORLD + 1) * sizeof *shared);
    cs_measures *all = &shared[WORLD];
    cs_measures_clear(all);
    for (int64_t sample = 0; sample < SAMPLES; sample++)
        cs_measures_add(all, score_of(sample), is_positive(sample));
    run_ranks(WORLD, evaluate, NULL);
    for (int rank = 0; rank < WORLD; rank++)
        ck_assert(memcmp(&shared[rank], all, sizeof *all) == 0);
    ck_assert(all->low == 0 && all->high > 0.99f);
    run_unshare(shared, (WORLD + 1) * sizeof *shared);
}
END_TEST

START_TEST(ratios_are_those_of_a_loop)
{
    cs_measures all;
    double area = 0, before = 0;
    cs_measures_clear(&all);
    for (int64_t sample = 0; sample < SAMPLES; sample++)
        cs_measures_add(&all, score_of(sample), is_positive(sample));
    /* the scores 1023/1024 and 1 are both counted in the last bin */
    for (int bin = CS_MEASURES_BINS - 1; bin >= 0; bin--) {
        double threshold = (double)bin / CS_MEASURES_BINS;
        int hits = 0, predicted = 0, positives = 0, right = 0;
        for (int64_t sample = 0; sample < SAMPLES; sample++) {
            bool says = score_of(sample) >= threshold;
            hits += says && is_positive(sample);
            predicted += says;
            positives += is_positive(sample);
            right += says == is_positive(sample);
        }
        cs_precision_recall at = cs_measures_at(&all, threshold);
        ck_assert(at.hits == hits && at.predicted == predicted && at.positives == positives && at.samples == SAMPLES);
        ck_assert(at.precision == (predicted ? (double)hits / predicted : 1) && at.recall == (double)hits / positives);
        ck_assert(at.accuracy == (double)right / SAMPLES);
        area += (at.recall - before) * at.precision;
        before = at.recall;
    }
    ck_assert(fabs(cs_measures_average_precision(&all) - area) < 1e-12);
    ck_assert_int_eq(cs_measures_at(&all, 2).predicted, 0);
    cs_measures_clear(&all);
    ck_assert(isnan(cs_measures_average_precision(&all)) && isnan(cs_measures_at(&all, 0.5).accuracy));
    ck_assert(cs_measures_at(&all, 0.5).precision == 1 && all.high < all.low);
}
END_TEST

SUITE_MAIN("measures", ranks_compute_what_one_rank_would, ratios_are_those_of_a_loop)
