/* test_tile_products.c - matrix products on tiles against loops in double precision: all transpositions, types and
 * edges, the borders of blocks, the error bounds of fp32 products by bf16 parts (docs/training.md), the same bits
 * however a product is cut, and scratch memory. Sets of instructions without AMX compute with the model of the tiles. */
#include "near.h"
#include "suite.h"

#include "device/cpu/tile_product.h"

#include <math.h>

enum { GUARD = 64, MARK = 0xa5, MARGIN = 3, CASES = 32, SAMPLES = 4000 };

static uint64_t state = 3;

static double draw(void) /* in [-1, 1) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(state >> 32) * 0x1p-31;
}

typedef struct {
    int64_t m, n, k;
    int parts;
    bool along_a, along_b, add, wide, bias; /* wide: c is fp32 */
} shape;

typedef struct {
    shape of;
    cs_tensor a, b, c, before, bias;
} example;

static cs_tensor filled(cs_dtype dtype, int64_t rows, int64_t columns)
{
    cs_tensor x = near_new(dtype, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++)
        near_set(x, i, draw());
    return x;
}

/* The operands have MARGIN columns more than the product. */
static example make(shape s)
{
    cs_dtype dtype = s.parts == 1 ? CS_BF16 : CS_F32;
    example e = { .of = s,
                  .a = filled(dtype, s.along_a ? s.m : s.k, (s.along_a ? s.k : s.m) + MARGIN),
                  .b = filled(dtype, s.along_b ? s.n : s.k, (s.along_b ? s.k : s.n) + MARGIN),
                  .c = filled(s.wide ? CS_F32 : CS_BF16, s.m, s.n + MARGIN) };
    e.before = near_copy(e.c);
    if (s.bias)
        e.bias = filled(dtype, 1, s.n);
    return e;
}

static void drop(example *e)
{
    near_free(e->a), near_free(e->b), near_free(e->c), near_free(e->before);
    if (e->bias.data)
        near_free(e->bias);
}

static void *at(cs_tensor x, int64_t index)
{
    return (char *)x.data + (size_t)index * cs_dtype_bytes(x.dtype);
}

/* Computes rows [i, i + m) and columns [j, j + n) of c, in scratch memory of exactly the size that is asked for. */
static void run_part(const example *e, int64_t i, int64_t m, int64_t j, int64_t n)
{
    const shape *s = &e->of;
    int64_t lda = cs_columns(e->a), ldb = cs_columns(e->b), ldc = cs_columns(e->c);
    size_t bytes = ce_tile_product_scratch(m, n, s->k, s->parts);
    unsigned char *scratch = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    memset(scratch, MARK, bytes + GUARD);
    ce_tile_product product = { m,
                                n,
                                s->k,
                                { at(e->a, s->along_a ? i * lda : i), lda, s->along_a, false, s->parts },
                                { at(e->b, s->along_b ? j * ldb : j), ldb, s->along_b, true, s->parts },
                                e->c,
                                ldc,
                                s->add,
                                e->bias };
    product.c.data = at(e->c, i * ldc + j);
    if (s->bias)
        product.bias.data = at(e->bias, j);
    ce_tile_product_run(&product, scratch);
    for (size_t byte = bytes; byte < bytes + GUARD; byte++)
        ck_assert_int_eq(scratch[byte], MARK);
    free(scratch);
}

static void run(const example *e)
{
    run_part(e, 0, e->of.m, 0, e->of.n);
}

typedef struct {
    double sum, size; /* size: the sum of the magnitudes of the terms */
} expected;

static expected expect(const example *e, int64_t i, int64_t j)
{
    const shape *s = &e->of;
    expected want = { 0, 0 };
    for (int64_t l = 0; l < s->k; l++) {
        double x = near_element(e->a, s->along_a ? i * cs_columns(e->a) + l : l * cs_columns(e->a) + i) *
                   near_element(e->b, s->along_b ? j * cs_columns(e->b) + l : l * cs_columns(e->b) + j);
        want.sum += x;
        want.size += fabs(x);
    }
    double more =
        (s->add ? near_element(e->before, i * cs_columns(e->c) + j) : 0) + (s->bias ? near_element(e->bias, j) : 0);
    return (expected){ want.sum + more, want.size + fabs(more) };
}

/* The bounds of docs/training.md, for k inner indices, as a share of the sum of magnitudes. */
static double bound(int parts, int64_t k)
{
    double sums = (parts == 3 ? 6 : parts == 2 ? 3 : 1) * ceil((double)k / 32);
    return 1.02 * ((parts == 3 ? 19 : 18) + sums) * 0x1p-24 + (parts == 2 ? 1.02 * 0x1p-15 : 0);
}

static void check(const char *what, const example *e)
{
    const shape *s = &e->of;
    int64_t width = cs_columns(e->c), count = s->m * width, step = 1 + count / SAMPLES;
    for (int64_t place = 0; place < count; place += step) {
        int64_t i = place / width, j = place % width;
        double got = near_element(e->c, place);
        if (j >= s->n) { /* beside c */
            ck_assert(got == near_element(e->before, place));
            continue;
        }
        expected want = expect(e, i, j);
        double allowed = want.size * bound(s->parts, s->k) + (s->wide ? 0 : fabs(want.sum) * 0x1p-8);
        ck_assert_msg(fabs(got - want.sum) <= allowed,
                      "%s: %lld x %lld x %lld, %d parts, along %d %d, add %d, wide %d, bias %d: element %lld, %lld is "
                      "%.9g, not %.9g; allowed %g",
                      what, (long long)s->m, (long long)s->n, (long long)s->k, s->parts, s->along_a, s->along_b, s->add,
                      s->wide, s->bias, (long long)i, (long long)j, got, want.sum, allowed);
    }
}

/* Runs case number `how` of CASES. */
static void check_case(int64_t m, int64_t n, int64_t k, int parts, int how)
{
    shape s = { m, n, k, parts, how & 1, how & 2, how & 4, how & 8 || parts > 1, how & 16 };
    s.add = s.add && s.wide;
    example e = make(s);
    run(&e);
    check("product", &e);
    drop(&e);
}

START_TEST(every_edge_is_right)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 },    { 8, 40, 31 },  { 5, 7, 3 },    { 16, 48, 64 },
                                        { 33, 31, 65 }, { 32, 32, 32 }, { 64, 300, 8 }, { 100, 77, 129 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int parts = 1; parts <= CE_TILE_PACK_PARTS; parts++)
            for (int how = 0; how < CASES; how++)
                check_case(sizes[i][0], sizes[i][1], sizes[i][2], parts, how);
}
END_TEST

/* Products larger than a block in one size or more: blocks of rows, groups of panels, bands, parts of the inner
 * dimension. */
START_TEST(every_border_of_blocks_is_right)
{
    static const int64_t sizes[][3] = { { 600, 70, 40 },   { 40, 2100, 33 },  { 33, 300, 1057 }, { 545, 290, 1030 },
                                        { 1060, 40, 800 }, { 600, 2090, 34 }, { 35, 2085, 1100 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int parts = 1; parts <= CE_TILE_PACK_PARTS; parts++)
            for (int how = (int)i; how < CASES; how += 7)
                check_case(sizes[i][0], sizes[i][1], sizes[i][2], parts, how);
}
END_TEST

START_TEST(a_cut_does_not_change_bits)
{
    for (int parts = 1; parts <= CE_TILE_PACK_PARTS; parts++) {
        shape s = { 130, 200, 1100, parts, parts == 2, parts == 3, true, true, true };
        example e = make(s), whole = e;
        whole.c = near_copy(e.c);
        run(&whole);
        for (int64_t i = 0; i < s.m; i += 32)
            for (int64_t j = 0; j < s.n; j += 64)
                run_part(&e, i, s.m - i < 32 ? s.m - i : 32, j, s.n - j < 64 ? s.n - j : 64);
        ck_assert(near_same_bits("in panels", e.c, whole.c));
        near_free(whole.c);
        drop(&e);
    }
}
END_TEST

/* Experts ask for the scratch memory of the largest product that they may have. */
START_TEST(smaller_products_need_no_more_scratch)
{
    static const int64_t sizes[] = { 1, 32, 129, 255, 384, 385, 511, 513, 800, 992, 1024, 1056, 2049, 5000 };
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int parts = 1; parts <= CE_TILE_PACK_PARTS; parts++)
        for (int i = 0; i < SIZES * SIZES * SIZES; i++) {
            int m = i / SIZES / SIZES, n = i / SIZES % SIZES, k = i % SIZES;
            size_t bytes = ce_tile_product_scratch(sizes[m], sizes[n], sizes[k], parts);
            ck_assert(m == 0 || ce_tile_product_scratch(sizes[m - 1], sizes[n], sizes[k], parts) <= bytes);
            ck_assert(n == 0 || ce_tile_product_scratch(sizes[m], sizes[n - 1], sizes[k], parts) <= bytes);
            ck_assert(k == 0 || ce_tile_product_scratch(sizes[m], sizes[n], sizes[k - 1], parts) <= bytes);
        }
}
END_TEST

/* ---- fp32 by parts: the numbers for which it is not like fp32 ---- */

static float product_of(float x, float y, int parts)
{
    shape s = { 1, 1, 1, parts, true, true, false, true, false };
    example e = make(s);
    near_set(e.a, 0, (double)x);
    near_set(e.b, 0, (double)y);
    run(&e);
    float c = *(float *)e.c.data;
    drop(&e);
    return c;
}

START_TEST(large_and_small_factors_are_as_documented)
{
    for (int parts = 2; parts <= CE_TILE_PACK_PARTS; parts++) {
        double tolerance = parts == 3 ? 0x1p-23 : 0x1p-15;
        ck_assert(isnan(product_of(INFINITY, 2, parts)));
        ck_assert(isnan(product_of(3.4e38f, 2, parts))); /* the first part of a factor rounds to infinity */
        ck_assert(isinf(product_of(3e38f, 2, parts)));
        ck_assert(isnan(product_of(NAN, 2, parts)));
        ck_assert(product_of(0, -5, parts) == 0);
        /* from 2^-102 on all parts of a factor are normal numbers */
        for (float x = 0x1.23456p-102f; x < 0x1p100f; x *= 0x1.7p20f) {
            double want = (double)x * (double)0x1.abcdefp10f;
            ck_assert_double_le(fabs((double)product_of(x, 0x1.abcdefp10f, parts) - want), want * tolerance);
        }
        /* below, parts are lost that are less than 2^-126; a denormal factor is 0 */
        double want = 0x1.23456p-120 * 0x1p20;
        ck_assert_double_le(fabs((double)product_of(0x1.23456p-120f, 0x1p20f, parts) - want), want * 0x1p-8);
        ck_assert(product_of(0x1p-127f, 0x1p20f, parts) == 0);
    }
}
END_TEST

/* Random fp32 factors of many magnitudes: six products stay below the bound of sgemm, k 2^-24, from 32 terms on. */
START_TEST(six_products_are_as_exact_as_fp32)
{
    shape s = { 20, 40, 0, 3, true, true, false, true, false };
    for (s.k = 32; s.k <= 4096; s.k *= 2) {
        example e = make(s);
        double worst = 0;
        for (int64_t i = 0; i < cs_count(e.a); i++)
            near_set(e.a, i, draw() * exp2(20 * draw()));
        run(&e);
        for (int64_t i = 0; i < s.m; i++)
            for (int64_t j = 0; j < s.n; j++) {
                expected want = expect(&e, i, j);
                double got = near_element(e.c, i * cs_columns(e.c) + j);
                worst = fmax(worst, fabs(got - want.sum) / want.size);
            }
        ck_assert_double_le(worst, bound(3, s.k));
        ck_assert_double_le(bound(3, s.k), (double)s.k * 0x1p-24);
        printf("x6, %lld terms: error %.1e of the sum of magnitudes; bound %.1e\n", (long long)s.k, worst,
               bound(3, s.k));
        drop(&e);
    }
}
END_TEST

SUITE_MAIN("tile products", every_edge_is_right, every_border_of_blocks_is_right, a_cut_does_not_change_bits,
           smaller_products_need_no_more_scratch, large_and_small_factors_are_as_documented,
           six_products_are_as_exact_as_fp32)
