/* test_mixture.c - mixtures of data sets: the shares of every epoch, how often each window is read, how often the data
 * set changes, that seeds give different orders, and weights that are refused. */
#include "data/mixture.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

START_TEST(shares_are_the_weights)
{
    static const struct {
        int count;
        double weights[4];
        int64_t windows[4];
    } cases[] = {
        { 2, { 1, 1 }, { 10, 990 } },
        { 3, { 0.7, 0.2, 0.1 }, { 100, 500, 400 } },
        { 4, { 0, 3, 0, 1 }, { 0, 30, 77, 5 } },
        { 1, { 5 }, { 13 } },
        { 3, { 1, 1, 1 }, { 1, 1, 1 } },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ce_mixture mixture;
        int64_t total = 0, epochs = 20;
        double sum = 0;
        ck_assert_msg(ce_mixture_open(&mixture, cases[c].weights, cases[c].windows, cases[c].count) == CS_OK, "%s",
                      cs_error());
        static int seen[4][1000];
        memset(seen, 0, sizeof seen);
        for (int i = 0; i < cases[c].count; i++) {
            total += cases[c].windows[i];
            sum += cases[c].weights[i];
        }
        for (int64_t epoch = 0; epoch < epochs; epoch++) {
            int64_t of[4] = { 0 };
            for (int64_t i = 0; i < total; i++) {
                ce_mixture_place place = ce_mixture_at(&mixture, 42, epoch * total + i);
                ck_assert_int_lt(place.set, cases[c].count);
                ck_assert(place.window >= 0 && place.window < cases[c].windows[place.set]);
                of[place.set]++;
                seen[place.set][place.window]++;
            }
            for (int i = 0; i < cases[c].count; i++)
                ck_assert_double_le(fabs((double)of[i] - (double)total * cases[c].weights[i] / sum), 1);
        }
        for (int i = 0; i < cases[c].count; i++) /* a set is read completely before any of its windows is read again */
            for (int64_t w = 0; w < cases[c].windows[i]; w++)
                ck_assert_int_le(abs(seen[i][w] - seen[i][0]), 1);
    }
}
END_TEST

START_TEST(sets_are_spread_and_seeds_differ)
{
    static const double weights[] = { 1, 1 };
    static const int64_t windows[] = { 1000, 1000 };
    ce_mixture mixture;
    int changes = 0, same = 0;
    ck_assert_int_eq(ce_mixture_open(&mixture, weights, windows, 2), CS_OK);
    for (int64_t i = 0; i < 1999; i++) {
        ce_mixture_place here = ce_mixture_at(&mixture, 1, i), other = ce_mixture_at(&mixture, 2, i);
        changes += here.set != ce_mixture_at(&mixture, 1, i + 1).set;
        same += here.set == other.set && here.window == other.window;
    }
    ck_assert_int_gt(changes, 850);
    ck_assert_int_lt(changes, 1150);
    ck_assert_int_lt(same, 15);
}
END_TEST

START_TEST(wrong_weights_are_refused)
{
    static const struct {
        double weights[2];
        int64_t windows[2];
        cs_status status;
    } cases[] = {
        { { 0, 0 }, { 5, 5 }, CS_BAD_CONFIG },   { { -1, 2 }, { 5, 5 }, CS_BAD_CONFIG },
        { { NAN, 2 }, { 5, 5 }, CS_BAD_CONFIG }, { { INFINITY, 2 }, { 5, 5 }, CS_BAD_CONFIG },
        { { 1, 1 }, { 5, 0 }, CS_BAD_FILE },     { { 1, 0 }, { 5, 0 }, CS_OK },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ce_mixture mixture;
        ck_assert_int_eq(ce_mixture_open(&mixture, cases[c].weights, cases[c].windows, 2), cases[c].status);
    }
}
END_TEST

SUITE_MAIN("mixture", shares_are_the_weights, sets_are_spread_and_seeds_differ, wrong_weights_are_refused)
