/* test_heads.c - attention compared with plain loops in double precision, and dropout: its rate, its random bits for
 * each dropout of the model, its independence of the batch. */
#include "near.h"
#include "reference.h"
#include "suite.h"

#include "base/rng.h"
#include "device/device.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>

static cs_stream *stream;
static uint64_t keys[4]; /* each sample's key for the random numbers of dropout */

static void open_device(int threads)
{
    for (uint64_t b = 0; b < 4; b++)
        keys[b] = ce_rng_mix(77, b);
    stream = ce_device_stream(near_open(threads), CE_COMPUTE);
}

static cs_dropout dropout_of(float rate, int B)
{
    return (cs_dropout){ .rate = rate, .place = 5, .keys = near_at(cs_vector(keys, CS_I64, 4)).data, .batch = B };
}

/* Packs documents of varying length into samples; the borders differ between samples. */
static cs_tensor packed(int B, int T, int max)
{
    cs_tensor starts = near_new(CS_I32, B, T);
    int32_t *start = starts.data;
    for (int b = 0; b < B; b++)
        for (int t = 1, length = max - b; t < T; t++) {
            start[b * T + t] = t - start[b * T + t - 1] == length ? t : start[b * T + t - 1];
            if (start[b * T + t] == t)
                length = 1 + length * 5 % max;
        }
    return starts;
}

static cs_heads heads_of(int H, cs_tensor starts)
{
    return (cs_heads){ .queries = H, .keys = H, .starts = near_at(starts) };
}

/* `documents`: length of the longest document that is packed into a sample; 0: samples are not packed. */
typedef struct {
    int B, T, H, D, documents;
    float rate;
} attention_case;

static void check_attention(cs_dtype dtype, attention_case given)
{
    int B = given.B, T = given.T, H = given.H, D = given.D;
    cs_tensor starts = given.documents ? packed(B, T, given.documents) : (cs_tensor){ 0 };
    int C = H * D;
    reference_heads shape = { B, T, H, D, given.rate, 5, keys, starts.data, 0 };
    cs_tensor qkv = near_random(dtype, B * T, 3 * C, 1, 1), dy = near_random(dtype, B * T, C, 2, 1);
    cs_tensor y = near_new(dtype, B * T, C), lse = near_new(CS_F32, B * H, T), dqkv = near_new(dtype, B * T, 3 * C);
    cs_op_attention(stream, near_at(y), near_at(lse), near_at(qkv), heads_of(H, starts), dropout_of(given.rate, B));
    near_fetch();
    double *x = near_doubles(qkv), *ny = near_doubles(dy), *want = near_doubles(qkv), *want_lse = near_doubles(lse);
    reference_attention(want, want_lse, x, shape);
    ck_assert(near_all("attention", y, want, 3e-6));
    ck_assert(near_all("attention lse", lse, want_lse, 1e-6));
    for (int i = 0; i < B * T * C; i++) /* so that the rounding of y does not count as an error of backward */
        near_set(y, i, want[i]);
    cs_op_attention_grad(stream, near_at(dqkv), near_at(dy), near_at(y), near_at(lse), near_at(qkv),
                         heads_of(H, starts), dropout_of(given.rate, B));
    near_fetch();
    reference_attention_grad(want, ny, x, shape);
    ck_assert(near_all("attention_grad", dqkv, want, dtype == CS_F32 ? 5e-6 : dtype == CS_F16 ? 5e-4 : 4e-3));
    cs_tensor again = near_new(dtype, B * T, 3 * C);
    cs_op_attention_grad(stream, near_at(again), near_at(dy), near_at(y), near_at(lse), near_at(qkv),
                         heads_of(H, starts), dropout_of(given.rate, B));
    near_fetch();
    ck_assert(near_same_bits("attention_grad again", again, dqkv));
    free(x), free(ny), free(want), free(want_lse);
    near_free(qkv), near_free(dy), near_free(y), near_free(lse), near_free(dqkv), near_free(again);
    if (starts.data)
        near_free(starts);
}

START_TEST(attention_attends)
{
    static const attention_case sizes[] = {
        { 1, 1, 1, 1, 0, 0 },    { 2, 3, 2, 5, 0, 0 },    { 1, 63, 3, 16, 0, 0 },    { 1, 64, 1, 64, 0, 0 },
        { 3, 65, 2, 24, 0, 0 },  { 2, 129, 2, 64, 0, 0 }, { 1, 200, 1, 33, 0, 0 },   { 2, 3, 2, 5, 1, 0 },
        { 3, 65, 2, 24, 64, 0 }, { 2, 129, 2, 64, 7, 0 }, { 2, 330, 1, 33, 150, 0 }, { 1, 200, 2, 8, 199, 0 },
    };
    for (int threads = 1; threads <= near_threads(3); threads++) {
        open_device(threads);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
                for (int drop = 0; drop < 2; drop++) {
                    attention_case given = sizes[i];
                    given.rate = drop ? 0.3f : 0;
                    check_attention((cs_dtype)dtype, given);
                }
        near_close();
    }
}
END_TEST

START_TEST(large_scores_do_not_overflow)
{
    open_device(1);
    cs_tensor qkv = near_random(CS_F32, 70, 3 * 64, 1, 40), y = near_new(CS_F32, 70, 64), lse = near_new(CS_F32, 1, 70);
    cs_op_attention(stream, near_at(y), near_at(lse), near_at(qkv), (cs_heads){ .queries = 1, .keys = 1 },
                    dropout_of(0, 1));
    near_fetch();
    int finite = 0;
    for (int i = 0; i < 70 * 64; i++)
        finite += isfinite(near_element(y, i)) != 0;
    ck_assert_int_eq(finite, 70 * 64);
    near_set(qkv, 3 * 64 * 10, NAN); /* the query of row 10, which no other row uses */
    cs_op_attention(stream, near_at(y), near_at(lse), near_at(qkv), (cs_heads){ .queries = 1, .keys = 1 },
                    dropout_of(0, 1));
    near_fetch();
    for (int row = 0; row < 70; row++)
        ck_assert_msg(isnan(near_element(y, 64 * row)) == (row == 10), "row %d", row);
    near_free(qkv), near_free(y), near_free(lse);
    near_close();
}
END_TEST

static void check_dropout(cs_dtype dtype, int B, int rows, int columns, float rate)
{
    cs_tensor x = near_random(dtype, B * rows, columns, 1, 1), a = near_random(dtype, B * rows, columns, 2, 1);
    cs_tensor y = near_new(dtype, B * rows, columns), sum = near_new(dtype, B * rows, columns);
    double *want = near_doubles(x), *want_sum = near_doubles(a);
    int64_t sample = rows * columns;
    for (int64_t i = 0; i < B * sample; i++) {
        want[i] *= reference_keep(keys[i / sample], 5, (uint64_t)(i % sample), rate);
        want_sum[i] += want[i];
    }
    cs_op_dropout(stream, near_at(y), near_at(x), dropout_of(rate, B));
    cs_op_add_dropout(stream, near_at(sum), near_at(a), near_at(x), dropout_of(rate, B));
    near_fetch();
    ck_assert(near_all("dropout", y, want, 1e-7));
    ck_assert(near_all("add_dropout", sum, want_sum, 1e-7));
    cs_op_add_dropout(stream, near_at(a), near_at(a), near_at(x), dropout_of(rate, B));
    cs_op_dropout(stream, near_at(x), near_at(x), dropout_of(rate, B));
    near_fetch();
    ck_assert(near_same_bits("dropout in place", x, y));
    ck_assert(near_same_bits("add_dropout in place", a, sum));
    free(want), free(want_sum);
    near_free(x), near_free(a), near_free(y), near_free(sum);
}

START_TEST(dropout_follows_its_bits)
{
    for (int threads = 1; threads <= near_threads(3); threads++) {
        open_device(threads);
        for (int dtype = CS_F32; dtype <= CS_F16; dtype++) {
            check_dropout((cs_dtype)dtype, 1, 1, 1, 0.5f);
            check_dropout((cs_dtype)dtype, 3, 7, 9, 0.1f);
            check_dropout((cs_dtype)dtype, 4, 65, 129, 0.1f);
            check_dropout((cs_dtype)dtype, 2, 3, 5000, 0);
        }
        near_close();
    }
}
END_TEST

START_TEST(dropout_keeps_the_stated_share_and_knows_no_batch)
{
    enum { COUNT = 200000 };
    open_device(2);
    cs_tensor x = near_new(CS_F32, 3, COUNT), y = near_new(CS_F32, 3, COUNT), single = near_new(CS_F32, 1, COUNT);
    cs_op_fill(stream, near_at(x), 1);
    cs_op_dropout(stream, near_at(y), near_at(x), dropout_of(0.2f, 3));
    near_fetch();
    int64_t kept = 0, same = 0;
    for (int64_t i = 0; i < 3 * COUNT; i++)
        kept += near_element(y, i) != 0;
    ck_assert_double_eq_tol((double)kept / (3 * COUNT), 0.8, 4 * sqrt(0.2 * 0.8 / (3 * COUNT)));
    for (int64_t i = 0; i < COUNT; i++)
        same += (near_element(y, i) != 0) == (near_element(y, COUNT + i) != 0);
    ck_assert_double_eq_tol((double)same / COUNT, 0.8 * 0.8 + 0.2 * 0.2, 4 * sqrt(0.68 * 0.32 / COUNT));
    cs_dropout last = dropout_of(0.2f, 1); /* a batch that consists of the third sample */
    last.keys += 2;
    cs_op_dropout(stream, near_at(single), near_at(cs_matrix(x.data, CS_F32, 1, COUNT)), last);
    near_fetch();
    ck_assert(near_same_bits("one sample", single, cs_matrix((float *)y.data + 2 * COUNT, CS_F32, 1, COUNT)));
    last = dropout_of(0.2f, 1);
    last.keys += 2;
    last.place = 6;
    cs_op_dropout(stream, near_at(single), near_at(cs_matrix(x.data, CS_F32, 1, COUNT)), last);
    near_fetch();
    same = 0;
    for (int64_t i = 0; i < COUNT; i++)
        same += (near_element(single, i) != 0) == (near_element(y, 2 * COUNT + i) != 0);
    ck_assert_double_eq_tol((double)same / COUNT, 0.68, 4 * sqrt(0.68 * 0.32 / COUNT));
    near_free(x), near_free(y), near_free(single);
    near_close();
}
END_TEST

SUITE_MAIN("heads", attention_attends, large_scores_do_not_overflow, dropout_follows_its_bits,
           dropout_keeps_the_stated_share_and_knows_no_batch)
