/* test_cut_random.c - random numbers of tensors that are divided over ranks: dropout of columns, dropout of some heads'
 * probabilities, and first values are those of the whole tensor. */
#include "reference.h"
#include "shares.h"
#include "suite.h"

#include "base/rng.h"
#include "device/device.h"
#include "cspeed/ops.h"

#include <stdlib.h>

static cs_stream *stream;
static uint64_t keys[3]; /* the random keys of the samples */

static cs_dropout dropout_of(float rate, int64_t batch)
{
    for (uint64_t b = 0; b < 3; b++)
        keys[b] = ce_rng_mix(77, b);
    return (cs_dropout){ .rate = rate, .place = 5, .keys = near_at(cs_vector(keys, CS_I64, 3)).data, .batch = batch };
}

/* Compares dropout of the columns [at.first, at.first + at.count) with these columns of `whole` and with the bits that
 * ops.h defines. */
static void check_dropout_of(cs_tensor x, cs_tensor whole, share at, int64_t rows)
{
    int64_t width = cs_columns(x);
    at.room = at.count;
    cs_tensor part = share_columns(x, at), y = near_new(x.dtype, cs_rows(x), at.count), want = share_columns(whole, at);
    double *numbers = near_doubles(part);
    for (int64_t i = 0; i < cs_count(part); i++) {
        int64_t row = i / at.count, column = at.first + i % at.count;
        numbers[i] *= reference_keep(keys[row / rows], 5, (uint64_t)(row % rows * width + column), 0.3f);
    }
    cs_dropout dropout = dropout_of(0.3f, cs_rows(x) / rows);
    dropout.from = at.first, dropout.width = width;
    cs_op_dropout(stream, near_at(y), near_at(part), dropout);
    near_fetch();
    ck_assert(near_all("dropout of columns and loops", y, numbers, 1e-7));
    ck_assert(near_same_bits("dropout of columns", y, want));
    dropout.keys = near_at(cs_vector(keys, CS_I64, 3)).data;
    cs_op_dropout(stream, near_at(part), near_at(part), dropout);
    near_fetch();
    ck_assert(near_same_bits("dropout of columns in place", part, want));
    free(numbers);
    SHARE_FREE(part, y, want);
}

static void check_dropout(cs_stream *given, cs_dtype dtype, int ranks)
{
    stream = given;
    static const int64_t sizes[][3] = { { 3, 1, 1 }, { 2, 7, 9 }, { 3, 65, 129 }, { 2, 3, 5000 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t B = sizes[i][0], rows = sizes[i][1], width = sizes[i][2];
        cs_tensor x = near_random(dtype, B * rows, width, 1, 1), whole = near_new(dtype, B * rows, width);
        cs_op_dropout(stream, near_at(whole), near_at(x), dropout_of(0.3f, B));
        near_fetch();
        for (int rank = 0; rank < ranks; rank++)
            if (share_of(width, rank, ranks).count > 0)
                check_dropout_of(x, whole, share_of(width, rank, ranks), rows);
        if (width > 8) { /* columns that do not begin at a multiple of eight */
            check_dropout_of(x, whole, (share){ 3, 5, 5 }, rows);
            check_dropout_of(x, whole, (share){ 1, width - 1, width - 1 }, rows);
            check_dropout_of(x, whole, (share){ width - 1, 1, 1 }, rows);
        }
        SHARE_FREE(x, whole);
    }
}

START_TEST(dropout_of_columns_counts_in_whole_rows)
{
    share_for_all(check_dropout);
}
END_TEST

typedef struct {
    cs_tensor y, lse, dqkv;
} attention_result;

enum { B = 2, T = 70, H = 6, D = 16 };

static attention_result attend(cs_tensor qkv, cs_tensor dy, int64_t first)
{
    int64_t heads = cs_columns(dy) / D;
    cs_heads given = { .queries = heads, .keys = heads, .first = first };
    attention_result result = { near_new(dy.dtype, B * T, heads * D), near_new(CS_F32, B * heads, T),
                                near_new(dy.dtype, B * T, 3 * heads * D) };
    cs_dropout dropout = dropout_of(0.3f, B);
    cs_op_attention(stream, near_at(result.y), near_at(result.lse), near_at(qkv), given, dropout);
    cs_op_attention_grad(stream, near_at(result.dqkv), near_at(dy), near_at(result.y), near_at(result.lse),
                         near_at(qkv), given, dropout);
    near_fetch();
    return result;
}

/* Copies the columns of some heads: of q, k and v if x has all three. */
static cs_tensor heads_of(cs_tensor x, int64_t first, int64_t heads)
{
    int64_t parts = cs_columns(x) / (H * D), width = heads * D;
    cs_tensor part = near_new(x.dtype, cs_rows(x), parts * width);
    for (int64_t i = 0; i < cs_count(part); i++) {
        int64_t row = i / (parts * width), column = i % (parts * width);
        int64_t from = column / width * H * D + first * D + column % width;
        near_set(part, i, near_element(x, row * cs_columns(x) + from));
    }
    return part;
}

static void check_heads(cs_stream *given, cs_dtype dtype, int ranks)
{
    stream = given;
    cs_tensor qkv = near_random(dtype, B * T, 3 * H * D, 1, 1), dy = near_random(dtype, B * T, H * D, 2, 1);
    attention_result whole = attend(qkv, dy, 0);
    for (int64_t heads = H / ranks, first = 0; first < H; first += heads) {
        cs_tensor part = heads_of(qkv, first, heads), dpart = heads_of(dy, first, heads);
        cs_tensor y = heads_of(whole.y, first, heads), dqkv = heads_of(whole.dqkv, first, heads);
        attention_result own = attend(part, dpart, first);
        ck_assert(near_same_bits("attention of some heads", own.y, y));
        ck_assert(near_same_bits("attention_grad of some heads", own.dqkv, dqkv));
        SHARE_FREE(part, dpart, y, dqkv, own.y, own.lse, own.dqkv);
    }
    SHARE_FREE(qkv, dy, whole.y, whole.lse, whole.dqkv);
}

START_TEST(dropout_of_attention_counts_all_heads)
{
    share_for_all(check_heads);
}
END_TEST

static void check_first_values(cs_init init, ce_state_places places, int64_t count, cs_tensor whole)
{
    cs_tensor part = near_new(CS_F32, 1, count), want = near_new(CS_F32, 1, count);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = places.run ? i / places.run * places.stride + i % places.run : i;
        near_set(want, i, near_element(whole, places.from + at));
    }
    ce_state_init(stream, near_at(part).data, init, 9, places, count);
    near_fetch();
    ck_assert(near_same_bits("first values of a part", part, want));
    SHARE_FREE(part, want);
}

START_TEST(first_values_are_those_of_the_whole_parameter)
{
    enum { ROWS = 301, WIDTH = 60 };
    static const cs_init inits[] = { { CS_ZEROS, 0 }, { CS_ONES, 0 }, { CS_NORMAL, 0.02f }, { CS_UNIFORM, 0.5f } };
    static const int64_t cuts[][2] = { { 0, 60 }, { 0, 20 }, { 20, 20 }, { 40, 20 }, { 0, 31 }, { 31, 29 }, { 59, 1 } };
    for (int threads = 1; threads <= near_threads(SHARE_THREADS); threads++) {
        stream = ce_device_stream(near_open(threads), CE_COMPUTE);
        for (int i = 0; i < 4; i++) {
            cs_tensor whole = near_new(CS_F32, ROWS, WIDTH);
            ce_state_init(stream, near_at(whole).data, inits[i], 9, (ce_state_places){ 0 }, ROWS * WIDTH);
            near_fetch();
            for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
                ce_state_places places = { cuts[k][0], cuts[k][1], WIDTH };
                check_first_values(inits[i], places, ROWS * cuts[k][1], whole);
                places.from += 7 * WIDTH; /* from the eighth row on, and not to the end of a row */
                check_first_values(inits[i], places, 200 * cuts[k][1] + cuts[k][1] / 2, whole);
            }
            check_first_values(inits[i], (ce_state_places){ .from = 1003 }, 5001, whole);
            near_free(whole);
        }
        near_close();
    }
}
END_TEST

SUITE_MAIN("cut_random", dropout_of_columns_counts_in_whole_rows, dropout_of_attention_counts_all_heads,
           first_values_are_those_of_the_whole_parameter)
