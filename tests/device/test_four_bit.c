/* test_four_bit.c - 4-bit weights: codes and factors are those of bitsandbytes; the device computes their values from any
 * row and column on; products with some columns of a result write these columns only. */
#include "golden.h"
#include "near.h"
#include "reference.h"
#include "suite.h"

#include "base/four_bit.h"
#include "base/range.h"
#include "device/device.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 160, COLUMNS = 128, COUNT = ROWS * COLUMNS, BLOCKS = COUNT / CE_FOUR_BIT_BLOCK, GROUPS = 2 };

static cs_stream *stream;

/* The numbers of tests/golden/make_four_bit.py. */
static float number(int64_t i)
{
    return (float)(i * 40503 % 65536 - 32768) / 65536 * ((float)(1 + i / 64 * 37 % 101) / 64);
}

typedef struct {
    uint8_t codes[COUNT / 2], absmax[BLOCKS];
    float single[BLOCKS], nested[GROUPS + 1];
} weight;

static void quantise(weight *w, ce_four_bit_type type)
{
    float block[CE_FOUR_BIT_BLOCK];
    for (int64_t b = 0; b < BLOCKS; b++) {
        for (int64_t i = 0; i < CE_FOUR_BIT_BLOCK; i++)
            block[i] = number(b * CE_FOUR_BIT_BLOCK + i);
        w->single[b] = ce_four_bit_encode(w->codes + b * CE_FOUR_BIT_BLOCK / 2, block, CE_FOUR_BIT_BLOCK, type);
    }
    ce_four_bit_encode_absmax(w->absmax, w->nested, w->single, BLOCKS);
}

static const void *expected(const golden *file, ce_four_bit_type type, const char *what)
{
    char name[32];
    snprintf(name, sizeof name, "%s.%s", ce_four_bit_names[type], what);
    return golden_tensor(file, name).data;
}

START_TEST(bytes_are_bitsandbytes)
{
    weight w;
    golden *file = golden_open(CS_SOURCE "/tests/golden/four_bit.golden");
    ck_assert_mem_eq(ce_four_bit_scales(), golden_tensor(file, "scales").data, 256 * sizeof(float));
    for (int type = CE_NF4; type < CE_FOUR_BIT_TYPES; type++) {
        quantise(&w, (ce_four_bit_type)type);
        const float *nested = expected(file, (ce_four_bit_type)type, "nested");
        const float *offset = expected(file, (ce_four_bit_type)type, "offset");
        const float *values = expected(file, (ce_four_bit_type)type, "values");
        const uint8_t *codes = expected(file, (ce_four_bit_type)type, "codes");
        for (int64_t i = 0; i < COUNT; i++) { /* in FP4 bitsandbytes has a negative zero too, code 8 */
            int shift = i % 2 ? 0 : 4, own = w.codes[i / 2] >> shift & 15, other = codes[i / 2] >> shift & 15;
            ck_assert_int_eq(own, type == CE_FP4 && other == 8 ? 0 : other);
        }
        ck_assert_mem_eq(w.absmax, expected(file, (ce_four_bit_type)type, "absmax"), BLOCKS);
        for (int i = 0; i < GROUPS; i++)
            ck_assert_double_le(fabs((double)(w.nested[i] - nested[i])), 1e-6);
        ck_assert_double_le(fabs((double)(w.nested[GROUPS] - *offset)), 1e-6);
        for (int i = 0; i < 8 * COLUMNS; i++)
            ck_assert_double_le(fabs((double)(values[i] - ce_four_bit_value(w.codes, i, (ce_four_bit_type)type) *
                                                              ce_four_bit_absmax(w.absmax, w.nested, i / 64, BLOCKS))),
                                1e-6);
    }
    golden_close(file);
}
END_TEST

/* Compares some rows and columns on the device with the values one by one. */
static void check_box(const weight *w, ce_four_bit_type type, bool twice, cs_dtype dtype, const int64_t box[4],
                      const cs_four_bit *given)
{
    cs_four_bit here = *given, *matrix = &here;
    here.codes = near_at(cs_vector((void *)(uintptr_t)given->codes, CS_I32, COUNT / 8)).data;
    here.absmax = near_at(cs_vector((void *)(uintptr_t)given->absmax, CS_F32, BLOCKS)).data;
    if (twice)
        here.nested = near_at(cs_vector((void *)(uintptr_t)given->nested, CS_F32, GROUPS + 1)).data;
    cs_tensor y = near_new(dtype, box[1] - box[0], box[3] - box[2]), one = near_new(dtype, 1, 1);
    cs_op_dequantize(stream, near_at(y), matrix, box[0], box[2]);
    near_fetch();
    for (int64_t i = 0; i < cs_count(y); i++) {
        int64_t row = box[0] + i / cs_columns(y), column = box[2] + i % cs_columns(y),
                at = row * matrix->columns + column;
        float absmax = twice ? ce_four_bit_absmax(w->absmax, w->nested, at / 64, BLOCKS) : w->single[at / 64];
        near_set(one, 0, ce_four_bit_value(w->codes, at, type) * absmax);
        ck_assert_double_eq(near_element(y, i), near_element(one, 0));
    }
    near_free(y);
    near_free(one);
}

static void check_boxes(int64_t rows, int64_t columns, ce_four_bit_type type, bool twice)
{
    const int64_t boxes[][4] = { { 0, rows, 0, columns }, { 3, 5, 0, columns }, { 1, rows, 7, 90 }, { 2, 3, 64, 65 } };
    weight w;
    quantise(&w, type);
    cs_tensor codes = near_new(CS_I32, 1, COUNT / 8), absmax = near_new(CS_F32, 1, BLOCKS);
    cs_tensor nested = near_new(CS_F32, 1, GROUPS + 1);
    memcpy(codes.data, w.codes, sizeof w.codes);
    memcpy(nested.data, w.nested, sizeof w.nested);
    memcpy(absmax.data, twice ? (const void *)w.absmax : w.single, twice ? sizeof w.absmax : sizeof w.single);
    cs_four_bit matrix = { rows, columns, codes.data, absmax.data, twice ? nested.data : NULL, type == CE_FP4 };
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++)
        for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
            check_box(&w, type, twice, (cs_dtype)dtype, boxes[i], &matrix);
    near_free(codes);
    near_free(absmax);
    near_free(nested);
}

START_TEST(boxes_have_the_values)
{
    stream = ce_device_stream(near_open(near_threads(2)), CE_COMPUTE);
    check_boxes(ROWS, COLUMNS, CE_NF4, true);
    check_boxes(ROWS, COLUMNS, CE_FP4, false);
    check_boxes(128, 160, CE_NF4, false);
    check_boxes(200, 102, CE_NF4, true); /* blocks that continue in the next row */
    near_close();
}
END_TEST

static void check_columns(cs_dtype dtype, int64_t rows)
{
    enum { K = 70, M = 48, WIDE = 100, FIRST = 20 };
    cs_tensor x = near_random(dtype, rows, K, 1, 1), w = near_random(dtype, M, K, 2, 1);
    cs_tensor y = near_random(dtype, rows, WIDE, 3, 1), before = near_copy(y), plain = near_new(dtype, rows, M);
    cs_tensor bias = near_random(dtype, 1, M, 4, 1);
    cs_tensor dx = near_random(dtype, rows, WIDE, 5, 1), dx_before = near_copy(dx), dx_plain = near_new(dtype, rows, K);
    cs_tensor dy = near_random(dtype, rows, M, 6, 1);
    cs_tensor b = near_at(bias);
    cs_op_matmul_columns(stream, near_at(y), FIRST, near_at(x), near_at(w), cs_vector(b.data, dtype, M), CS_OUT_IN);
    cs_op_matmul(stream, near_at(plain), near_at(x), near_at(w), cs_vector(b.data, dtype, M), CS_OUT_IN);
    cs_op_matmul_grad_input_columns(stream, near_at(dx), FIRST, near_at(dy), near_at(w), CS_OUT_IN);
    cs_op_matmul_grad_input(stream, near_at(dx_plain), near_at(dy), near_at(w), CS_OUT_IN);
    near_fetch();
    for (int64_t i = 0; i < rows * WIDE; i++) {
        int64_t row = i / WIDE, column = i % WIDE - FIRST;
        double bound = dtype == CS_F32 ? 1e-5 : 0.3;
        if (column < 0 || column >= M)
            ck_assert_double_eq(near_element(y, i), near_element(before, i));
        else
            ck_assert_double_le(fabs(near_element(y, i) - near_element(plain, row * M + column)), bound);
        if (column < 0 || column >= K)
            ck_assert_double_eq(near_element(dx, i), near_element(dx_before, i));
        else
            ck_assert_double_le(fabs(near_element(dx, i) - near_element(dx_plain, row * K + column)), bound);
    }
    const cs_tensor all[] = { x, w, y, before, plain, bias, dx, dx_before, dx_plain, dy };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        near_free(all[i]);
}

START_TEST(products_write_their_columns)
{
    stream = ce_device_stream(near_open(near_threads(2)), CE_COMPUTE);
    for (int dtype = CS_F32; dtype <= CS_F16; dtype++) {
        check_columns((cs_dtype)dtype, 3);
        check_columns((cs_dtype)dtype, 150);
    }
    near_close();
}
END_TEST

SUITE_MAIN("four_bit", bytes_are_bitsandbytes, boxes_have_the_values, products_write_their_columns)
