/* test_flash.c - attention (forward, backward, and with a key-value cache) with shared heads, windows and packed
 * documents, at the tile borders of a GPU, compared with plain loops in double precision. */
#include "near.h"
#include "reference.h"
#include "suite.h"

#include "base/log.h"
#include "base/rng.h"
#include "cspeed/ops.h"
#include "device/products.h"
#include "device/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static cs_device *device;
static cs_stream *stream;
static ce_isa chosen;    /* the set of instructions with which the device was opened */
static uint64_t keys[4]; /* each sample's key for the random numbers of dropout */

static void open_threads(int threads)
{
    for (uint64_t b = 0; b < 4; b++)
        keys[b] = ce_rng_mix(77, b);
    device = near_open(threads);
    chosen = device->isa;
    stream = ce_device_stream(device, CE_COMPUTE);
}

static void open_device(void)
{
    open_threads(1);
}

/* The ways to compute: in one of the three types, or in bf16 with native products if this CPU has them. TILES: the
 * attention multiplies in the tile registers of AMX, or in their model (tiles.h) if this CPU has no AMX. */
enum { NATIVE = CS_F16 + 1, TILES, WAYS };

/* Prepares the device for the way `way` of computing, and sets *dtype to the type of this way. Returns false if the
 * device lacks native products and `way` needs them. */
static bool set_way(int way, cs_dtype *dtype)
{
    bool native = way >= NATIVE;
    *dtype = native ? CS_BF16 : (cs_dtype)way;
    if (native &&
        (!(ce_device_methods(device, CS_BF16, false) & 1u << CE_METHOD_NATIVE) || chosen < CE_ISA_AVX512_BF16))
        return false;
    device->isa = way == TILES ? CE_ISA_AMX : way == NATIVE ? CE_ISA_AVX512_BF16 : chosen;
    ce_device_use_products(device, &(ce_product_choice){ .dtype = *dtype,
                                                         .others = native ? CE_METHOD_NATIVE : CE_METHOD_FIXED });
    return true;
}

static void fill_bytes(cs_tensor x, int byte)
{
    memset(x.data, byte, (size_t)cs_count(x) * cs_dtype_bytes(x.dtype));
}

/* ---- shapes ---- */

/* `documents`: length of the longest document that is packed into a sample; 0: samples are not packed. `cap`: cap of
 * the scores; 0: no cap. */
typedef struct {
    int B, T, queries, keys, D, window, documents;
    float rate, cap;
} attention_case;

/* Packs documents of varying length; the borders differ between samples. */
static cs_tensor packed(attention_case given)
{
    if (!given.documents)
        return (cs_tensor){ 0 };
    cs_tensor starts = near_new(CS_I32, given.B, given.T);
    for (int b = 0; b < given.B; b++) {
        int32_t *start = (int32_t *)starts.data + b * given.T;
        for (int t = 1, length = given.documents - b; t < given.T; t++) {
            bool fresh = t - start[t - 1] >= length;
            start[t] = fresh ? t : start[t - 1];
            length = fresh ? 1 + length * 5 % given.documents : length;
        }
    }
    return starts;
}

/* Returns the first row that each row sees, from the window and the documents. The caller frees the array. */
static int32_t *firsts(attention_case given, cs_tensor starts)
{
    int32_t *first = malloc((size_t)(given.B * given.T) * sizeof *first);
    ck_assert_ptr_nonnull(first);
    for (int i = 0; i < given.B * given.T; i++) {
        int begin = starts.data ? ((int32_t *)starts.data)[i] : 0, t = i % given.T;
        first[i] = given.window && t - given.window + 1 > begin ? t - given.window + 1 : begin;
    }
    return first;
}

/* Returns an index of a column in a row q | k | v. In the expanded row, which has one key head for each query head,
 * this column is copied to `column`. `expand` copies to expanded rows; `reduce` adds gradients of expanded rows to
 * gradients of rows q | k | v. */
static int expanded_column(attention_case given, int column)
{
    int part = column / given.D, group = given.queries / given.keys;
    if (part >= given.queries)
        part = given.queries + (part / given.queries - 1) * given.keys + part % given.queries / group;
    return part * given.D + column % given.D;
}

static double *expand(attention_case given, const double *qkv)
{
    int narrow = (given.queries + 2 * given.keys) * given.D, wide = 3 * given.queries * given.D;
    double *all = malloc((size_t)(given.B * given.T * wide) * sizeof *all);
    ck_assert_ptr_nonnull(all);
    for (int i = 0; i < given.B * given.T * wide; i++)
        all[i] = qkv[i / wide * narrow + expanded_column(given, i % wide)];
    return all;
}

static void reduce(attention_case given, double *qkv, const double *all)
{
    int narrow = (given.queries + 2 * given.keys) * given.D, wide = 3 * given.queries * given.D;
    memset(qkv, 0, (size_t)(given.B * given.T * narrow) * sizeof *qkv);
    for (int i = 0; i < given.B * given.T * wide; i++)
        qkv[i / wide * narrow + expanded_column(given, i % wide)] += all[i];
}

/* ---- attention of training ---- */

static const double tolerance[] = { [CS_F32] = 3e-6, [CS_BF16] = 5e-3, [CS_F16] = 1e-3 };

static cs_heads heads_of(attention_case given, cs_tensor starts)
{
    return (cs_heads){ .queries = given.queries,
                       .keys = given.keys,
                       .window = given.window,
                       .starts = near_at(starts),
                       .cap = given.cap };
}

static cs_dropout dropout_of(attention_case given)
{
    return (cs_dropout){
        .rate = given.rate, .place = 5, .keys = near_at(cs_vector(keys, CS_I64, 4)).data, .batch = given.B
    };
}

static void run(cs_tensor y, cs_tensor lse, cs_tensor qkv, attention_case given, cs_tensor starts)
{
    cs_op_attention(stream, near_at(y), near_at(lse), near_at(qkv), heads_of(given, starts), dropout_of(given));
    near_fetch();
}

static void run_grad(cs_tensor dqkv, cs_tensor dy, cs_tensor y, cs_tensor lse, cs_tensor qkv, attention_case given,
                     cs_tensor starts)
{
    cs_op_attention_grad(stream, near_at(dqkv), near_at(dy), near_at(y), near_at(lse), near_at(qkv),
                         heads_of(given, starts), dropout_of(given));
    near_fetch();
}

static void check_attention(cs_dtype dtype, attention_case given)
{
    int B = given.B, T = given.T, H = given.queries, D = given.D, C = H * D, W = C + 2 * given.keys * D;
    cs_tensor starts = packed(given);
    int32_t *first = firsts(given, starts);
    reference_heads shape = { B, T, H, D, given.rate, 5, keys, first, (double)given.cap };

    cs_tensor qkv = near_random(dtype, B * T, W, 1, 1), dy = near_random(dtype, B * T, C, 2, 1);
    cs_tensor y = near_new(dtype, B * T, C), lse = near_new(CS_F32, B * H, T), dqkv = near_new(dtype, B * T, W);
    fill_bytes(y, 0xff), fill_bytes(lse, 0xff), fill_bytes(dqkv, 0xff);
    double *x = near_doubles(qkv), *all = expand(given, x), *ny = near_doubles(dy);
    double *want = near_doubles(y), *want_lse = near_doubles(lse), *want_all = near_doubles(qkv);
    want_all = realloc(want_all, (size_t)(B * T * 3 * C) * sizeof *want_all);
    ck_assert_ptr_nonnull(want_all);

    run(y, lse, qkv, given, starts);
    reference_attention(want, want_lse, all, shape);
    ck_assert(near_all("attention", y, want, tolerance[dtype]));
    ck_assert(near_all("attention lse", lse, want_lse, 3e-6));

    for (int i = 0; i < B * T * C; i++) /* so that the rounding of y does not count as an error of backward */
        near_set(y, i, want[i]);
    run_grad(dqkv, dy, y, lse, qkv, given, starts);
    reference_attention_grad(want_all, ny, all, shape);
    reduce(given, x, want_all);
    ck_assert(near_all("attention_grad", dqkv, x, 2 * tolerance[dtype]));
    cs_tensor again = near_new(dtype, B * T, W);
    run_grad(again, dy, y, lse, qkv, given, starts);
    ck_assert(near_same_bits("attention_grad again", again, dqkv));

    free(x), free(all), free(ny), free(want), free(want_lse), free(want_all), free(first);
    near_free(qkv), near_free(dy), near_free(y), near_free(lse), near_free(dqkv), near_free(again);
    if (starts.data)
        near_free(starts);
}

START_TEST(attention_attends)
{
    static const attention_case sizes[] = {
        { 1, 1, 1, 1, 64, 0, 0, 0, 0 },
        { 2, 3, 2, 2, 5, 0, 0, 0.3f, 0 },
        { 1, 64, 2, 1, 16, 0, 0, 0.3f, 0 },
        { 1, 130, 4, 2, 64, 0, 0, 0.3f, 0 },
        { 1, 150, 1, 1, 64, 70, 0, 0, 0 },
        { 2, 70, 3, 1, 80, 7, 0, 0.3f, 0 },
        { 1, 97, 2, 1, 96, 0, 33, 0, 0 },
        { 1, 140, 2, 1, 128, 0, 64, 0, 0 },
        { 1, 100, 1, 1, 128, 33, 0, 0.3f, 0 },
        { 2, 90, 2, 2, 40, 20, 32, 0, 0 },
        { 1, 66, 1, 1, 136, 0, 0, 0, 0 },
        { 1, 190, 1, 1, 8, 0, 128, 0, 0 },
        { 1, 385, 2, 1, 64, 0, 0, 0.3f, 0 },
        { 1, 300, 2, 2, 80, 5, 0, 0, 0 },
        { 1, 301, 1, 1, 33, 150, 0, 0.3f, 0 },
        { 2, 289, 1, 1, 128, 0, 99, 0, 0 },
        { 1, 240, 2, 1, 17, 100, 7, 0, 0 },
        { 1, 96, 1, 1, 64, 0, 0, 0.999f, 0 },
        { 2, 70, 2, 1, 64, 0, 0, 0.3f, 0.7f },
        { 1, 150, 4, 2, 24, 70, 0, 0, 1.5f },
        { 1, 97, 2, 1, 80, 0, 33, 0.3f, 0.5f },
        { 1, 140, 2, 2, 96, 7, 0, 0, 1 },
        { 1, 130, 2, 1, 128, 40, 64, 0.3f, 0.8f },
        { 2, 90, 2, 1, 33, 20, 32, 0.3f, 0.6f },
        { 1, 66, 1, 1, 136, 0, 0, 0, 0.9f },
        { 1, 100, 2, 1, 40, 0, 0, 0, 1e6f },
        { 1, 100, 1, 1, 64, 0, 0, 0, 0.01f },
        { 1, 70, 2, 1, 256, 0, 0, 0.3f, 0 },
        { 1, 97, 1, 1, 256, 33, 0, 0, 0 },
        { 2, 75, 2, 1, 160, 40, 20, 0.3f, 0 },
        { 1, 70, 2, 1, 256, 20, 32, 0.3f, 0.8f },
        { 2, 49, 2, 2, 160, 0, 0, 0, 0.6f },
        { 1, 33, 2, 1, 260, 0, 0, 0.3f, 0.5f },
        { 1, 20, 1, 1, 264, 0, 0, 0, 0 },
        { 1, 530, 2, 1, 64, 300, 0, 0.2f, 0 },
        { 1, 520, 1, 1, 40, 0, 130, 0, 0.7f },
    };
    cs_dtype dtype;
    open_device();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int way = CS_F32; way < WAYS; way++)
            if (set_way(way, &dtype))
                check_attention(dtype, sizes[i]);
    near_close();
}
END_TEST

/* Shapes without a window, documents and dropout, which cuDNN may compute on a GPU in 16 bits: several samples, shared
 * key heads, and many tiles of rows. */
START_TEST(shapes_of_cudnn_attend)
{
    static const attention_case sizes[] = { { 3, 128, 6, 6, 64, 0, 0, 0, 0 },
                                            { 2, 256, 4, 2, 64, 0, 0, 0, 0 },
                                            { 1, 1024, 4, 1, 128, 0, 0, 0, 0 } };
    int count = near_is_cpu() ? 2 : near_counts() ? 1 : 3; /* only a real GPU computes the larger ones in seconds */
    open_device();
    for (int i = 0; i < count; i++)
        for (int dtype = CS_BF16; dtype <= CS_F16; dtype++)
            check_attention((cs_dtype)dtype, sizes[i]);
    near_close();
}
END_TEST

/* Computes y and dqkv on a device with this number of threads, and returns whether the device has the way `way`. */
static bool run_with_threads(int threads, int way, attention_case given, cs_tensor results[3])
{
    int rows = given.B * given.T, C = given.queries * given.D, W = C + 2 * given.keys * given.D;
    cs_dtype dtype;
    open_threads(threads);
    bool has = set_way(way, &dtype);
    if (has) {
        cs_tensor qkv = near_random(dtype, rows, W, 1, 1), dy = near_random(dtype, rows, C, 2, 1);
        results[0] = near_new(dtype, rows, C), results[1] = near_new(CS_F32, given.B * given.queries, given.T);
        results[2] = near_new(dtype, rows, W);
        run(results[0], results[1], qkv, given, (cs_tensor){ 0 });
        run_grad(results[2], dy, results[0], results[1], qkv, given, (cs_tensor){ 0 });
        near_free(qkv), near_free(dy);
    }
    near_close();
    return has;
}

START_TEST(threads_do_not_change_bits)
{
    attention_case given = { .B = 2, .T = 270, .queries = 4, .keys = 2, .D = 64, .window = 200, .rate = 0.2f };
    for (int way = CS_F32; way < WAYS; way++) {
        cs_tensor one[3], more[3];
        if (!run_with_threads(1, way, given, one) || !run_with_threads(near_threads(3), way, given, more))
            continue;
        for (int i = 0; i < 3; i++) {
            ck_assert(near_same_bits("more threads", more[i], one[i]));
            near_free(one[i]), near_free(more[i]);
        }
    }
}
END_TEST

static cs_tensor sample_of(cs_tensor x, int sample, int samples)
{
    x.shape[0] /= samples;
    x.data = (char *)x.data + (size_t)(sample * cs_count(x)) * cs_dtype_bytes(x.dtype);
    return x;
}

/* If cuDNN's workspace for all samples is too large, backward is computed in pieces. Each sample must have the bits
 * that it has alone. On a real GPU the workspace of all samples is 3 GiB, more than its limit of 2 GiB; the emulated
 * GPU has little memory in this test. The log says in how many pieces cuDNN computes. */
START_TEST(samples_in_pieces_have_the_bits_of_each_alone)
{
    bool small = near_is_cpu() || near_counts();
    attention_case given = { .B = 3, .T = small ? 130 : 16384, .queries = 2, .keys = 2, .D = small ? 16 : 64 };
    int rows = given.B * given.T, C = given.queries * given.D;
    setenv("CSPEED_EMULATOR_MEMORY", "2000000", 1);
    ce_log_open(CE_LOG_DEBUG, 0);
    open_device();
    cs_tensor qkv = near_random(CS_BF16, rows, 3 * C, 1, 1), dy = near_random(CS_BF16, rows, C, 2, 1);
    cs_tensor y = near_new(CS_BF16, rows, C), lse = near_new(CS_F32, given.B * given.queries, given.T);
    cs_tensor all = near_new(CS_BF16, rows, 3 * C), alone = near_new(CS_BF16, rows, 3 * C);
    run(y, lse, qkv, given, (cs_tensor){ 0 });
    run_grad(all, dy, y, lse, qkv, given, (cs_tensor){ 0 });
    given.B = 1;
    for (int b = 0; b < 3; b++)
        run_grad(sample_of(alone, b, 3), sample_of(dy, b, 3), sample_of(y, b, 3), sample_of(lse, b, 3),
                 sample_of(qkv, b, 3), given, (cs_tensor){ 0 });
    ck_assert(near_same_bits("samples alone", alone, all));
    near_free(qkv), near_free(dy), near_free(y), near_free(lse), near_free(all), near_free(alone);
    near_close();
    ce_log_open(CE_LOG_WARNING, 0);
    unsetenv("CSPEED_EMULATOR_MEMORY");
}
END_TEST

START_TEST(large_scores_do_not_overflow)
{
    attention_case given = { .B = 1, .T = 70, .queries = 1, .keys = 1, .D = 64 };
    cs_dtype dtype;
    open_device();
    for (int turn = 0; turn < 2 * WAYS; turn++) {
        int way = turn / 2;
        given.cap = turn % 2 ? 50 : 0;
        if (way == CS_F16 || !set_way(way, &dtype))
            continue;
        cs_tensor qkv = near_random(dtype, 70, 3 * 64, 1, 40), y = near_new(dtype, 70, 64);
        cs_tensor lse = near_new(CS_F32, 1, 70);
        run(y, lse, qkv, given, (cs_tensor){ 0 });
        for (int i = 0; i < 70 * 64; i++)
            ck_assert(isfinite(near_element(y, i)));
        near_set(qkv, 3 * 64 * 10, NAN);      /* the query of row 10: no other row sees it */
        near_set(qkv, 3 * 64 * 40 + 64, NAN); /* the key of row 40: row 40 and later rows see it */
        run(y, lse, qkv, given, (cs_tensor){ 0 });
        for (int t = 0; t < 70; t++)
            ck_assert_int_eq(!isnan(near_element(y, 64 * t)), t != 10 && t < 40);
        near_free(qkv), near_free(y), near_free(lse);
    }
    near_close();
}
END_TEST

/* ---- attention with a cache ---- */

typedef struct {
    int T, start, queries, keys, D, window;
    float cap;
} extend_case;

/* Copies columns [from, from + count) of x's first rows to a new matrix. */
static cs_tensor columns_of(cs_tensor x, int rows, int from, int count)
{
    cs_tensor part = near_new(x.dtype, rows, count);
    for (int i = 0; i < rows * count; i++)
        near_set(part, i, near_element(x, i / count * cs_columns(x) + from + i % count));
    return part;
}

static void check_cache(const char *what, cs_tensor whole, cs_tensor got, int from)
{
    cs_tensor want = columns_of(whole, (int)cs_rows(whole), from, (int)cs_columns(got));
    ck_assert(near_same_bits(what, got, want));
    near_free(want);
}

static void check_extend(cs_dtype dtype, extend_case given)
{
    int T = given.T, start = given.start, S = start + T, D = given.D;
    int C = given.queries * D, K = given.keys * D;
    attention_case like = { 1, S, given.queries, given.keys, D, given.window, 0, 0, given.cap };
    cs_tensor whole = near_random(dtype, S, C + 2 * K, 7, 1), y = near_new(dtype, T, C);
    cs_tensor k = columns_of(whole, S, C, K), v = columns_of(whole, S, C + K, K);
    for (int i = start * K; i < S * K; i++) /* the operation must overwrite these values */
        near_set(k, i, 99), near_set(v, i, 99);
    cs_tensor fresh = whole; /* the rows of the new positions */
    fresh.data = (char *)whole.data + (size_t)(start * (C + 2 * K)) * cs_dtype_bytes(dtype);
    fresh.shape[0] = T;
    cs_heads heads = { .queries = given.queries, .keys = given.keys, .window = given.window, .cap = given.cap };
    cs_tensor logs = near_new(CS_F32, given.queries, T);
    cs_op_attention_extend(stream, near_at(y), near_at(logs), near_at(fresh), near_at(k), near_at(v), heads, start);
    near_fetch();
    double *x = near_doubles(whole), *all = expand(like, x), *want = malloc((size_t)(S * C) * sizeof *want);
    double *lse = malloc((size_t)(S * given.queries) * sizeof *lse);
    int32_t *first = firsts(like, (cs_tensor){ 0 });
    reference_attention(want, lse, all,
                        (reference_heads){ 1, S, given.queries, D, 0, 0, NULL, first, (double)given.cap });
    ck_assert(near_all("extend", y, want + start * C, tolerance[dtype]));
    for (int i = 0; i < given.queries * T; i++) /* the logarithms of the new positions */
        lse[i] = lse[i / T * S + start + i % T];
    ck_assert(near_all("lse", logs, lse, tolerance[dtype]));
    check_cache("keys", whole, k, C);
    check_cache("values", whole, v, C + K);
    free(x), free(all), free(want), free(lse), free(first);
    near_free(whole), near_free(y), near_free(k), near_free(v), near_free(logs);
}

START_TEST(new_positions_see_the_cache)
{
    static const extend_case sizes[] = {
        { 1, 0, 1, 1, 64, 0, 0 },       { 1, 1, 4, 2, 64, 0, 0 },       { 1, 300, 4, 2, 64, 0, 0 },
        { 1, 540, 4, 1, 128, 0, 0 },    { 1, 400, 2, 2, 80, 300, 0 },   { 3, 270, 6, 2, 96, 9, 0 },
        { 70, 0, 4, 2, 64, 0, 0 },      { 33, 60, 4, 1, 40, 50, 0 },    { 1, 300, 3, 3, 5, 0, 0 },
        { 2, 270, 2, 1, 130, 0, 0 },    { 5, 64, 4, 4, 8, 64, 0 },      { 1, 540, 4, 1, 128, 0, 0.8f },
        { 3, 270, 6, 2, 96, 9, 0.7f },  { 33, 60, 4, 1, 40, 50, 1.5f }, { 1, 400, 2, 2, 80, 300, 1 },
        { 2, 270, 2, 1, 130, 0, 0.6f }, { 1, 540, 4, 1, 256, 0, 0 },    { 3, 270, 6, 2, 160, 9, 0.7f },
        { 33, 60, 4, 1, 136, 50, 0 },   { 70, 0, 2, 2, 256, 0, 0.8f },
    };
    open_device();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
            check_extend((cs_dtype)dtype, sizes[i]);
    near_close();
}
END_TEST

SUITE_MAIN("flash", attention_attends, shapes_of_cudnn_attend, threads_do_not_change_bits,
           samples_in_pieces_have_the_bits_of_each_alone, large_scores_do_not_overflow, new_positions_see_the_cache)
