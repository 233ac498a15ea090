/* test_kernels.c - the CUDA kernels on the emulator compared with the CPU's: rows that are wider than registers, not a
 * multiple of eight, or not aligned; a batch in which most tokens are equal; conversion of state; updates of state,
 * whose bits must not depend on how the state is cut into ranges. */
#include "near.h"
#include "suite.h"

#include "device/device.h"
#include "cspeed/ops.h"
#include "device/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COUNT = 16 };

static cs_device *judging;
static cs_stream *judge, *subject;

/* Opens the device of CSPEED_TEST_DEVICE, else the emulator if it is built. */
static void open_devices(void)
{
    if (!getenv("CSPEED_TEST_DEVICE") && near_find_emulator())
        setenv("CSPEED_TEST_DEVICE", "cuda", 1);
    if (near_is_cpu())
        printf("kernels: the emulated module is not built; the CPU is compared with itself\n");
    CS_MUST(ce_device_open(&judging, &(ce_device_settings){ .kind = "cpu", .threads = 1 }));
    judge = ce_device_stream(judging, CE_COMPUTE);
    subject = ce_device_stream(near_open(1), CE_COMPUTE);
}

static void close_devices(void)
{
    near_close();
    ce_device_close(judging);
}

static cs_tensor here(cs_tensor x)
{
    return x;
}

/* A function under test. at(x) returns the tensor x in the memory of the stream's device. */
typedef void work(cs_stream *stream, cs_tensor (*at)(cs_tensor x), const cs_tensor *t);

/* Runs the function on both devices, compares all tensors afterwards (tolerance 0: bit for bit), and frees them. */
static void compare(const char *what, work *run, const cs_tensor *tensors, int count, double tolerance)
{
    cs_tensor want[MAX_COUNT];
    for (int i = 0; i < count; i++)
        want[i] = tensors[i].data ? near_copy(tensors[i]) : tensors[i];
    run(judge, here, want);
    run(subject, near_at, tensors);
    near_fetch();
    for (int i = 0; i < count; i++) {
        char name[64];
        if (!tensors[i].data)
            continue;
        snprintf(name, sizeof name, "%s, tensor %d", what, i);
        bool exact = tolerance == 0 || tensors[i].dtype > CS_F16;
        ck_assert(exact ? near_same_bits(name, tensors[i], want[i])
                        : near_tensors(name, tensors[i], want[i], tolerance));
        near_free(tensors[i]), near_free(want[i]);
    }
}
#define COMPARE(what, work, tolerance, ...)                                                                            \
    do {                                                                                                               \
        const cs_tensor list_[] = { __VA_ARGS__ };                                                                     \
        compare(what, work, list_, (int)(sizeof list_ / sizeof *list_), tolerance);                                    \
    } while (0)

static double tolerance_of(cs_dtype dtype)
{
    return dtype == CS_F32 ? 4e-6 : dtype == CS_BF16 ? 8e-3 : 1e-3;
}

static cs_tensor flat(cs_tensor x)
{
    return x.data ? cs_vector(x.data, x.dtype, cs_count(x)) : x;
}

static cs_tensor integers(int64_t rows, int64_t columns, int32_t (*of)(int64_t i))
{
    cs_tensor x = near_new(CS_I32, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++)
        ((int32_t *)x.data)[i] = of(i);
    return x;
}

static cs_tensor random_keys(void)
{
    cs_tensor keys = near_new(CS_I64, 1, 3);
    memcpy(keys.data, (const uint64_t[]){ 11, 0xfedcba9876543210u, 33 }, 24);
    return keys;
}

/* ---- norms ---- */

/* The tensors `t`: x, y, stats, weight, bias, dy, dx, dweight, dbias */
static void norm_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    cs_op_norm(stream, at(t[1]), at(t[2]), at(t[0]), at(flat(t[3])), at(flat(t[4])), 1e-5f);
    cs_op_norm_grad(stream, at(t[6]), at(flat(t[7])), at(flat(t[8])), at(t[5]), at(t[0]), at(t[2]), at(flat(t[3])));
}

static void rms_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    cs_op_rms(stream, at(t[1]), at(t[2]), at(t[0]), at(flat(t[3])), cs_columns(t[0]) > cs_count(t[3]) ? 8 : 0, 1e-5f);
    cs_op_rms_grad(stream, at(t[6]), at(flat(t[7])), at(t[5]), at(t[0]), at(t[2]), at(flat(t[3])),
                   cs_columns(t[0]) > cs_count(t[3]) ? 8 : 0);
}

START_TEST(norms_take_rows_of_any_width)
{
    open_devices();
    static const int64_t sizes[][2] = { { 1, 3 }, { 70, 7 }, { 3, 520 }, { 9, 768 }, { 2, 8200 }, { 2, 9001 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int dtype = CS_F32; dtype <= CS_F16; dtype++) {
            int64_t rows = sizes[i][0], width = sizes[i][1];
            cs_dtype c = (cs_dtype)dtype, w = i % 2 ? CS_F32 : c;
            cs_tensor x = near_random(CS_F32, rows, width, 1, 1), y = near_new(c, rows, width);
            COMPARE("norm", norm_work, tolerance_of(c), x, y, near_new(CS_F32, rows, 2), near_random(w, 1, width, 3, 1),
                    near_random(w, 1, width, 4, 1), near_random(c, rows, width, 5, 1), near_new(c, rows, width),
                    near_random(CS_F32, 1, width, 6, 1), near_random(CS_F32, 1, width, 7, 1));
            COMPARE("rms", rms_work, tolerance_of(c), near_random(c, rows, width, 1, 1), near_new(c, rows, width),
                    near_new(CS_F32, rows, 1), near_random(w, 1, width, 3, 1), near_new(CS_F32, 1, 1),
                    near_random(c, rows, width, 5, 1), near_new(c, rows, width), near_random(CS_F32, 1, width, 6, 1));
        }
    }
    close_devices();
}
END_TEST

START_TEST(heads_are_normed_where_they_lie)
{
    open_devices();
    static const int64_t sizes[][3] = { { 37, 64, 3 }, { 5, 80, 4 }, { 1, 24, 1 }, { 9, 6, 5 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t rows = sizes[i][0], width = sizes[i][1], heads = sizes[i][2], all = 8 + width * heads + 3;
        COMPARE("heads", rms_work, 8e-3, near_random(CS_BF16, rows, all, 1, 1), near_random(CS_BF16, rows, all, 2, 1),
                near_new(CS_F32, rows, heads), near_random(CS_BF16, 1, width, 3, 1), near_new(CS_F32, 1, 1),
                near_random(CS_BF16, rows, all, 5, 1), near_random(CS_BF16, rows, all, 6, 1),
                near_random(CS_F32, 1, width, 6, 1));
    }
    close_devices();
}
END_TEST

static float dropped; /* the dropout rate of the following functions */

/* The tensors `t`: a, b, sum, y, stats, weight, bias, dy, dx, dweight, dbias, beside, keys */
static void add_norm_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    cs_addition x = {
        at(t[2]), at(t[0]), at(t[1]), { .rate = dropped, .place = 5, .keys = at(t[12]).data, .batch = 3 }
    };
    cs_op_add_norm(stream, at(t[3]), at(t[4]), &x, at(flat(t[5])), at(flat(t[6])), 1e-5f);
    cs_op_norm_grad_add(stream, at(t[8]), at(flat(t[9])), at(flat(t[10])), at(t[7]), at(t[2]), at(t[4]), at(flat(t[5])),
                        at(t[11]));
}

static void add_rms_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    cs_addition x = {
        at(t[2]), at(t[0]), at(t[1]), { .rate = dropped, .place = 5, .keys = at(t[12]).data, .batch = 3 }
    };
    cs_op_add_rms(stream, at(t[3]), at(t[4]), &x, at(flat(t[5])), 1e-5f);
    cs_op_rms_grad_add(stream, at(t[8]), at(flat(t[9])), at(t[7]), at(t[2]), at(t[4]), at(flat(t[5])), at(t[11]));
}

START_TEST(residuals_are_normed_on_the_way)
{
    open_devices();
    static const int64_t widths[] = { 7, 44, 768, 8200, 9001 };
    for (size_t i = 0; i < 2 * sizeof widths / sizeof *widths; i++) {
        for (int dtype = CS_F32; dtype <= CS_BF16; dtype++) {
            cs_dtype c = (cs_dtype)dtype;
            int64_t width = widths[i / 2], rows = width > 768 ? 3 : 6;
            dropped = i % 2 ? 0.3f : 0;
            for (int rms = 0; rms < 2; rms++)
                COMPARE(rms ? "add_rms" : "add_norm", rms ? add_rms_work : add_norm_work, 2 * tolerance_of(c),
                        near_random(c, rows, width, 1, 1), near_random(CS_BF16, rows, width, 2, 1),
                        near_new(c, rows, width), near_new(CS_BF16, rows, width), near_new(CS_F32, rows, rms ? 1 : 2),
                        near_random(c, 1, width, 3, 1), near_random(c, 1, width, 4, 1),
                        near_random(CS_BF16, rows, width, 5, 1), near_new(c, rows, width),
                        near_random(CS_F32, 1, width, 6, 1), near_random(CS_F32, 1, width, 7, 1),
                        near_random(c, rows, width, 8, 1), random_keys());
        }
    }
    close_devices();
}
END_TEST

/* ---- sums over rows, tokens ---- */

static void columns_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    cs_op_matmul_grad_weight(stream, at(t[0]), at(flat(t[1])), at(t[2]), at(t[3]), CS_IN_OUT);
}

START_TEST(columns_are_summed)
{
    open_devices();
    static const int64_t sizes[][2] = { { 1, 1 }, { 300, 700 }, { 65, 8 }, { 1000, 3 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        COMPARE("columns", columns_work, 4e-6, near_new(CS_F32, 1, sizes[i][1]),
                near_random(CS_F32, 1, sizes[i][1], 1, 1), near_random(CS_BF16, sizes[i][0], 1, 2, 1),
                near_random(CS_BF16, sizes[i][0], sizes[i][1], 3, 1));
    close_devices();
}
END_TEST

/* The tensors `t`: dw, dbias, x, dy; with the weight in the layout CS_OUT_IN, the result's rows are dy's columns. */
static void transposed_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    cs_op_matmul_grad_weight(stream, at(t[0]), at(flat(t[1])), at(t[2]), at(t[3]), CS_OUT_IN);
}

/* The result has so many tiles of 128 x 128 that the product computes the sums for the gradient of the bias too. A real
 * GPU has at most 148 multiprocessors; the emulated one has 4. */
START_TEST(products_sum_columns)
{
    open_devices();
    int64_t side = near_is_cpu() || near_counts() ? 256 : 1664;
    for (int dtype = CS_BF16; dtype <= CS_F16; dtype++)
        for (int layout = CS_IN_OUT; layout <= CS_OUT_IN; layout++)
            COMPARE("product and sums", layout == CS_IN_OUT ? columns_work : transposed_work, 4e-6,
                    near_random(CS_F32, side, side, 1, 1), near_random(CS_F32, 1, side, 2, 1),
                    near_random((cs_dtype)dtype, 40, side, 3, 1), near_random((cs_dtype)dtype, 40, side, 4, 1));
    close_devices();
}
END_TEST

enum { VOCABULARY = 37, LENGTH = 350 };

/* Two of three tokens are the same. */
static int32_t frequent(int64_t i)
{
    return i % 3 ? 19 : (int32_t)(i * 7 % VOCABULARY);
}

static int32_t documents(int64_t i)
{
    return (int32_t)(i % LENGTH / 100 * 100);
}

/* The tensors `t`: y, tokens, table, positions, starts, dtable, dpositions, dy */
static void embed_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    cs_op_embed(stream, at(t[0]), at(t[1]), at(t[2]), CS_WHOLE_TABLE, at(t[3]), at(t[4]));
    cs_op_embed_grad(stream, at(t[5]), CS_WHOLE_TABLE, at(t[6]), at(t[7]), at(t[1]), at(t[4]), -1);
}

START_TEST(a_token_may_fill_the_batch)
{
    open_devices();
    static const int64_t widths[] = { 5, 44, 264 };
    for (int i = 0; i < 6; i++) {
        int64_t width = widths[i / 2], rows = 2 * LENGTH;
        cs_tensor none = { 0 };
        COMPARE("embed", embed_work, 4e-6, near_new(CS_F32, rows, width), integers(2, LENGTH, frequent),
                near_random(CS_F32, VOCABULARY, width, 1, 1), near_random(CS_F32, LENGTH, width, 2, 1),
                i % 2 ? integers(2, LENGTH, documents) : none, near_random(CS_F32, VOCABULARY, width, 3, 1),
                near_random(CS_F32, LENGTH, width, 4, 1), near_random(CS_F32, rows, width, 5, 1));
    }
    close_devices();
}
END_TEST

/* ---- losses ---- */

static int32_t targets_of(int64_t i)
{
    static const int32_t targets[] = { 2, 0, 1, 3, -100, 0, 10 };
    return targets[i];
}

/* The tensors `t`: hits, logits, targets */
static void hits_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    cs_op_hits(stream, at(t[0]), at(t[1]), at(flat(t[2])), cs_columns(t[1]));
}

/* The target is, in seven rows: the second of two equal maxima, the first of two equal maxima, not the maximum, in a
 * row with a NaN, masked, in a row of -inf, and in the last column. */
START_TEST(hits_are_the_first_of_the_largest)
{
    open_devices();
    static const double rows[7][4] = { { 0, 5, 5, 1 },   { 7, 7, 1, 2 },
                                       { 9, 8, 0, 0 },   { 0, 0, (double)NAN, 4 },
                                       { 1, 2, 3, 4 },   { -(double)INFINITY, -(double)INFINITY, 0, 0 },
                                       { -1, -2, -3, 0 } };
    for (int64_t width = 11; width < 6000; width += 5000) {
        for (int dtype = CS_F32; dtype <= CS_F16; dtype++) {
            cs_tensor logits = near_new((cs_dtype)dtype, 7, width), hits = near_random(CS_F32, 7, 1, 1, 1);
            for (int64_t i = 0; i < 7 * width; i++)
                near_set(logits, i, i / width == 5 ? -(double)INFINITY : -20 - (double)(i % 7));
            for (int64_t row = 0; row < 7; row++)
                for (int64_t i = 0; i < 4 && row != 5; i++)
                    near_set(logits, row * width + i, rows[row][i]);
            near_set(logits, 6 * width + 10, 50);
            static const float want[7] = { 0, 1, 0, 0, 0, 1, 1 };
            cs_tensor targets = integers(7, 1, targets_of);
            cs_op_hits(subject, near_at(hits), near_at(logits), near_at(flat(targets)), width);
            near_fetch();
            for (int i = 0; i < 7; i++)
                ck_assert_float_eq(((float *)hits.data)[i], want[i]);
            COMPARE("hits", hits_work, 0, hits, logits, targets);
        }
    }
    close_devices();
}
END_TEST

/* The tensors `t`: loss, logits, targets, dloss */
static void entropy_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    cs_op_cross_entropy(stream, at(t[0]), at(t[1]), at(flat(t[2])), cs_columns(t[1]), at(t[3]));
}

START_TEST(losses_of_odd_vocabularies)
{
    open_devices();
    for (int64_t width = 11; width < 6000; width += 5000)
        for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
            COMPARE("cross entropy", entropy_work, tolerance_of((cs_dtype)dtype), near_new(CS_F32, 7, 1),
                    near_random((cs_dtype)dtype, 7, width, 1, 4), integers(7, 1, targets_of),
                    near_random(CS_F32, 7, 1, 2, 1));
    close_devices();
}
END_TEST

/* ---- dropout, flat state ---- */

/* The tensors `t`: y, x, keys */
static void dropout_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    cs_op_dropout(stream, at(t[0]), at(t[1]),
                  (cs_dropout){ .rate = 0.25f, .place = 77, .keys = at(t[2]).data, .batch = 3 });
}

START_TEST(dropout_has_the_same_bits)
{
    open_devices();
    static const int64_t samples[] = { 1, 43, 64, 5000 };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
            COMPARE("dropout", dropout_work, 0, near_new((cs_dtype)dtype, 3, samples[i]),
                    near_random((cs_dtype)dtype, 3, samples[i], 1, 1), random_keys());
    close_devices();
}
END_TEST

/* fp32 to bf16, fp16 to fp32, and a multiplication in place */
static void convert_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    ce_state_convert(stream, at(t[0]), at(t[1]), 0.75f);
    ce_state_convert(stream, at(t[2]), at(t[3]), 0.75f);
    ce_state_convert(stream, at(t[4]), at(t[4]), 0.75f);
}

START_TEST(conversion_with_a_factor)
{
    open_devices();
    static const int64_t counts[] = { 1, 9, 8192, 8193, 3 * 8192 + 77, 70001 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t n = counts[i];
        COMPARE("convert", convert_work, 0, near_new(CS_BF16, 1, n), near_random(CS_F32, 1, n, 1, 1),
                near_new(CS_F32, 1, n), near_random(CS_F16, 1, n, 2, 100), near_random(CS_F32, 1, n, 3, 1));
    }
    close_devices();
}
END_TEST

static const ce_optim_settings adamw = { .kind = CE_OPTIM_ADAMW,
                                         .rate = 0.01,
                                         .betas = { 0.9, 0.95 },
                                         .epsilon = 1e-8,
                                         .weight_decay = 0.1,
                                         .bias_correction = true };

enum { TENSORS = 5, ELEMENTS = 5003, PARTS = 6 };

/* Cuts a row of ELEMENTS into parts: none begins at a multiple of 16 bytes, some are shorter than a thread's run,
 * one is longer than a tile, some begin inside a tile. Every second one has no decay. */
static void cut_up(ce_state_range ranges[PARTS])
{
    static const int64_t ends[] = { 3, 4, 1237, 1240, 4099, ELEMENTS };
    for (int i = 0; i < PARTS; i++) {
        int64_t from = i ? ends[i - 1] : 0;
        ranges[i] = (ce_state_range){ .from = from, .to = ends[i], .slots = { from, from }, .decays = i % 2 };
    }
}

/* The tensors: master, gradient, first slot, second slot, published copy. */
static void update_ranges(const cs_tensor *tensors, ce_state_range *ranges, int count)
{
    ce_optimizer optimizer = ce_optim_find(&adamw);
    ce_state_rows rows = { .master = near_at(tensors[0]),
                           .gradient = near_at(tensors[1]),
                           .slots = { near_at(tensors[2]), near_at(tensors[3]) },
                           .publish = near_at(tensors[4]),
                           .ranges = near_ranges(near_at, ranges, count) };
    ce_state_update(subject, &optimizer, ce_optim_hyper(&adamw, 0.01, 3, 0.5), &rows);
    near_fetch();
}

static void fill_state(cs_tensor tensors[TENSORS])
{
    for (int i = 0; i < TENSORS; i++)
        tensors[i] = near_random(i < 4 ? CS_F32 : CS_BF16, 1, ELEMENTS, (uint64_t)i, 1);
    for (int64_t k = 0; k < ELEMENTS; k++)
        near_set(tensors[3], k, fabs(near_element(tensors[3], k)));
}

START_TEST(updates_have_the_same_bits_however_cut)
{
    open_devices();
    cs_tensor together[TENSORS], apart[TENSORS];
    ce_state_range ranges[PARTS];
    fill_state(together), fill_state(apart);
    cut_up(ranges);
    near_launches before = near_launched();
    update_ranges(together, ranges, PARTS);
    ck_assert_uint_eq(near_since(before).kernels, !near_is_cpu() && near_counts());
    for (int i = PARTS - 1; i >= 0; i--)
        update_ranges(apart, &ranges[i], 1);
    for (int i = 0; i < TENSORS; i++) {
        ck_assert(near_same_bits("update", apart[i], together[i]));
        near_free(together[i]), near_free(apart[i]);
    }
    close_devices();
}
END_TEST

/* Each range has its own decay and its own indices in the slots. A range without decay changes as an optimizer without
 * decay would change it. `slots` says where the range begins in each slot. */
START_TEST(a_range_has_its_own_decay_and_slots)
{
    open_devices();
    ce_optim_settings plain = adamw;
    cs_tensor got[TENSORS], want[TENSORS];
    plain.weight_decay = 0;
    fill_state(got), fill_state(want);
    /* the expected values: one update for each range; the slots of the second range begin at index 0 */
    for (int part = 0; part < 2; part++) {
        ce_optim_settings settings = part ? adamw : plain;
        ce_optimizer found = ce_optim_find(&settings);
        int64_t from = part ? 2051 : 0, count = part ? ELEMENTS - 2051 : 2051;
        ce_state_range all = { .to = count, .decays = 1 };
        cs_tensor at[TENSORS];
        for (int i = 0; i < TENSORS; i++) {
            int64_t first = i == 2 || i == 3 ? (part ? 0 : ELEMENTS - 2051) : from;
            at[i] = near_at(want[i]);
            at[i] = cs_vector((char *)at[i].data + (size_t)first * cs_dtype_bytes(at[i].dtype), at[i].dtype, count);
        }
        ce_state_rows rows = { .master = at[0],
                               .gradient = at[1],
                               .slots = { at[2], at[3] },
                               .publish = at[4],
                               .ranges = near_ranges(near_at, &all, 1) };
        ce_state_update(subject, &found, ce_optim_hyper(&settings, 0.01, 3, 0.5), &rows);
        near_fetch();
    }
    ce_state_range ranges[] = { { .to = 2051, .slots = { ELEMENTS - 2051, ELEMENTS - 2051 }, .decays = 0 },
                                { .from = 2051, .to = ELEMENTS, .decays = 1 } };
    update_ranges(got, ranges, 2);
    for (int i = 0; i < TENSORS; i++) {
        ck_assert(near_same_bits("update", got[i], want[i]));
        near_free(got[i]), near_free(want[i]);
    }
    close_devices();
}
END_TEST

static void narrow_work(cs_stream *stream, cs_tensor (*at)(cs_tensor), const cs_tensor *t)
{
    static ce_state_range all;
    ce_optimizer optimizer = ce_optim_find(&adamw);
    all = (ce_state_range){ .to = cs_count(t[0]), .decays = 1 };
    ce_state_rows rows = { .master = at(t[0]),
                           .gradient = at(t[1]),
                           .slots = { at(t[2]), at(t[3]) },
                           .publish = at(t[4]),
                           .ranges = near_ranges(at, &all, 1) };
    ce_state_update(stream, &optimizer, ce_optim_hyper(&adamw, 0.01, 3, 0.5), &rows);
}

START_TEST(narrow_state_is_updated_in_fp32)
{
    open_devices();
    cs_tensor squares = near_random(CS_F16, 1, 3001, 4, 1);
    for (int i = 0; i < 3001; i++)
        near_set(squares, i, fabs(near_element(squares, i)));
    COMPARE("narrow", narrow_work, 1e-6, near_random(CS_BF16, 1, 3001, 1, 1), near_random(CS_BF16, 1, 3001, 2, 1),
            near_random(CS_F16, 1, 3001, 3, 1), squares, near_new(CS_BF16, 1, 3001));
    close_devices();
}
END_TEST

START_TEST(exact_sums_have_the_same_digits)
{
    open_devices();
    for (int dtype = CS_F32; dtype <= CS_F16; dtype++) {
        cs_tensor g = near_random((cs_dtype)dtype, 1, 20011, 5, 3), f = near_random(CS_F32, 1, 20011, 6, 1e-3);
        ce_exact want = { 0 }, got = { 0 };
        for (int64_t i = 0; i < 40; i++)
            near_set(f, i * 401, i % 2 ? 1e30 / (double)(i + 1) : -1e-30 * (double)i);
        near_set(f, 77, (double)INFINITY);
        near_set(g, 20000, (double)NAN);
        ce_state_sum_squares(judge, &want, flat(g), 37, 0.125);
        ce_state_sum(judge, &want, f.data, 20011);
        ce_exact *there = near_at(cs_vector(&got, CS_I64, sizeof got / sizeof(int64_t))).data;
        ce_state_sum_squares(subject, there, near_at(flat(g)), 37, 0.125);
        ce_state_sum(subject, there, near_at(f).data, 20011);
        near_fetch();
        ck_assert_mem_eq(&got, &want, sizeof want);
        near_free(g), near_free(f);
    }
    close_devices();
}
END_TEST

SUITE_MAIN_APART("kernels", norms_take_rows_of_any_width, heads_are_normed_where_they_lie,
                 residuals_are_normed_on_the_way, columns_are_summed, products_sum_columns, a_token_may_fill_the_batch,
                 hits_are_the_first_of_the_largest, losses_of_odd_vocabularies, dropout_has_the_same_bits,
                 conversion_with_a_factor, updates_have_the_same_bits_however_cut, a_range_has_its_own_decay_and_slots,
                 narrow_state_is_updated_in_fp32, exact_sums_have_the_same_digits)
