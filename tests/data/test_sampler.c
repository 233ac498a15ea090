/* test_sampler.c - the distributed sampler: the ranks' samples are disjoint and complete, each epoch has its own order,
 * and a number of samples that is not a multiple of the number of ranks is padded, reduced, or used exactly. */
#include "suite.h"

#include "cspeed/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COUNT = 130 };

/* Counts how often each sample is read by all ranks of a world; returns the number of reads. */
static int64_t count_reads(cs_sampler sampler, int *reads)
{
    int64_t all = 0;
    memset(reads, 0, MAX_COUNT * sizeof *reads);
    for (sampler.rank = 0; sampler.rank < sampler.size; sampler.rank++)
        for (int64_t i = 0; i < cs_sampler_count(&sampler); i++, all++) {
            int64_t sample = cs_sampler_at(&sampler, i);
            ck_assert(sample >= 0 && sample < sampler.count);
            reads[sample]++;
        }
    return all;
}

START_TEST(ranks_share_the_data)
{
    int reads[MAX_COUNT];
    for (int64_t count = 1; count < MAX_COUNT; count += 1 + count / 7)
        for (int size = 1; size <= 9; size++)
            for (int shuffle = 0; shuffle < 2; shuffle++) {
                cs_sampler s = { .count = count, .size = size, .shuffle = shuffle, .seed = 5, .epoch = 3 };
                int64_t padded = (count + size - 1) / size * size, whole = count / size * size;
                s.end = CS_SAMPLER_EXACT;
                ck_assert_int_eq(count_reads(s, reads), count);
                for (int64_t i = 0; i < count; i++)
                    ck_assert_int_eq(reads[i], 1);
                s.end = CS_SAMPLER_PAD;
                ck_assert_int_eq(count_reads(s, reads), padded);
                for (int64_t i = 0; i < count; i++)
                    ck_assert(reads[i] >= 1 && (reads[i] <= 2 || count < size));
                s.end = CS_SAMPLER_DROP;
                ck_assert_int_eq(count_reads(s, reads), whole);
                for (int64_t i = 0; i < count; i++)
                    ck_assert_int_le(reads[i], 1);
            }
}
END_TEST

static int differing(cs_sampler one, cs_sampler other)
{
    int differ = 0;
    for (int64_t i = 0; i < cs_sampler_count(&one); i++)
        differ += cs_sampler_at(&one, i) != cs_sampler_at(&other, i);
    return differ;
}

START_TEST(each_epoch_has_an_order)
{
    cs_sampler first = { .count = 100, .size = 2, .rank = 1, .shuffle = true, .seed = 1 }, second = first,
               third = first;
    second.epoch = 1;
    third.seed = 2;
    ck_assert_int_eq(differing(first, first), 0);
    ck_assert_int_gt(differing(first, second), 40);
    ck_assert_int_gt(differing(first, third), 40);
    first.shuffle = second.shuffle = false;
    ck_assert_int_eq(differing(first, second), 0);
    /* PyTorch's DistributedSampler gives rank 1 of 2 the samples 1, 3, 5, 7, ... */
    ck_assert_int_eq(cs_sampler_at(&first, 3), 7);
}
END_TEST

/* With weights, a sample is drawn in proportion to its weight, over all ranks together, and never if its weight is
 * 0. */
START_TEST(weights_are_probabilities)
{
    enum { COUNT = 20000, KINDS = 4 };
    static double weights[COUNT], cumulative[COUNT];
    int drawn[KINDS] = { 0 };
    for (int i = 0; i < COUNT; i++)
        weights[i] = i % KINDS; /* weight 0: never drawn; weight 3: three times as often as weight 1 */
    ck_assert_int_eq(cs_sampler_weigh(cumulative, weights, COUNT), CS_OK);
    cs_sampler s = { .count = COUNT, .size = 3, .seed = 8, .end = CS_SAMPLER_EXACT, .cumulative = cumulative };
    for (s.rank = 0; s.rank < s.size; s.rank++)
        for (int64_t i = 0; i < cs_sampler_count(&s); i++)
            drawn[cs_sampler_at(&s, i) % KINDS]++;
    ck_assert_int_eq(drawn[0], 0);
    for (int kind = 1; kind < KINDS; kind++) {
        double expected = COUNT * kind / 6.0;
        ck_assert_double_le(fabs(drawn[kind] - expected), 5 * sqrt(expected)); /* five standard deviations */
    }
    cs_sampler next = s;
    s.rank = next.rank = 0;
    next.epoch = 1;
    ck_assert_int_eq(differing(s, s), 0);
    ck_assert_int_gt(differing(s, next), 6000);
}
END_TEST

START_TEST(weights_without_a_meaning_are_refused)
{
    static const double rows[][2] = { { 1, -1 }, { NAN, 1 }, { INFINITY, 1 }, { 0, 0 }, { 1.7e308, 1.7e308 } };
    double cumulative[2];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_int_eq(cs_sampler_weigh(cumulative, rows[i], 2), CS_MISUSE);
}
END_TEST

SUITE_MAIN("sampler", ranks_share_the_data, each_epoch_has_an_order, weights_are_probabilities,
           weights_without_a_meaning_are_refused)
