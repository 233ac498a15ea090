/* test_routing.c - the operations of mixtures of experts compared with plain loops in double precision; the results
 * must have the same bits with any number of threads. */
#include "near.h"
#include "suite.h"

#include "device/device.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 150, E = 7, K = 3, SLOTS = N * K, UNUSED = 4 };

static cs_stream *stream;

/* A routing, and the tensors that were used for it. */
typedef struct {
    cs_routing routing;
    cs_tensor factors, logits;
} routed;

static cs_tensor whole_numbers(int64_t rows, int64_t columns)
{
    return near_new(CS_I32, rows, columns);
}

/* Routes rows by random logits that never choose the expert UNUSED. The caller calls free_routed. */
static routed route(cs_dtype dtype, bool normalized)
{
    routed r = { .logits = near_random(dtype, N, E, 5, 2), .factors = near_new(CS_F32, SLOTS, 1) };
    for (int row = 0; row < N; row++)
        near_set(r.logits, row * E + UNUSED, -9);
    /* Experts 0 and 1 get equal logits in row 0; of the two, the one with the lower number must be chosen. */
    near_set(r.logits, 0, near_element(r.logits, 1));
    r.routing = (cs_routing){ .rows = whole_numbers(SLOTS, 1),
                              .slots = whole_numbers(N, K),
                              .bounds = whole_numbers(E + 1, 1),
                              .tokens = whole_numbers(E, 1),
                              .probabilities = near_new(CS_F32, E, 1) };
    cs_op_route(stream, &r.routing, r.factors, r.logits, normalized);
    return r;
}

static void free_routed(routed *r)
{
    cs_tensor all[] = { r->routing.rows,          r->routing.slots, r->routing.bounds, r->routing.tokens,
                        r->routing.probabilities, r->factors,       r->logits };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        near_free(all[i]);
}

static const int32_t *numbers(cs_tensor x)
{
    return x.data;
}

/* Computes the softmax of a row of logits, probability[E]. */
static void softmax_row(double *probability, const double *logits)
{
    double sum = 0;
    for (int e = 0; e < E; e++)
        sum += probability[e] = exp(logits[e]);
    for (int e = 0; e < E; e++)
        probability[e] /= sum;
}

/* Chooses the K experts with the greatest logits, the greatest first. */
static void choose(int chosen[K], const double *logits)
{
    bool taken[E] = { false };
    for (int j = 0; j < K; j++) {
        chosen[j] = -1;
        for (int e = 0; e < E; e++)
            if (!taken[e] && (chosen[j] < 0 || logits[e] > logits[chosen[j]]))
                chosen[j] = e;
        taken[chosen[j]] = true;
    }
}

static double factor_of(const double *probability, const int chosen[K], int j, bool normalized)
{
    double sum = 0;
    for (int i = 0; i < K; i++)
        sum += probability[chosen[i]];
    return probability[chosen[j]] / (normalized ? sum : 1);
}

static int expert_of(const cs_routing *routing, int slot)
{
    int e = 0;
    while (numbers(routing->bounds)[e + 1] <= slot)
        e++;
    return e;
}

static void check_route(cs_dtype dtype, bool normalized)
{
    routed r = route(dtype, normalized);
    double *logits = near_doubles(r.logits), want[SLOTS], sums[E] = { 0 }, probability[E];
    int tokens[E] = { 0 }, seen[SLOTS] = { 0 };
    for (int row = 0; row < N; row++) {
        int chosen[K];
        choose(chosen, logits + row * E);
        softmax_row(probability, logits + row * E);
        for (int e = 0; e < E; e++)
            sums[e] += probability[e];
        for (int j = 0; j < K; j++) {
            int slot = numbers(r.routing.slots)[row * K + j];
            ck_assert_int_eq(expert_of(&r.routing, slot), chosen[j]);
            ck_assert_int_eq(numbers(r.routing.rows)[slot], row);
            want[slot] = factor_of(probability, chosen, j, normalized);
            tokens[chosen[j]]++;
            seen[slot]++;
        }
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        ck_assert_int_eq(seen[slot], 1);
        if (slot > 0 && expert_of(&r.routing, slot) == expert_of(&r.routing, slot - 1))
            ck_assert_int_lt(numbers(r.routing.rows)[slot - 1], numbers(r.routing.rows)[slot]);
    }
    ck_assert_int_eq(tokens[UNUSED], 0);
    ck_assert(memcmp(tokens, r.routing.tokens.data, sizeof tokens) == 0);
    ck_assert(near_all("factors", r.factors, want, 1e-6));
    ck_assert(near_all("probabilities", r.routing.probabilities, sums, 1e-6));
    free(logits);
    free_routed(&r);
}

/* Returns the scalar whose gradient cs_op_route_grad computes, for one row. The experts of the row do not change. */
static double scalar_of(const double *logits, const int chosen[K], const double *dfactors, const double *further,
                        bool normalized)
{
    double probability[E], sum = 0;
    softmax_row(probability, logits);
    for (int j = 0; j < K; j++)
        sum += factor_of(probability, chosen, j, normalized) * dfactors[j];
    for (int e = 0; e < E; e++)
        sum += probability[e] * further[e];
    return sum;
}

static void check_route_grad(cs_dtype dtype, bool normalized)
{
    routed r = route(dtype, normalized);
    cs_tensor dfactors = near_random(CS_F32, SLOTS, 1, 6, 1), further = near_random(CS_F32, E, 1, 7, 1);
    cs_tensor dlogits = near_new(dtype, N, E);
    double *logits = near_doubles(r.logits), want[N * E], given[K], *more = near_doubles(further), h = 1e-5;
    for (int row = 0; row < N; row++) {
        int chosen[K];
        choose(chosen, logits + row * E);
        for (int j = 0; j < K; j++)
            given[j] = near_element(dfactors, numbers(r.routing.slots)[row * K + j]);
        for (int e = 0; e < E; e++) {
            double *at = logits + row * E + e, kept = *at, above;
            *at = kept + h;
            above = scalar_of(logits + row * E, chosen, given, more, normalized);
            *at = kept - h;
            want[row * E + e] = (above - scalar_of(logits + row * E, chosen, given, more, normalized)) / (2 * h);
            *at = kept;
        }
    }
    cs_op_route_grad(stream, dlogits, &r.routing, dfactors, further, r.logits, normalized);
    ck_assert(near_all("route_grad", dlogits, want, 2e-6));
    free(logits), free(more);
    near_free(dfactors), near_free(further), near_free(dlogits);
    free_routed(&r);
}

START_TEST(rows_reach_their_experts)
{
    stream = ce_device_stream(near_open(2), CS_COMPUTE);
    for (int normalized = 0; normalized < 2; normalized++) {
        check_route(CS_F32, normalized);
        check_route(CS_BF16, normalized);
        check_route_grad(CS_F32, normalized);
        check_route_grad(CS_BF16, normalized);
    }
    near_close();
}
END_TEST

/* ---- slots ---- */

static void check_slots(cs_dtype dtype)
{
    enum { C = 70 };
    routed r = route(CS_F32, true);
    cs_tensor x = near_random(dtype, N, C, 1, 1), taken = near_new(dtype, SLOTS, C), sum = near_new(dtype, N, C);
    double want[N * C] = { 0 };
    cs_op_take_slots(stream, taken, x, &r.routing);
    for (int slot = 0; slot < SLOTS; slot++)
        for (int i = 0; i < C; i++)
            ck_assert(near_element(taken, slot * C + i) ==
                      near_element(x, numbers(r.routing.rows)[slot] * (int64_t)C + i));
    cs_tensor other = near_random(dtype, SLOTS, C, 2, 1);
    for (int slot = 0; slot < SLOTS; slot++)
        for (int i = 0; i < C; i++)
            want[numbers(r.routing.rows)[slot] * C + i] += near_element(other, slot * C + i);
    cs_op_add_slots(stream, sum, other, &r.routing);
    ck_assert(near_all("add_slots", sum, want, 1e-6));
    near_free(x), near_free(taken), near_free(sum), near_free(other);
    free_routed(&r);
}

START_TEST(rows_are_copied_to_slots_and_back)
{
    stream = ce_device_stream(near_open(2), CS_COMPUTE);
    check_slots(CS_F32);
    check_slots(CS_BF16);
    near_close();
}
END_TEST

START_TEST(threads_do_not_change_bits)
{
    static const cs_dtype types[] = { CS_F32, CS_BF16 };
    for (int type = 0; type < 2; type++) {
        cs_tensor one = near_new(CS_F32, E, 1);
        for (int threads = 1; threads <= 5; threads += 2) {
            stream = ce_device_stream(near_open(threads), CS_COMPUTE);
            routed r = route(types[type], true);
            if (threads == 1)
                memcpy(one.data, r.routing.probabilities.data, E * sizeof(float));
            ck_assert(near_same_bits("threads", r.routing.probabilities, one));
            free_routed(&r);
            near_close();
        }
        near_free(one);
    }
}
END_TEST

/* ---- factors of rows, and the load-balancing loss ---- */

static void check_scale(cs_dtype dtype, bool logistic)
{
    enum { ROWS = 30, C = 1100 };
    cs_tensor x = near_random(dtype, ROWS, C, 1, 1), dy = near_random(dtype, ROWS, C, 2, 1);
    cs_tensor factors = near_random(dtype, ROWS, 1, 3, 2), dfactors = near_new(CS_F32, ROWS, 1);
    cs_tensor y = near_new(dtype, ROWS, C), dx = near_new(dtype, ROWS, C);
    double want_y[ROWS * C], want_dx[ROWS * C], want_df[ROWS];
    for (int row = 0; row < ROWS; row++) {
        double given = near_element(factors, row), factor = logistic ? 1 / (1 + exp(-given)) : given, dot = 0;
        for (int i = row * C; i < (row + 1) * C; i++) {
            want_y[i] = factor * near_element(x, i);
            want_dx[i] = factor * near_element(dy, i);
            dot += near_element(x, i) * near_element(dy, i);
        }
        want_df[row] = dot * (logistic ? factor * (1 - factor) : 1);
    }
    cs_op_scale_rows(stream, y, x, factors, logistic);
    cs_op_scale_rows_grad(stream, dx, dfactors, dy, x, factors, logistic);
    ck_assert(near_all("scale_rows", y, want_y, 1e-6));
    ck_assert(near_all("scale_rows_grad", dx, want_dx, 1e-6));
    ck_assert(near_all("scale_rows_grad of factors", dfactors, want_df, 2e-6));
    cs_op_scale_rows_grad(stream, dy, dfactors, dy, x, factors, logistic);
    cs_op_scale_rows(stream, x, x, factors, logistic);
    ck_assert(near_same_bits("scale_rows_grad in place", dy, dx));
    ck_assert(near_same_bits("scale_rows in place", x, y));
    near_free(x), near_free(dy), near_free(factors), near_free(dfactors), near_free(y), near_free(dx);
}

START_TEST(rows_have_factors)
{
    stream = ce_device_stream(near_open(2), CS_COMPUTE);
    check_scale(CS_F32, false);
    check_scale(CS_F32, true);
    check_scale(CS_BF16, true);
    near_close();
}
END_TEST

/* The formula of transformers' load_balancing_loss_func, and its derivative. */
START_TEST(load_balancing_loss)
{
    enum { L = 3, ROWS = 10, X = 4 };
    static const int32_t tokens[L * X] = { 5, 7, 0, 8, 1, 2, 3, 14, 9, 9, 1, 1 };
    static const float probabilities[L * X] = { 4, 3, 1, 2, .5f, 1.5f, 2, 6, 5, 4, .5f, .5f };
    int32_t targets[ROWS] = { 1, -1, 2, 3, 4, -1, 6, 7, 8, 9 };
    float losses[ROWS], weights[ROWS], slopes[X];
    double want = 0, slope[X], all = L * ROWS, weight = 0;
    stream = ce_device_stream(near_open(1), CS_COMPUTE);
    for (int row = 0; row < ROWS; row++) {
        losses[row] = (float)row;
        weights[row] = 0.25f + (float)row;
        weight += targets[row] >= 0 ? (double)weights[row] : 0;
    }
    for (int e = 0; e < X; e++) {
        double n = 0, p = 0;
        for (int layer = 0; layer < L; layer++) {
            n += tokens[layer * X + e];
            p += (double)probabilities[layer * X + e];
        }
        want += 0.5 * X * (n / all) * (p / all);
        slope[e] = weight * 0.5 * X * (n / all) / all;
    }
    cs_balance given = { .tokens = cs_matrix((void *)(uintptr_t)tokens, CS_I32, L, X),
                         .probabilities = cs_matrix((void *)(uintptr_t)probabilities, CS_F32, L, X),
                         .dprobabilities = cs_vector(slopes, CS_F32, X),
                         .coefficient = 0.5f };
    cs_op_balance(stream, &given, cs_matrix(losses, CS_F32, ROWS, 1), cs_vector(targets, CS_I32, ROWS),
                  cs_matrix(weights, CS_F32, ROWS, 1));
    for (int row = 0; row < ROWS; row++)
        ck_assert_double_eq_tol((double)losses[row], row + (targets[row] >= 0 ? want : 0), 1e-6);
    ck_assert(near_all("balance", given.dprobabilities, slope, 1e-6));
    near_close();
}
END_TEST

SUITE_MAIN("routing", rows_reach_their_experts, rows_are_copied_to_slots_and_back, threads_do_not_change_bits,
           rows_have_factors, load_balancing_loss)
