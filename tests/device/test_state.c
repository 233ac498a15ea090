/* test_state.c - operations on flat state: sums whose bits do not depend on how the state is cut, the optimizer's
 * update, initial values. */
#include "near.h"
#include "reference.h"
#include "suite.h"

#include "base/rng.h"
#include "device/device.h"
#include "device/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/rules.h"

static cs_stream *stream;

static void open_device(int threads)
{
    stream = ce_device_stream(near_open(threads), CE_COMPUTE);
}

/* Returns a sum in device memory. */
static ce_exact *sum_at(ce_exact *sum)
{
    return near_at(cs_vector(sum, CS_I64, sizeof *sum / sizeof(int64_t))).data;
}

/* Returns values in device memory. */
static float *floats_at(float *values, int64_t count)
{
    return near_at(cs_vector(values, CS_F32, count)).data;
}

START_TEST(sums_do_not_depend_on_cuts_or_threads)
{
    enum { COUNT = 64 * 3000 };
    cs_tensor g = near_random(CS_F32, 1, COUNT, 1, 1e-3);
    double want = 0, first[2] = { 0 }, plain = 0;
    float *values = g.data;
    for (int i = 0; i < COUNT; i++) {
        want += (double)values[i] * (double)values[i] * 0.25;
        plain += (double)values[i];
    }
    for (int threads = 1; threads <= near_threads(3); threads++) {
        open_device(threads);
        for (int cut = 0; cut <= COUNT; cut += 64 * 750) {
            ce_exact squares = { 0 }, sum = { 0 };
            float *there = near_at(g).data;
            ce_state_sum_squares(stream, sum_at(&squares), cs_vector(there + cut, CS_F32, COUNT - cut), 0, 0.5);
            ce_state_sum_squares(stream, sum_at(&squares), cs_vector(there, CS_F32, cut), 0, 0.5);
            ce_state_sum(stream, sum_at(&sum), there, cut);
            ce_state_sum(stream, sum_at(&sum), there + cut, COUNT - cut);
            near_fetch();
            double got[2] = { ce_exact_value(&squares), ce_exact_value(&sum) };
            ck_assert_double_eq_tol(got[0], want, 1e-12 * want);
            ck_assert_double_eq_tol(got[1], plain, 1e-12);
            if (threads == 1 && cut == 0)
                memcpy(first, got, sizeof first);
            ck_assert(memcmp(first, got, sizeof first) == 0);
        }
        near_close();
    }
    near_free(g);
}
END_TEST

/* A tensor may begin and end anywhere in a row that is cut at multiples of 64. */
START_TEST(sums_of_a_tensor_in_a_row)
{
    enum { FROM = 100, CUT = 64 * 600, TO = 64 * 900 + 7 };
    cs_tensor row = near_random(CS_F32, 1, TO, 1, 1);
    float *values = row.data;
    double want = 0;
    for (int i = FROM; i < TO; i++)
        want += (double)values[i] * (double)values[i];
    for (int threads = 1; threads <= near_threads(2); threads++) {
        ce_exact whole = { 0 }, parts = { 0 };
        open_device(threads);
        float *there = near_at(row).data;
        ce_state_sum_squares(stream, sum_at(&whole), cs_vector(there + FROM, CS_F32, TO - FROM), FROM % 64, 1);
        ce_state_sum_squares(stream, sum_at(&parts), cs_vector(there + CUT, CS_F32, TO - CUT), 0, 1);
        ce_state_sum_squares(stream, sum_at(&parts), cs_vector(there + FROM, CS_F32, CUT - FROM), FROM % 64, 1);
        near_fetch();
        ck_assert_double_eq_tol(ce_exact_value(&whole), want, 1e-12 * want);
        ck_assert(ce_exact_value(&whole) == ce_exact_value(&parts));
        near_close();
    }
    near_free(row);
}
END_TEST

START_TEST(sums_take_every_finite_float)
{
    open_device(1);
    float g[64] = { 3e38f, 1e-38f, 1e-45f };
    ce_exact sum = { 0 };
    ce_state_sum_squares(stream, sum_at(&sum), near_at(cs_vector(g, CS_F32, 64)), 0, 1);
    near_fetch();
    ck_assert_double_eq_tol(ce_exact_value(&sum), (double)3e38f * (double)3e38f, 1e62);
    memset(g, 0, sizeof g);
    g[1] = 1e-45f;
    sum = (ce_exact){ 0 };
    ce_state_sum_squares(stream, sum_at(&sum), near_at(cs_vector(g, CS_F32, 64)), 0, 1);
    near_fetch();
    ck_assert(ce_exact_value(&sum) == (double)1e-45f * (double)1e-45f);
    near_close();
}
END_TEST

START_TEST(sums_count_what_is_not_finite)
{
    open_device(2);
    float *g = calloc(64 * 1000, sizeof *g);
    ce_exact sum = { 0 };
    g[5] = INFINITY, g[6] = NAN, g[64 * 999] = -INFINITY;
    ce_state_sum_squares(stream, sum_at(&sum), near_at(cs_vector(g, CS_F32, 64 * 1000)), 0, 1);
    near_fetch();
    ck_assert_int_eq(sum.nonfinite, 3);
    ce_state_sum(stream, sum_at(&sum), floats_at(g, 64 * 1000), 64 * 1000);
    near_fetch();
    ck_assert_int_eq(sum.nonfinite, 6);
    free(g);
    near_close();
}
END_TEST

START_TEST(counts_are_added)
{
    enum { COUNT = 1000 };
    int64_t sums[COUNT];
    int32_t counts[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sums[i] = (int64_t)i << 40;
        counts[i] = INT32_MAX - i;
    }
    open_device(1);
    ce_state_add_counts(stream, near_at(cs_vector(sums, CS_I64, COUNT)).data,
                        near_at(cs_vector(counts, CS_I32, COUNT)).data, COUNT - 1);
    near_fetch();
    for (int i = 0; i < COUNT - 1; i++)
        ck_assert_int_eq(sums[i], ((int64_t)i << 40) + INT32_MAX - i);
    ck_assert_int_eq(sums[COUNT - 1], (int64_t)(COUNT - 1) << 40);
    near_close();
}
END_TEST

START_TEST(add_adds)
{
    enum { COUNT = 40001 };
    open_device(2);
    cs_tensor a = near_random(CS_F32, 1, COUNT, 1, 1), b = near_random(CS_F32, 1, COUNT, 2, 1);
    double *want = near_doubles(a);
    for (int i = 0; i < COUNT; i++)
        want[i] += near_element(b, i);
    ce_state_add(stream, near_at(a), near_at(b));
    near_fetch();
    ck_assert(near_all("state_add", a, want, 0));
    free(want);
    near_free(a), near_free(b);
    near_close();
}
END_TEST

typedef float rule_function(float p, float g, float *s0, float *s1, ce_hyper h);

static void check_update(ce_optimizer optimizer, rule_function *rule, ce_hyper hyper, cs_dtype publish)
{
    enum { COUNT = 40003 };
    cs_tensor p = near_random(CS_F32, 1, COUNT, 1, 1), g = near_random(CS_F32, 1, COUNT, 2, 1);
    cs_tensor s[2] = { near_random(CS_F32, 1, COUNT, 3, 1), near_new(CS_F32, 1, COUNT) };
    cs_tensor out = near_new(publish, 1, COUNT), want = near_copy(p);
    for (int i = 0; i < COUNT && optimizer.kind == CE_OPTIM_ADAGRAD; i++)
        ((float *)s[0].data)[i] = fabsf(((float *)s[0].data)[i]); /* the slot is a sum of squares */
    cs_tensor want_s[2] = { near_copy(s[0]), near_copy(s[1]) };
    for (int i = 0; i < COUNT; i++) {
        ((float *)s[1].data)[i] = ((float *)want_s[1].data)[i] = fabsf(((float *)s[0].data)[i]);
        float none[2] = { 0 }, *slot[2];
        for (int k = 0; k < 2; k++)
            slot[k] = k < optimizer.slots ? (float *)want_s[k].data + i : &none[k];
        float scaled = ((float *)g.data)[i] * hyper.grad_scale;
        ((float *)want.data)[i] = rule(((float *)p.data)[i], scaled, slot[0], slot[1], hyper);
    }
    ce_state_range all = { .to = COUNT, .decays = 1 };
    ce_state_rows rows = {
        .master = near_at(p), .gradient = near_at(g), .publish = near_at(out), .ranges = near_ranges(near_at, &all, 1)
    };
    for (int k = 0; k < optimizer.slots; k++)
        rows.slots[k] = near_at(s[k]);
    ce_state_update(stream, &optimizer, hyper, &rows);
    near_fetch();
    ck_assert(near_tensors("update", optimizer.directs ? g : p, want, 1e-6));
    ck_assert(near_tensors("first slot", s[0], want_s[0], 1e-6));
    ck_assert(near_tensors("second slot", s[1], want_s[1], 1e-6));
    cs_tensor rounded = near_new(publish, 1, COUNT);
    for (int i = 0; i < COUNT; i++)
        near_set(rounded, i, near_element(p, i));
    ck_assert(near_same_bits("published", out, rounded));
    near_free(p), near_free(g), near_free(s[0]), near_free(s[1]), near_free(out), near_free(want);
    near_free(want_s[0]), near_free(want_s[1]), near_free(rounded);
}

START_TEST(update_walks_every_rule)
{
    ce_optim_settings settings = { .rate = 0.01,
                                   .betas = { 0.9, 0.95 },
                                   .epsilon = 1e-8,
                                   .weight_decay = 0.1,
                                   .momentum = 0.9,
                                   .bias_correction = true };
    static rule_function *const rules[] = {
#define RULE(function, constant, ...) [CE_OPTIM_##constant] = function,
#include "optim/rules.h"
    };
    for (int threads = 1; threads <= near_threads(2); threads++) {
        open_device(threads);
        for (int kind = 0; kind < CE_OPTIM_KINDS; kind++) {
            for (int momentum = 0; momentum < 2; momentum++) {
                settings.kind = kind;
                settings.momentum = momentum ? 0.9 : 0;
                ce_hyper hyper = ce_optim_hyper(&settings, 0.01, 3, 0.5);
                ce_optimizer found = ce_optim_find(&settings);
                for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
                    check_update(found, rules[kind], hyper, (cs_dtype)dtype);
            }
        }
        near_close();
    }
}
END_TEST

START_TEST(first_values_depend_on_key_and_element_alone)
{
    enum { COUNT = 20000 };
    static const cs_init inits[] = { { CS_ZEROS, 0 }, { CS_ONES, 0 }, { CS_NORMAL, 0.02f }, { CS_UNIFORM, 0.5f } };
    cs_tensor all = near_new(CS_F32, 1, COUNT), part = near_new(CS_F32, 1, COUNT);
    for (int i = 0; i < 4; i++) {
        double sum = 0, squares = 0;
        open_device(1);
        ce_state_init(stream, near_at(all).data, inits[i], 9, (ce_state_places){ 0 }, COUNT);
        near_fetch();
        near_close();
        open_device(3);
        for (int from = 0; from < COUNT; from += 6667)
            ce_state_init(stream, (float *)near_at(part).data + from, inits[i], 9, (ce_state_places){ .from = from },
                          COUNT - from < 6667 ? COUNT - from : 6667);
        near_fetch();
        near_close();
        ck_assert(near_same_bits("init", part, all));
        for (int e = 0; e < COUNT; e++) {
            sum += near_element(all, e) / COUNT;
            squares += near_element(all, e) * near_element(all, e) / COUNT;
        }
        double deviation[] = { 0, 0, 0.02, 0.5 / sqrt(3) };
        ck_assert_double_eq_tol(sum, inits[i].how == CS_ONES, 0.01);
        ck_assert_double_eq_tol(sqrt(fabs(squares - sum * sum)), deviation[i], 0.02 * deviation[i] + 1e-6);
    }
    ck_assert(near_element(all, 0) != near_element(all, 1));
    open_device(1);
    ce_state_init(stream, near_at(all).data, (cs_init){ CS_NORMAL, 1 }, 9, (ce_state_places){ .from = 3 }, 1001);
    near_fetch();
    near_close();
    double apart = 0;
    for (uint64_t e = 0; e < 1001; e++)
        apart = fmax(apart, fabs(near_element(all, (int64_t)e) - (double)reference_normal(9, e + 3)));
    ck_assert_double_le(apart, 1e-6);
    near_free(all), near_free(part);
}
END_TEST

SUITE_MAIN("state", sums_do_not_depend_on_cuts_or_threads, sums_of_a_tensor_in_a_row, sums_take_every_finite_float,
           sums_count_what_is_not_finite, counts_are_added, add_adds, update_walks_every_rule,
           first_values_depend_on_key_and_element_alone)
