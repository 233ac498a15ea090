/* test_routing.c - the routing of rows to experts and its gradient, compared with plain loops in double precision; the
 * results must have the same bits with any number of threads. */
#include "near.h"
#include "suite.h"

#include "device/device.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* MAX_EXPERTS: the greatest number of experts in a test. N, E, K: numbers of rows, experts and chosen experts in the
 * tests of products. */
enum { MAX_EXPERTS = CS_MAX_EXPERTS, N = 150, E = 7, K = 3, SLOTS = N * K };

typedef struct {
    int rows, experts, chosen;
} sizes;

static const sizes some = { N, E, K };

static cs_stream *stream;

/* A routing, and the tensors that were used for it. */
typedef struct {
    sizes of;
    cs_routing routing;
    cs_tensor factors, logits;
} routed;

static cs_tensor whole_numbers(int64_t rows, int64_t columns)
{
    return near_new(CS_I32, rows, columns);
}

static int32_t *numbers(cs_tensor x)
{
    return x.data;
}

/* Returns the routing with tensors that the device can use. */
static cs_routing routing_at(const cs_routing *routing)
{
    return (cs_routing){ .rows = near_at(routing->rows),
                         .slots = near_at(routing->slots),
                         .bounds = near_at(routing->bounds),
                         .tokens = near_at(routing->tokens),
                         .probabilities = near_at(routing->probabilities) };
}

/* Routes rows by the given logits. The caller calls free_routed, which also frees the logits. */
static routed route_by(cs_tensor logits, int chosen, cs_dtype dtype, bool normalized)
{
    sizes of = { (int)cs_rows(logits), (int)cs_columns(logits), chosen };
    int64_t slots = (int64_t)of.rows * chosen;
    routed r = { .of = of, .logits = logits, .factors = near_new(dtype, slots, 1) };
    r.routing = (cs_routing){ .rows = whole_numbers(slots, 1),
                              .slots = whole_numbers(of.rows, chosen),
                              .bounds = whole_numbers(of.experts + 1, 1),
                              .tokens = whole_numbers(of.experts, 1),
                              .probabilities = near_new(CS_F32, of.experts, 1) };
    /* the operation must replace old values */
    memset(r.routing.tokens.data, 1, (size_t)of.experts * sizeof(int32_t));
    memset(r.routing.bounds.data, 1, (size_t)(of.experts + 1) * sizeof(int32_t));
    near_set(r.routing.probabilities, 0, NAN);
    cs_routing there = routing_at(&r.routing);
    cs_op_route(stream, &there, near_at(r.factors), near_at(logits), normalized);
    near_fetch();
    return r;
}

/* Returns the expert that random logits never choose, or -1 if a row chooses all experts. */
static int unused_of(sizes of)
{
    return of.chosen < of.experts ? of.experts / 2 : -1;
}

/* Routes rows by random logits. Experts 0 and 1 get equal logits in row 0; of the two, the one with the lower number
 * must be chosen. */
static routed route(sizes of, cs_dtype dtype, bool normalized)
{
    cs_tensor logits = near_random(dtype, of.rows, of.experts, 5, 2);
    for (int row = 0; row < of.rows && unused_of(of) >= 0; row++)
        near_set(logits, (int64_t)row * of.experts + unused_of(of), -30);
    near_set(logits, 0, near_element(logits, 1));
    return route_by(logits, of.chosen, CS_F32, normalized);
}

static void free_routed(routed *r)
{
    cs_tensor all[] = { r->routing.rows,          r->routing.slots, r->routing.bounds, r->routing.tokens,
                        r->routing.probabilities, r->factors,       r->logits };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        near_free(all[i]);
}

/* Computes the softmax of a row of logits. */
static void softmax_row(double *probability, const double *logits, int experts)
{
    double sum = 0;
    for (int e = 0; e < experts; e++)
        sum += probability[e] = exp(logits[e]);
    for (int e = 0; e < experts; e++)
        probability[e] /= sum;
}

/* Chooses the experts with the greatest logits, the greatest first. */
static void choose(int *chosen, const double *logits, sizes of)
{
    bool taken[MAX_EXPERTS] = { false };
    for (int j = 0; j < of.chosen; j++) {
        chosen[j] = -1;
        for (int e = 0; e < of.experts; e++)
            if (!taken[e] && (chosen[j] < 0 || logits[e] > logits[chosen[j]]))
                chosen[j] = e;
        taken[chosen[j]] = true;
    }
}

/* Returns the divisor of the factors of a row. */
static double divisor_of(const double *probability, const int *chosen, int count, bool normalized)
{
    double sum = 0;
    for (int j = 0; j < count; j++)
        sum += probability[chosen[j]];
    return normalized ? sum : 1;
}

static int expert_of(const cs_routing *routing, int slot)
{
    int e = 0;
    while (numbers(routing->bounds)[e + 1] <= slot)
        e++;
    return e;
}

/* Checks that each slot is the slot of one row, that the slots of an expert are in the order of rows, and that `tokens`
 * are the numbers of slots. */
static void check_order(const routed *r)
{
    const cs_routing *routing = &r->routing;
    int slots = r->of.rows * r->of.chosen, *seen = calloc((size_t)slots + 1, sizeof *seen);
    ck_assert_int_eq(numbers(routing->bounds)[0], 0);
    ck_assert_int_eq(numbers(routing->bounds)[r->of.experts], slots);
    for (int e = 0; e < r->of.experts; e++)
        ck_assert_int_eq(numbers(routing->tokens)[e], numbers(routing->bounds)[e + 1] - numbers(routing->bounds)[e]);
    for (int i = 0; i < slots; i++) {
        int slot = numbers(routing->slots)[i];
        ck_assert(slot >= 0 && slot < slots && seen[slot]++ == 0);
        ck_assert_int_eq(numbers(routing->rows)[slot], i / r->of.chosen);
    }
    for (int slot = 1; slot < slots; slot++)
        if (expert_of(routing, slot) == expert_of(routing, slot - 1))
            ck_assert_int_le(numbers(routing->rows)[slot - 1], numbers(routing->rows)[slot]);
    free(seen);
}

static void check_route(sizes of, cs_dtype dtype, bool normalized)
{
    routed r = route(of, dtype, normalized);
    double *logits = near_doubles(r.logits), *want = near_doubles(r.factors), probability[MAX_EXPERTS];
    double sums[MAX_EXPERTS] = { 0 };
    check_order(&r);
    for (int row = 0; row < of.rows; row++) {
        int chosen[MAX_EXPERTS];
        choose(chosen, logits + row * of.experts, of);
        softmax_row(probability, logits + row * of.experts, of.experts);
        for (int e = 0; e < of.experts; e++)
            sums[e] += probability[e];
        for (int j = 0; j < of.chosen; j++) {
            int slot = numbers(r.routing.slots)[row * of.chosen + j];
            ck_assert_int_eq(expert_of(&r.routing, slot), chosen[j]);
            want[slot] = probability[chosen[j]] / divisor_of(probability, chosen, of.chosen, normalized);
        }
    }
    if (unused_of(of) >= 0)
        ck_assert_int_eq(numbers(r.routing.tokens)[unused_of(of)], 0);
    ck_assert(near_all("factors", r.factors, want, 1e-6));
    ck_assert(near_all("probabilities", r.routing.probabilities, sums, 1e-6));
    free(logits), free(want);
    free_routed(&r);
}

/* Returns the scalar whose gradient cs_op_route_grad computes, for one row. The experts of the row do not change. */
static double scalar_of(const double *logits, sizes of, const int *chosen, const double *dfactors,
                        const double *further, bool normalized)
{
    double probability[MAX_EXPERTS], sum = 0;
    softmax_row(probability, logits, of.experts);
    for (int j = 0; j < of.chosen; j++)
        sum += probability[chosen[j]] * dfactors[j];
    sum /= divisor_of(probability, chosen, of.chosen, normalized);
    for (int e = 0; further && e < of.experts; e++)
        sum += probability[e] * further[e];
    return sum;
}

/* If `more` is false, the gradient of the probabilities is absent. */
static void check_route_grad(sizes of, cs_dtype dtype, bool normalized, bool more)
{
    routed r = route(of, dtype, normalized);
    cs_tensor dfactors = near_random(CS_F32, cs_rows(r.factors), 1, 6, 1),
              dlogits = near_new(dtype, of.rows, of.experts);
    cs_tensor further = more ? near_random(CS_F32, of.experts, 1, 7, 1) : (cs_tensor){ 0 };
    double *logits = near_doubles(r.logits), *want = near_doubles(dlogits), given[MAX_EXPERTS], h = 1e-5;
    double *also = more ? near_doubles(further) : NULL;
    for (int row = 0; row < of.rows; row++) {
        int chosen[MAX_EXPERTS];
        double *own = logits + row * of.experts;
        choose(chosen, own, of);
        for (int j = 0; j < of.chosen; j++)
            given[j] = near_element(dfactors, numbers(r.routing.slots)[row * of.chosen + j]);
        for (int e = 0; e < of.experts; e++) {
            double kept = own[e], above;
            own[e] = kept + h;
            above = scalar_of(own, of, chosen, given, also, normalized);
            own[e] = kept - h;
            want[row * of.experts + e] = (above - scalar_of(own, of, chosen, given, also, normalized)) / (2 * h);
            own[e] = kept;
        }
    }
    cs_routing there = routing_at(&r.routing);
    cs_op_route_grad(stream, near_at(dlogits), &there, near_at(dfactors), near_at(further), near_at(r.logits),
                     normalized);
    near_fetch();
    ck_assert(near_all("route_grad", dlogits, want, 2e-6));
    free(logits), free(want), free(also);
    near_free(dfactors), near_free(further), near_free(dlogits);
    free_routed(&r);
}

/* Numbers of rows that are not a multiple of a tile of the GPU's kernels, and so many rows that they have more tiles
 * than a block has warps; numbers of experts that are not a multiple of a warp, and more chosen experts than a warp has
 * lanes. */
START_TEST(rows_reach_their_experts)
{
    static const sizes all[] = { { N, E, K },   { 1, 4, 4 },    { 1100, 4, 2 },
                                 { 33, 60, 4 }, { 64, 128, 8 }, { 3, 1024, 40 } };
    static const cs_dtype types[] = { CS_F32, CS_BF16, CS_F16 };
    stream = ce_device_stream(near_open(2), CE_COMPUTE);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int type = 0; type < 3; type++)
            for (int normalized = 0; normalized < 2; normalized++) {
                check_route(all[i], types[type], normalized);
                check_route_grad(all[i], types[type], normalized, type != 2);
            }
    near_close();
}
END_TEST

/* Of equal logits, those with the lowest numbers are chosen; a row with an invalid number changes no other row. */
START_TEST(ties_and_invalid_numbers)
{
    enum { ROWS = 70, X = 40, CHOSEN = 34 };
    stream = ce_device_stream(near_open(2), CE_COMPUTE);
    cs_tensor logits = near_new(CS_BF16, ROWS, X);
    for (int i = 0; i < ROWS * X; i++)
        near_set(logits, i, i % 3 ? 0.0 : -0.0);
    near_set(logits, 8 * X + 5, NAN);
    near_set(logits, 9 * X + 6, INFINITY);
    for (int e = 0; e < X; e++) {
        near_set(logits, 10 * X + e, NAN);
        near_set(logits, 11 * X + e, -INFINITY);
    }
    routed r = route_by(logits, CHOSEN, CS_BF16, true);
    check_order(&r);
    for (int i = 0; i < ROWS * CHOSEN; i++) {
        int slot = numbers(r.routing.slots)[i], row = i / CHOSEN;
        if (row >= 8 && row < 12) {
            ck_assert(isnan(near_element(r.factors, slot)));
            continue;
        }
        ck_assert_int_eq(expert_of(&r.routing, slot), i % CHOSEN);
        ck_assert(fabs(near_element(r.factors, slot) * CHOSEN - 1) < 0x1p-8);
    }
    free_routed(&r);
    near_close();
}
END_TEST

START_TEST(no_rows_are_routed)
{
    stream = ce_device_stream(near_open(1), CE_COMPUTE);
    routed r = route_by(near_new(CS_F32, 0, E), K, CS_F32, true);
    check_order(&r);
    for (int e = 0; e < E; e++)
        ck_assert(near_element(r.routing.probabilities, e) == 0);
    free_routed(&r);
    near_close();
}
END_TEST

/* On a GPU, which has no threads to choose, three runs are compared. */
START_TEST(threads_do_not_change_bits)
{
    static const cs_dtype types[] = { CS_F32, CS_BF16 };
    for (int type = 0; type < 2; type++) {
        cs_tensor one = near_new(CS_F32, E, 1);
        for (int run = 0; run < 3; run++) {
            stream = ce_device_stream(near_open(near_threads(1 + 2 * run)), CE_COMPUTE);
            routed r = route(some, types[type], true);
            if (run == 0)
                memcpy(one.data, r.routing.probabilities.data, E * sizeof(float));
            ck_assert(near_same_bits("threads", r.routing.probabilities, one));
            free_routed(&r);
            near_close();
        }
        near_free(one);
    }
}
END_TEST

SUITE_MAIN("routing", rows_reach_their_experts, ties_and_invalid_numbers, no_rows_are_routed,
           threads_do_not_change_bits)
