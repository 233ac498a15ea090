/* test_cudnn.c - attention through cuDNN's graph API, on the emulator with its fake cuDNN. The graphs' results are
 * compared with loops in double; unsupported shapes must use the engine's own kernels; cuDNN and these kernels must be
 * interchangeable. */
#include "near.h"
#include "reference.h"
#include "suite.h"

#include "base/log.h"
#include "cspeed/ops.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAKE CS_BIN "/libcudnn_emulated.so"

static cs_device *device;
static cs_stream *stream;
static int (*runs)(void); /* returns how many plans the fake cuDNN has run */

/* Opens the device with the cuDNN library at the path `cudnn`. Returns false if the test is skipped. */
static bool enter(const char *cudnn)
{
    if (!near_emulated("cudnn"))
        return false;
    if (access(FAKE, R_OK) != 0 || !strstr(getenv("CSPEED_CUDA_MODULE"), "emulated")) {
        printf("cudnn: skipped, the fake cuDNN is not built, or the module is not the emulated one\n");
        return false;
    }
    setenv("CSPEED_TEST_DEVICE", "cuda", 1);
    setenv("CSPEED_CUDNN", cudnn, 1);
    device = near_open(1);
    stream = ce_device_stream(device, CE_COMPUTE);
    if (!runs) {
        void *symbol = dlsym(dlopen(FAKE, RTLD_LAZY | RTLD_LOCAL), "emulator_cudnn_runs");
        ck_assert_ptr_nonnull(symbol);
        memcpy(&runs, &symbol, sizeof symbol);
    }
    return true;
}

static void leave(void)
{
    near_close();
    unsetenv("CSPEED_CUDNN");
    unsetenv("CSPEED_TEST_DEVICE");
}

/* ---- an attention ---- */

typedef struct {
    int B, T, queries, keys, D, window, documents;
    float rate, cap;
} attention_case;

typedef struct {
    attention_case is;
    cs_tensor qkv, dy, y, lse, dqkv, starts;
} attention;

static uint64_t keys[4] = { 5, 6, 7, 8 };

static attention make(cs_dtype dtype, attention_case given)
{
    int rows = given.B * given.T, C = given.queries * given.D, W = C + 2 * given.keys * given.D;
    attention made = { .is = given };
    made.qkv = near_random(dtype, rows, W, 1, 1), made.dy = near_random(dtype, rows, C, 2, 1);
    made.y = near_new(dtype, rows, C), made.lse = near_new(CS_F32, given.B * given.queries, given.T);
    made.dqkv = near_new(dtype, rows, W);
    memset(made.y.data, 0xff, (size_t)cs_count(made.y) * cs_dtype_bytes(dtype));
    memset(made.dqkv.data, 0xff, (size_t)cs_count(made.dqkv) * cs_dtype_bytes(dtype));
    if (given.documents)
        made.starts = near_new(CS_I32, given.B, given.T); /* one document: the document starts mask no row */
    return made;
}

static void drop(attention *it)
{
    near_free(it->qkv), near_free(it->dy), near_free(it->y), near_free(it->lse), near_free(it->dqkv);
    if (it->starts.data)
        near_free(it->starts);
}

static cs_heads heads_of(const attention *it)
{
    return (cs_heads){ .queries = it->is.queries,
                       .keys = it->is.keys,
                       .window = it->is.window,
                       .starts = near_at(it->starts),
                       .cap = it->is.cap };
}

static cs_dropout dropout_of(const attention *it)
{
    return (cs_dropout){
        .rate = it->is.rate, .place = 5, .keys = near_at(cs_vector(keys, CS_I64, 4)).data, .batch = it->is.B
    };
}

/* Runs forward; returns the number of plans that cuDNN has run. */
static int forward(attention *it)
{
    int before = runs();
    cs_op_attention(stream, near_at(it->y), near_at(it->lse), near_at(it->qkv), heads_of(it), dropout_of(it));
    near_fetch();
    return runs() - before;
}

/* Runs backward; returns the number of plans that cuDNN has run. */
static int backward(attention *it)
{
    int before = runs();
    cs_op_attention_grad(stream, near_at(it->dqkv), near_at(it->dy), near_at(it->y), near_at(it->lse), near_at(it->qkv),
                         heads_of(it), dropout_of(it));
    near_fetch();
    return runs() - before;
}

/* ---- comparison ---- */

/* Returns the column of a row q | k | v with shared key heads that corresponds to `column` of a row in which each query
 * head has its own key head. */
static int shared(attention_case given, int column)
{
    int part = column / given.D, group = given.queries / given.keys;
    if (part >= given.queries)
        part = given.queries + (part / given.queries - 1) * given.keys + part % given.queries / group;
    return part * given.D + column % given.D;
}

static const double tolerance[] = { [CS_F32] = 3e-6, [CS_BF16] = 5e-3, [CS_F16] = 1e-3 };

/* cuDNN rounds probabilities and gradients of scores to 16 bits; the reference does not. */
static void judge(const attention *it)
{
    attention_case given = it->is;
    int rows = given.B * given.T, C = given.queries * given.D, W = (int)cs_columns(it->qkv), wide = 3 * C;
    int32_t *first = malloc((size_t)rows * sizeof *first);
    reference_heads shape = { given.B, given.T, given.queries, given.D, given.rate, 5, keys, first, (double)given.cap };
    double *x = near_doubles(it->qkv), *dy = near_doubles(it->dy), *y = near_doubles(it->y);
    double *lse = near_doubles(it->lse), *all = malloc((size_t)(rows * wide) * sizeof *all);
    double *dall = malloc((size_t)(rows * wide) * sizeof *dall);
    ck_assert_ptr_nonnull(all);
    ck_assert_ptr_nonnull(dall);
    ck_assert_ptr_nonnull(first);
    for (int i = 0; i < rows; i++)
        first[i] = given.window && i % given.T >= given.window ? i % given.T - given.window + 1 : 0;
    for (int i = 0; i < rows * wide; i++)
        all[i] = x[i / wide * W + shared(given, i % wide)];
    reference_attention(y, lse, all, shape);
    reference_attention_grad(dall, dy, all, shape);
    memset(x, 0, (size_t)(rows * W) * sizeof *x);
    for (int i = 0; i < rows * wide; i++)
        x[i / wide * W + shared(given, i % wide)] += dall[i];
    ck_assert(near_all("attention", it->y, y, tolerance[it->y.dtype]));
    ck_assert(near_all("lse", it->lse, lse, 3e-6));
    ck_assert(near_all("attention_grad", it->dqkv, x, 2 * tolerance[it->y.dtype]));
    free(x), free(dy), free(y), free(lse), free(all), free(dall), free(first);
}

START_TEST(graphs_compute_attention)
{
    static const attention_case sizes[] = {
        { .B = 2, .T = 17, .queries = 2, .keys = 2, .D = 64 },
        { .B = 1, .T = 130, .queries = 4, .keys = 2, .D = 64 },
        { .B = 2, .T = 33, .queries = 4, .keys = 1, .D = 80 },
        { .B = 1, .T = 64, .queries = 2, .keys = 1, .D = 80 },
        { .B = 1, .T = 65, .queries = 3, .keys = 3, .D = 96 },
        { .B = 2, .T = 40, .queries = 8, .keys = 2, .D = 96 },
        { .B = 1, .T = 128, .queries = 2, .keys = 2, .D = 128 },
        { .B = 2, .T = 97, .queries = 4, .keys = 1, .D = 128 },
        { .B = 3, .T = 2, .queries = 1, .keys = 1, .D = 8 },
        { .B = 1, .T = 20, .queries = 2, .keys = 1, .D = 256 },
        { .B = 1, .T = 20, .queries = 2, .keys = 1, .D = 64, .window = 20 }, /* a window of all rows limits nothing */
    };
    if (!enter(FAKE))
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int dtype = CS_BF16; dtype <= CS_F16; dtype++) {
            attention it = make((cs_dtype)dtype, sizes[i]);
            ck_assert_int_eq(forward(&it), 1);
            ck_assert_int_eq(backward(&it), 1);
            judge(&it);
            cs_tensor first = near_copy(it.dqkv);
            size_t held = ce_device_allocated(device);
            ck_assert_int_eq(backward(&it), 1);
            ck_assert(near_same_bits("again", it.dqkv, first));
            ck_assert_uint_eq(ce_device_allocated(device), held);
            near_free(first);
            drop(&it);
        }
    leave();
}
END_TEST

/* Each sample is one document, so the document starts mask nothing. With document starts the engine's own kernels run;
 * without document starts cuDNN runs. The test runs forward with one implementation and backward with the other; the
 * results must be right. */
START_TEST(both_implementations_are_interchangeable)
{
    attention_case given = { .B = 2, .T = 70, .queries = 4, .keys = 2, .D = 64, .documents = 1 };
    if (!enter(FAKE))
        return;
    for (int dtype = CS_BF16; dtype <= CS_F16; dtype++)
        for (int turn = 0; turn < 2; turn++) {
            attention it = make((cs_dtype)dtype, given);
            cs_tensor starts = it.starts, none = { 0 };
            it.starts = turn ? starts : none;
            ck_assert_int_eq(forward(&it), !turn);
            it.starts = turn ? none : starts;
            ck_assert_int_eq(backward(&it), turn);
            judge(&it);
            it.starts = starts;
            drop(&it);
        }
    leave();
}
END_TEST

START_TEST(other_shapes_run_by_own_kernels)
{
    static const struct {
        attention_case is;
        cs_dtype dtype;
    } cases[] = {
        { { .B = 1, .T = 20, .queries = 2, .keys = 2, .D = 64 }, CS_F32 },
        { { .B = 1, .T = 20, .queries = 2, .keys = 2, .D = 64, .window = 7 }, CS_BF16 },
        { { .B = 1, .T = 20, .queries = 2, .keys = 2, .D = 64, .documents = 1 }, CS_BF16 },
        { { .B = 1, .T = 20, .queries = 2, .keys = 2, .D = 64, .rate = 0.25f }, CS_BF16 },
        { { .B = 1, .T = 20, .queries = 2, .keys = 2, .D = 64, .cap = 0.8f }, CS_BF16 },
        { { .B = 1, .T = 20, .queries = 2, .keys = 2, .D = 20 }, CS_BF16 },
        { { .B = 1, .T = 20, .queries = 1, .keys = 1, .D = 264 }, CS_BF16 },
        { { .B = 4, .T = 1, .queries = 2, .keys = 2, .D = 64 }, CS_BF16 },
    };
    if (!enter(FAKE))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attention it = make(cases[i].dtype, cases[i].is);
        ck_assert_int_eq(forward(&it), 0);
        ck_assert_int_eq(backward(&it), 0);
        judge(&it);
        drop(&it);
    }
    leave();
}
END_TEST

/* The engine's own kernels are used for rows that are not aligned to 16 bytes. */
START_TEST(unaligned_rows_run_by_own_kernels)
{
    if (!enter(FAKE))
        return;
    attention it = make(CS_BF16, (attention_case){ .B = 1, .T = 17, .queries = 1, .keys = 1, .D = 64 });
    cs_tensor whole = near_new(CS_BF16, 17 * 3 + 1, 64), moved = it.qkv;
    moved.data = (char *)whole.data + 2;
    memcpy(moved.data, it.qkv.data, (size_t)cs_count(it.qkv) * 2);
    near_free(it.qkv);
    it.qkv = moved;
    ck_assert_int_eq(forward(&it), 0);
    ck_assert_int_eq(backward(&it), 0);
    judge(&it);
    it.qkv = whole;
    drop(&it);
    leave();
}
END_TEST

/* ---- without cuDNN ---- */

static void check_without(const char *cudnn, int forwards, int backwards, int T)
{
    if (!enter(cudnn))
        return;
    attention it = make(CS_F16, (attention_case){ .B = 1, .T = T, .queries = 2, .keys = 1, .D = 64 });
    ck_assert_int_eq(forward(&it), forwards);
    ck_assert_int_eq(backward(&it), backwards);
    judge(&it);
    drop(&it);
    leave();
}

START_TEST(without_cudnn_own_kernels_run)
{
    check_without("libcudnn.so.none", 0, 0, 40);
    check_without(CS_BIN "/libcspeed_cuda_emulated.so", 0, 0, 40); /* a library, but not cuDNN */
    setenv("CSPEED_EMULATOR_CUDNN", "90900", 1);
    check_without(FAKE, 0, 0, 40);
    setenv("CSPEED_EMULATOR_CUDNN", "91500", 1);
    check_without(FAKE, 1, 0, 40);
    check_without(FAKE, 1, 1, 128);
    unsetenv("CSPEED_EMULATOR_CUDNN");
}
END_TEST

/* ---- in pieces ---- */

/* Runs backward three times with one graph key: normally, captured, replayed. dqkv is the result of the last run. */
static int backward_in_graphs(attention *it)
{
    int before = runs();
    cs_tensor dqkv = near_at(it->dqkv), dy = near_at(it->dy), y = near_at(it->y), lse = near_at(it->lse);
    cs_tensor qkv = near_at(it->qkv), bytes = cs_vector(dqkv.data, CS_F32, cs_count(dqkv) / 2);
    size_t held = 0;
    for (int time = 0; time < 3; time++) {
        cs_op_fill(stream, bytes, 1);
        ce_device_graph_begin(device, 3);
        cs_op_attention_grad(stream, dqkv, dy, y, lse, qkv, heads_of(it), dropout_of(it));
        ce_device_graph_end(device);
        ck_assert(time == 0 || ce_device_allocated(device) == held);
        held = ce_device_allocated(device);
    }
    near_fetch();
    ce_stream_sync(ce_device_stream(device, CE_COMM));
    return runs() - before;
}

/* Returns dqkv, computed in `pieces` pieces on a GPU with `memory` bytes. */
static cs_tensor gradients(attention_case given, int memory, int pieces)
{
    char text[32];
    snprintf(text, sizeof text, "%d", memory);
    setenv("CSPEED_EMULATOR_MEMORY", text, 1);
    ck_assert(enter(FAKE));
    attention it = make(CS_BF16, given);
    ck_assert_int_eq(forward(&it), 1);
    ck_assert_int_eq(backward(&it), pieces);
    judge(&it);
    ck_assert_int_eq(backward_in_graphs(&it), 2 * pieces); /* a replay calls nothing of cuDNN */
    cs_tensor made = near_copy(it.dqkv);
    drop(&it);
    leave();
    unsetenv("CSPEED_EMULATOR_MEMORY");
    return made;
}

/* If a quarter of the free memory is less than the workspace of all heads, the attention is divided into pieces: by
 * samples, then by key heads of one sample. With odd lengths, lse of a piece is not aligned to 16 bytes. */
START_TEST(pieces_have_the_bits_of_the_whole)
{
    static const struct {
        attention_case is;
        int memory, pieces;
    } cases[] = {
        { { .B = 4, .T = 128, .queries = 4, .keys = 2, .D = 8 }, 1600000, 2 },
        { { .B = 4, .T = 128, .queries = 4, .keys = 2, .D = 8 }, 1200000, 4 },
        { { .B = 4, .T = 128, .queries = 4, .keys = 2, .D = 8 }, 700000, 8 },
        { { .B = 3, .T = 130, .queries = 2, .keys = 2, .D = 16 }, 1400000, 3 },
        { { .B = 2, .T = 131, .queries = 6, .keys = 3, .D = 8 }, 1400000, 6 },
        { { .B = 1, .T = 65, .queries = 4, .keys = 4, .D = 8 }, 300000, 2 },
        { { .B = 1, .T = 65, .queries = 4, .keys = 1, .D = 8 }, 200000, 1 }, /* the smallest piece */
    };
    if (!enter(FAKE))
        return;
    leave();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cs_tensor whole = gradients(cases[i].is, 100000000, 1);
        cs_tensor pieces = gradients(cases[i].is, cases[i].memory, cases[i].pieces);
        ck_assert(near_same_bits("in pieces", pieces, whole));
        near_free(whole), near_free(pieces);
    }
}
END_TEST

/* There are one sample, 512 rows, one key head and two query heads. For both query heads together, the gradients of the
 * scores are 1 MiB, and dk and dv are 256 KiB. The tensors are 0.8 MB. */
START_TEST(too_large_a_workspace_runs_by_own_kernels)
{
    setenv("CSPEED_EMULATOR_MEMORY", "1600000", 1);
    check_without(FAKE, 1, 0, 512);
    setenv("CSPEED_EMULATOR_MEMORY", "2600000", 1);
    check_without(FAKE, 1, 1, 512);
    unsetenv("CSPEED_EMULATOR_MEMORY");
}
END_TEST

/* A shape that an old cuDNN does not run is logged once, in one line. */
START_TEST(a_failed_plan_is_logged_once)
{
    char said[4096] = "", *place = NULL;
    FILE *log = tmpfile();
    int before = dup(STDERR_FILENO);
    ck_assert_ptr_nonnull(log);
    setenv("CSPEED_EMULATOR_CUDNN", "91500", 1);
    if (enter(FAKE)) {
        attention it = make(CS_BF16, (attention_case){ .B = 1, .T = 18, .queries = 1, .keys = 1, .D = 64 });
        ce_log_open(CE_LOG_INFO, 0);
        dup2(fileno(log), STDERR_FILENO);
        ck_assert_int_eq(forward(&it) + backward(&it) + backward(&it), 1);
        dup2(before, STDERR_FILENO);
        rewind(log);
        said[fread(said, 1, sizeof said - 1, log)] = '\0';
        place = strstr(said, "not by cuDNN: its version 91500 computes wrong");
        ck_assert_msg(place && !strstr(place + 1, "not by cuDNN"), "%s", said);
        drop(&it);
        leave();
    }
    unsetenv("CSPEED_EMULATOR_CUDNN");
    close(before);
    fclose(log);
}
END_TEST

SUITE_MAIN_APART("cudnn", graphs_compute_attention, both_implementations_are_interchangeable,
                 other_shapes_run_by_own_kernels, unaligned_rows_run_by_own_kernels, without_cudnn_own_kernels_run,
                 pieces_have_the_bits_of_the_whole, too_large_a_workspace_runs_by_own_kernels,
                 a_failed_plan_is_logged_once)
