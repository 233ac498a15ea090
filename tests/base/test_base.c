/* test_base.c - half precision, random numbers, exact sums, ranges, shortened lists of names. */
#include "reference.h"
#include "suite.h"

#include "base/exact.h"
#include "base/half.h"
#include "base/names.h"
#include "base/range.h"
#include "base/rng.h"
#include "cspeed/ops.h"

#include <math.h>
#include <string.h>

/* Finds the half that is nearest to `value`, by bisection. If two halves are equally near, takes the half whose last
 * bit is 0. */
static uint16_t nearest(float value, float (*widen)(uint16_t), uint16_t infinity)
{
    uint16_t low = 0, high = infinity;
    float size = fabsf(value);
    while (low + 1 < high) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (widen(middle) <= size)
            low = middle;
        else
            high = middle;
    }
    double below = widen(low),
           above = high == infinity ? 2 * (double)widen((uint16_t)(infinity - 1)) - widen((uint16_t)(infinity - 2))
                                    : widen(high);
    double down = size - below, up = above - size;
    uint16_t best = down < up || (down == up && low % 2 == 0) ? low : high;
    return (uint16_t)(best | (signbit(value) ? 0x8000 : 0));
}

START_TEST(halves_round_to_nearest_even)
{
    unsigned short state[3] = { 1, 2, 3 };
    for (int i = 0; i < 200000; i++) {
        float value = (float)ldexp(erand48(state) - 0.5, (int)(erand48(state) * 60) - 40);
        ck_assert_uint_eq(ce_float_to_f16(value), nearest(value, ce_f16_to_float, 0x7c00));
        ck_assert_uint_eq(ce_float_to_bf16(value), nearest(value, ce_bf16_to_float, 0x7f80));
    }
}
END_TEST

START_TEST(every_half_comes_back)
{
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float f16 = ce_f16_to_float((uint16_t)bits), bf16 = ce_bf16_to_float((uint16_t)bits);
        if (!isnan(f16))
            ck_assert_uint_eq(ce_float_to_f16(f16), bits);
        else
            ck_assert(isnan(ce_f16_to_float(ce_float_to_f16(f16))));
        if (!isnan(bf16))
            ck_assert_uint_eq(ce_float_to_bf16(bf16), bits);
        else
            ck_assert(isnan(ce_bf16_to_float(ce_float_to_bf16(bf16))));
    }
    ck_assert_float_eq(ce_f16_to_float(0x3c00), 1);
    ck_assert_float_eq(ce_f16_to_float(0x0001), 0x1p-24f);
    ck_assert_uint_eq(ce_float_to_f16(65520), 0x7c00);
    ck_assert_uint_eq(ce_float_to_f16(65519), 0x7bff);
}
END_TEST

/* The authors' test vector of Philox4x32-10 for key 0 and counter 0. */
START_TEST(philox_known_answer)
{
    uint32_t words[4];
    cs_rng_philox(0, 0, words);
    ck_assert_uint_eq(words[0], 0x6627e8d5);
    ck_assert_uint_eq(words[1], 0xe169c58d);
    ck_assert_uint_eq(words[2], 0xbc57ac4c);
    ck_assert_uint_eq(words[3], 0x9b00dbd8);
}
END_TEST

START_TEST(normals_have_mean_and_deviation)
{
    double sum = 0, squares = 0;
    uint64_t key = ce_rng_key(1, "weight");
    int n = 200000;
    for (int i = 0; i < n; i++) {
        double value = reference_normal(key, (uint64_t)i);
        sum += value;
        squares += value * value;
    }
    ck_assert_double_lt(fabs(sum / n), 0.01);
    ck_assert_double_lt(fabs(squares / n - 1), 0.01);
    ck_assert(ce_rng_key(1, "weight") != ce_rng_key(2, "weight"));
    ck_assert(ce_rng_key(1, "a.b") != ce_rng_key(1, "ab"));
    ck_assert_float_eq(reference_normal(key, 5), reference_normal(key, 5));
}
END_TEST

START_TEST(exact_sums_commute)
{
    enum { COUNT = 3000 };
    static double values[COUNT];
    unsigned short state[3] = { 7, 8, 9 };
    ce_exact forward = { 0 }, backward = { 0 }, halves[2] = { 0 };
    long double plain = 0;
    for (int i = 0; i < COUNT; i++) {
        values[i] = ldexp(erand48(state) - 0.4, (int)(erand48(state) * 40) - 20);
        plain += (long double)values[i];
    }
    for (int i = 0; i < COUNT; i++) {
        ce_exact_add(&forward, values[i]);
        ce_exact_add(&backward, values[COUNT - 1 - i]);
        ce_exact_add(&halves[i % 2], values[i]);
    }
    ce_exact_merge(&halves[0], &halves[1]);
    ck_assert_double_eq(ce_exact_value(&forward), ce_exact_value(&backward));
    ck_assert_double_eq(ce_exact_value(&forward), ce_exact_value(&halves[0]));
    ck_assert_double_eq_tol(ce_exact_value(&forward), (double)plain, 1e-12 * fabs((double)plain));
}
END_TEST

START_TEST(exact_sums_lose_nothing)
{
    ce_exact sum = { 0 };
    ce_exact_add(&sum, 1e60);
    ce_exact_add(&sum, 3e-40);
    ce_exact_add(&sum, -1e60);
    ck_assert_double_eq(ce_exact_value(&sum), 3e-40);
    ce_exact_add(&sum, -1);
    ck_assert_double_eq(ce_exact_value(&sum), -1);
    ce_exact_add(&sum, (double)INFINITY);
    ck_assert_int_eq(sum.nonfinite, 1);
    ck_assert(isnan(ce_exact_value(&sum)));
    ce_exact squares = { 0 };
    ce_exact_add(&squares, (double)3.4e38f * (double)3.4e38f);
    ce_exact_add(&squares, (double)1e-45f * (double)1e-45f);
    ck_assert_int_eq(squares.nonfinite, 0);
    ck_assert_double_eq(ce_exact_value(&squares), (double)3.4e38f * (double)3.4e38f);
}
END_TEST

START_TEST(parts_cover_without_gap)
{
    for (int64_t length = 0; length < 40; length++)
        for (int64_t parts = 1; parts < 9; parts++) {
            int64_t at = 0;
            for (int64_t i = 0; i < parts; i++) {
                ce_range part = ce_range_part(length, i, parts);
                ck_assert_int_eq(part.from, at);
                ck_assert_int_le(ce_range_length(part), length / parts + 1);
                at = part.to;
            }
            ck_assert_int_eq(at, length);
        }
    ce_range both = ce_range_overlap((ce_range){ 2, 9 }, (ce_range){ 5, 20 });
    ck_assert(both.from == 5 && both.to == 9);
    ck_assert_int_eq(ce_range_length(ce_range_overlap((ce_range){ 2, 4 }, (ce_range){ 5, 20 })), 0);
}
END_TEST

START_TEST(lists_of_names_are_shortened)
{
    enum { LONG = CE_NAMES_BYTES / 2 };
    ce_names none = { 0 }, few = { 0 }, many = { 0 }, wide = { 0 }, one = { 0 };
    ck_assert_str_eq(ce_names_text(&none), "");
    ce_names_add(&few, "node %d", 3);
    ce_names_add(&few, "b\n\033[31m\xc2\x9b"
                       "31m\xc2\xa0\xc2");
    ck_assert_str_eq(ce_names_text(&few), "node 3, b??[31m??31m\xc2\xa0\xc2");
    for (int i = 0; i < 1000; i++)
        ce_names_add(&many, "w%d", i);
    ck_assert_str_eq(ce_names_text(&many), "w0, w1, w2, w3, w4, w5, w6, w7, w8, w9 and 990 more");
    ce_names_add(&wide, "a");
    for (int i = 0; i < 3; i++)
        ce_names_add(&wide, "%*d", LONG, i); /* only the first of these fits, and no later name is shown */
    ce_names_add(&wide, "b");
    ck_assert_uint_eq(strlen(ce_names_text(&wide)), strlen("a, ") + LONG + strlen(" and 3 more"));
    ce_names_add(&one, "%*d", 10 * CE_NAMES_BYTES, 1);
    ck_assert_uint_lt(strlen(ce_names_text(&one)), CE_NAMES_BYTES);
    ck_assert_int_eq(one.shown, 1);
}
END_TEST

SUITE_MAIN("base", halves_round_to_nearest_even, every_half_comes_back, philox_known_answer,
           normals_have_mean_and_deviation, exact_sums_commute, exact_sums_lose_nothing, parts_cover_without_gap,
           lists_of_names_are_shortened)
