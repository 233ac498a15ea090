/* test_traffic.c - device memory traffic of each operation, on the instrumented emulated module, compared with the
 * minimum: every input read once, every output written once.
 *
 * Traffic is counted in sectors of 32 bytes. A sector counts when a warp accesses it for the first time since the
 * warp's last synchronization (a barrier or a warp-wide call). So a sector that a GPU may read from a cache counts
 * again, and the traffic does not depend on the size of a cache. Every row reads weights and biases, therefore a ratio
 * above 1 is not always a fault. After a change of a kernel, run this program, which prints a table. Then set `max` of
 * the kernel's operation to the ratio in the column "moved", rounded up a little. */
#include "near.h"
#include "suite.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "cspeed/ops.h"
#include "device/state.h"
#include "emulator/traffic.h"

/* N, C: rows and columns of an activation. M, V: rows and columns of logits. P: number of parameters. T, HEADS, D: one
 * sequence's length, heads, and columns of a head. E, K: number of experts, and of experts of a row. RANK: the rank of
 * an adapter. PAIRS: number of pairs of answers. CACHE: rows of a key-value cache. MAX_COUNT: the greatest number of
 * tensors. */
enum {
    N = 256,
    C = 768,
    V = 8192,
    M = 64,
    P = 40000,
    T = 256,
    HEADS = 4,
    D = 64,
    E = 64,
    K = 4,
    RANK = 16,
    PAIRS = 8,
    CACHE = 1024,
    MAX_COUNT = 10
};

/* The accesses to a tensor that an operation needs. */
enum { NOTHING, READ, WRITE, BOTH };

typedef struct {
    cs_dtype dtype;
    int64_t rows, columns;
    int use;
} tensor;

typedef void work(cs_stream *stream, const cs_tensor *t);

typedef struct {
    const char *name;
    work *run;
    double max; /* greatest allowed quotient: bytes moved, divided by the fewest bytes that the operation must move */
    tensor tensors[MAX_COUNT];
} row;

static bool only_sort; /* in this row only the traffic of the sort counts */

/* ---- the operations, on the tensors of their row in the table ---- */

static void norm(cs_stream *stream, const cs_tensor *t)
{
    cs_op_norm(stream, t[0], t[1], t[2], t[3], t[4], 1e-5f);
}

static void norm_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_op_norm_grad(stream, t[0], t[1], t[2], t[3], t[4], t[5], t[6]);
}

static void add_norm(cs_stream *stream, const cs_tensor *t)
{
    cs_addition x = { .sum = t[5], .a = t[6], .b = t[2] };
    cs_op_add_norm(stream, t[0], t[1], &x, t[3], t[4], 1e-5f);
}

static void norm_grad_add(cs_stream *stream, const cs_tensor *t)
{
    cs_op_norm_grad_add(stream, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]);
}

static void rms(cs_stream *stream, const cs_tensor *t)
{
    cs_op_rms(stream, t[0], t[1], t[2], t[3], 0, 1e-5f);
}

static void rms_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_op_rms_grad(stream, t[0], t[1], t[2], t[3], t[4], t[5], 0);
}

static void add(cs_stream *stream, const cs_tensor *t)
{
    cs_op_add(stream, t[0], t[1], t[2]);
}

static void gelu(cs_stream *stream, const cs_tensor *t)
{
    cs_op_gelu(stream, t[0], t[1]);
}

static void gelu_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_op_gelu_grad(stream, t[0], t[1], t[2]);
}

static void swiglu(cs_stream *stream, const cs_tensor *t)
{
    cs_op_swiglu(stream, t[0], t[1]);
}

static void swiglu_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_op_swiglu_grad(stream, t[0], t[1], t[2]);
}

static void softcap(cs_stream *stream, const cs_tensor *t)
{
    cs_op_softcap(stream, t[0], t[1], 30);
}

static void softcap_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_op_softcap_grad(stream, t[0], t[1], t[2], 30);
}

static void regroup(cs_stream *stream, const cs_tensor *t)
{
    cs_op_ungroup_heads(stream, t[0], t[1], (cs_heads){ .queries = C / D - 4, .keys = 2 });
}

static void rope(cs_stream *stream, const cs_tensor *t)
{
    static const cs_rope turn = { .width = D, .factor = 1, .frequency = { 1 } };
    cs_op_rope(stream, t[0], &turn, (cs_rope_rows){ C / D, N, 0 });
}

/* Cross entropy of V classes. If t[3] is given (the gradient of each row's loss), the operation overwrites the logits
 * with the gradient of the logits. */
static void cross_entropy(cs_stream *stream, const cs_tensor *t)
{
    cs_op_cross_entropy(stream, t[0], t[1], t[2], V, t[3]);
}

static void hits(cs_stream *stream, const cs_tensor *t)
{
    cs_op_hits(stream, t[0], t[1], t[2], V);
}

static void squared_error(cs_stream *stream, const cs_tensor *t)
{
    cs_op_squared_error(stream, t[0], t[1], t[2]);
}

static void squared_error_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_op_squared_error_grad(stream, t[0], t[1], t[2], t[3]);
}

static void absolute_error(cs_stream *stream, const cs_tensor *t)
{
    cs_op_absolute_error(stream, t[0], t[1], t[2]);
}

static void absolute_error_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_op_absolute_error_grad(stream, t[0], t[1], t[2], t[3]);
}

static void dropout(cs_stream *stream, const cs_tensor *t)
{
    cs_op_dropout(stream, t[0], t[1], (cs_dropout){ .rate = 0.1f, .place = 5, .keys = t[2].data, .batch = 1 });
}

static void add_dropout(cs_stream *stream, const cs_tensor *t)
{
    cs_op_add_dropout(stream, t[0], t[1], t[2],
                      (cs_dropout){ .rate = 0.1f, .place = 5, .keys = t[3].data, .batch = 1 });
}

static void add_columns(cs_stream *stream, const cs_tensor *t)
{
    cs_op_add_columns(stream, t[0], C, t[1], 2);
}

static void take_columns(cs_stream *stream, const cs_tensor *t)
{
    cs_op_take_columns(stream, t[1], t[0], C, 2);
}

static void embed(cs_stream *stream, const cs_tensor *t)
{
    cs_op_embed(stream, t[0], t[1], t[2], CS_WHOLE_TABLE, t[3], (cs_tensor){ 0 });
}

static void embed_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_op_embed_grad(stream, t[0], CS_WHOLE_TABLE, t[1], t[2], t[3], (cs_tensor){ 0 }, -1);
}

static void sort_tokens(cs_stream *stream, const cs_tensor *t)
{
    only_sort = true;
    embed_grad(stream, t);
}

/* The traffic of the product itself is not counted. */
static void bias_sums(cs_stream *stream, const cs_tensor *t)
{
    cs_op_matmul_grad_weight(stream, t[2], t[0], t[3], t[1], CS_IN_OUT);
}

static cs_dora dora_of(const cs_tensor *t, cs_layout layout)
{
    return (
        cs_dora){ .weight = t[1], .layout = layout, .a = t[2], .b = t[3], .magnitude = t[4], .bias = t[5], .scale = 2 };
}

static void dora_norms_of_rows(cs_stream *stream, const cs_tensor *t)
{
    cs_dora dora = dora_of(t, CS_OUT_IN);
    cs_op_dora_norms(stream, t[0], &dora);
}

static void dora_norms_of_columns(cs_stream *stream, const cs_tensor *t)
{
    cs_dora dora = dora_of(t, CS_IN_OUT);
    cs_op_dora_norms(stream, t[0], &dora);
}

static void dora(cs_stream *stream, const cs_tensor *t)
{
    cs_dora dora = dora_of(t, CS_OUT_IN);
    cs_op_dora(stream, t[6], t[7], t[0], &dora);
}

static void dora_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_dora dora = dora_of(t, CS_OUT_IN);
    cs_op_dora_grad(stream, t[6], t[8], t[7], t[0], &dora);
}

static void update(cs_stream *stream, const cs_tensor *t, int kind)
{
    ce_optim_settings settings = { .kind = kind,
                                   .rate = 0.01,
                                   .betas = { 0.9, 0.95 },
                                   .epsilon = 1e-8,
                                   .weight_decay = 0.1,
                                   .momentum = 0.9,
                                   .bias_correction = true };
    static const ce_state_range all = { .to = P, .decays = 1 };
    ce_optimizer optimizer = ce_optim_find(&settings);
    ce_state_rows state = { .master = t[0],
                            .gradient = t[1],
                            .slots = { t[2], t[3] },
                            .publish = t[4],
                            .ranges = { .table = t[5].data, .count = 1, .tiles = ce_state_tiles((ce_range){ 0, P }) } };
    ce_stream_copy(stream, t[5].data, &all, sizeof all);
    ce_state_update(stream, &optimizer, ce_optim_hyper(&settings, 0.01, 3, 0.5), &state);
}

static void adamw(cs_stream *stream, const cs_tensor *t)
{
    update(stream, t, CE_OPTIM_ADAMW);
}

static void sgd(cs_stream *stream, const cs_tensor *t)
{
    update(stream, t, CE_OPTIM_SGD);
}

static void lion(cs_stream *stream, const cs_tensor *t)
{
    update(stream, t, CE_OPTIM_LION);
}

static void init(cs_stream *stream, const cs_tensor *t)
{
    ce_state_init(stream, t[0].data, (cs_init){ CS_NORMAL, 0.02f }, 5, (ce_state_places){ 0 }, P);
}

static void fill(cs_stream *stream, const cs_tensor *t)
{
    cs_op_fill(stream, t[0], 3);
}

static void seed(cs_stream *stream, const cs_tensor *t)
{
    ce_state_seed(stream, t[0], t[1].data, 2);
}

static void cast(cs_stream *stream, const cs_tensor *t)
{
    cs_op_cast(stream, t[0], t[1]);
}

static void narrow(cs_stream *stream, const cs_tensor *t)
{
    ce_state_convert(stream, t[0], t[1], 0.75f);
}

static void add_state(cs_stream *stream, const cs_tensor *t)
{
    ce_state_add(stream, t[0], t[1]);
}

static void sum_losses(cs_stream *stream, const cs_tensor *t)
{
    ce_state_sum(stream, t[0].data, t[1].data, P);
}

static void add_counts(cs_stream *stream, const cs_tensor *t)
{
    ce_state_add_counts(stream, t[0].data, t[1].data, P);
}

static void sum_squares(cs_stream *stream, const cs_tensor *t)
{
    ce_state_sum_squares(stream, t[0].data, t[1], 0, 1);
}

static void preference(cs_stream *stream, const cs_tensor *t)
{
    ce_preference_rows rows = { .rule = { .beta = 0.1, .ld_alpha = 1 },
                                .losses = t[0],
                                .targets = t[1],
                                .references = t[2],
                                .weights = t[3],
                                .facts = t[4] };
    ce_state_preference(stream, &rows);
}

static const cs_heads heads = { .queries = HEADS, .keys = HEADS };

static void attention(cs_stream *stream, const cs_tensor *t)
{
    cs_op_attention(stream, t[0], t[1], t[2], heads, (cs_dropout){ .batch = 1 });
}

static void attention_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_op_attention_grad(stream, t[0], t[1], t[2], t[3], t[4], heads, (cs_dropout){ .batch = 1 });
}

static void extend(cs_stream *stream, const cs_tensor *t)
{
    cs_op_attention_extend(stream, t[0], (cs_tensor){ 0 }, t[1], t[2], t[3], heads, CACHE - 1);
}

/* The traffic includes that of sorting the slots. A number that is stored at a slot counts as a sector of 32 bytes. */
static void route(cs_stream *stream, const cs_tensor *t)
{
    cs_routing routing = { .rows = t[2], .slots = t[3], .bounds = t[4], .tokens = t[5], .probabilities = t[6] };
    cs_op_route(stream, &routing, t[0], t[1], true);
}

static void route_and_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_routing routing = { .rows = t[2], .slots = t[3], .bounds = t[4] };
    route(stream, t);
    cs_op_route_grad(stream, t[7], &routing, t[8], t[9], t[1], true);
}

static void take_slots(cs_stream *stream, const cs_tensor *t)
{
    cs_op_take_slots(stream, t[0], t[1], &(cs_routing){ .rows = t[2], .slots = t[3] });
}

static void add_slots(cs_stream *stream, const cs_tensor *t)
{
    cs_op_add_slots(stream, t[1], t[0], &(cs_routing){ .rows = t[2], .slots = t[3] });
}

static void scale_rows(cs_stream *stream, const cs_tensor *t)
{
    cs_op_scale_rows(stream, t[0], t[1], t[2], false);
}

static void scale_rows_grad(cs_stream *stream, const cs_tensor *t)
{
    cs_op_scale_rows_grad(stream, t[0], t[1], t[2], t[3], t[4], false);
}

/* t[3]: the bounds of two experts' slots; t[4]: the rows of the slots. Expert 0 has 100 of N slots, or 3 of 8. */
static cs_routing two_experts(cs_stream *stream, const cs_tensor *t)
{
    int32_t slots = (int32_t)cs_rows(t[4]), bounds[] = { 0, slots < N ? 3 : 100, slots };
    ce_stream_copy(stream, t[3].data, bounds, sizeof bounds);
    ce_stream_sync(stream);
    return (cs_routing){ .rows = t[4], .bounds = t[3] };
}

static void experts(cs_stream *stream, const cs_tensor *t)
{
    cs_routing routing = two_experts(stream, t);
    cs_op_experts(stream, t[0], t[1], t[2], CS_OUT_IN, &routing);
}

static void experts_grad_input(cs_stream *stream, const cs_tensor *t)
{
    cs_routing routing = two_experts(stream, t);
    cs_op_experts_grad_input(stream, t[0], t[1], t[2], CS_OUT_IN, &routing);
}

static void experts_grad_weight(cs_stream *stream, const cs_tensor *t)
{
    cs_routing routing = two_experts(stream, t);
    cs_op_experts_grad_weight(stream, t[0], t[1], t[2], CS_OUT_IN, &routing);
}

/* ---- the table ---- */

#define X                                                                                                              \
    {                                                                                                                  \
        CS_BF16, N, C, READ                                                                                            \
    } /* an activation */
#define Y                                                                                                              \
    {                                                                                                                  \
        CS_BF16, N, C, WRITE                                                                                           \
    }
#define WEIGHT                                                                                                         \
    {                                                                                                                  \
        CS_BF16, 0, C, READ                                                                                            \
    } /* a vector */
#define DWEIGHT                                                                                                        \
    {                                                                                                                  \
        CS_F32, 0, C, BOTH                                                                                             \
    }
#define FACTORS(use)                                                                                                   \
    { CS_BF16, C, C, use }, { CS_BF16, RANK, C, use },                                                                 \
    {                                                                                                                  \
        CS_BF16, C, RANK, use                                                                                          \
    } /* a weight, A and B */
#define QKV(use)                                                                                                       \
    {                                                                                                                  \
        CS_BF16, T, 3 * HEADS *D, use                                                                                  \
    }
#define HEAD_ROWS(use)                                                                                                 \
    {                                                                                                                  \
        CS_BF16, T, HEADS *D, use                                                                                      \
    }
#define SLOTS(use)                                                                                                     \
    {                                                                                                                  \
        CS_BF16, N *K, C, use                                                                                          \
    }
#define ROW_NUMBERS(use)                                                                                               \
    {                                                                                                                  \
        CS_F32, N, 1, use                                                                                              \
    } /* a number for each row */
#define WIDE                                                                                                           \
    {                                                                                                                  \
        CS_BF16, N, 3 * C, NOTHING                                                                                     \
    } /* a matrix, of which a third is used */
#define STATE(use)                                                                                                     \
    {                                                                                                                  \
        CS_F32, 1, P, use                                                                                              \
    }
#define RANGE                                                                                                          \
    {                                                                                                                  \
        CS_I64, 1, (int64_t)sizeof(ce_state_range) / 8, READ                                                           \
    }
#define CACHED                                                                                                         \
    {                                                                                                                  \
        CS_BF16, CACHE, HEADS *D, READ                                                                                 \
    }
#define ROUTING                                                                                                        \
    { CS_F32, N * K, 1, WRITE }, { CS_BF16, N, E, READ }, { CS_I32, N * K, 1, WRITE }, { CS_I32, N, K, WRITE },        \
        { CS_I32, 0, E + 1, WRITE }, { CS_I32, 0, E, WRITE },                                                          \
    {                                                                                                                  \
        CS_F32, 0, E, WRITE                                                                                            \
    }

#define MATRIX(count, columns, use)                                                                                    \
    {                                                                                                                  \
        CS_BF16, count, columns, use                                                                                   \
    }
#define TWO_EXPERTS(count)                                                                                             \
    { CS_I32, 0, 3, READ },                                                                                            \
    {                                                                                                                  \
        CS_I32, count, 1, NOTHING                                                                                      \
    }

static const row rows[] = {
    { "norm", norm, 2.01, { Y, { CS_F32, N, 2, WRITE }, X, WEIGHT, WEIGHT } },
    { "norm gradient", norm_grad, 1.68, { Y, DWEIGHT, DWEIGHT, X, X, { CS_F32, N, 2, READ }, WEIGHT } },
    { "residual and norm", add_norm, 1.51, { Y, { CS_F32, N, 2, WRITE }, X, WEIGHT, WEIGHT, Y, X } },
    { "norm gradient and residual",
      norm_grad_add,
      1.51,
      { Y, DWEIGHT, DWEIGHT, X, X, { CS_F32, N, 2, READ }, WEIGHT, X } },
    { "rms", rms, 1.52, { Y, { CS_F32, N, 1, WRITE }, X, WEIGHT } },
    { "rms gradient", rms_grad, 1.52, { Y, DWEIGHT, X, X, { CS_F32, N, 1, READ }, WEIGHT } },
    { "residual", add, 1.01, { Y, X, X } },
    { "gelu", gelu, 1.01, { Y, X } },
    { "gelu gradient", gelu_grad, 1.01, { Y, X, X } },
    { "swiglu", swiglu, 1.01, { Y, { CS_BF16, N, 2 * C, READ } } },
    { "swiglu gradient", swiglu_grad, 1.01, { { CS_BF16, N, 2 * C, WRITE }, X, { CS_BF16, N, 2 * C, READ } } },
    { "soft cap", softcap, 1.01, { Y, X } },
    { "soft cap gradient", softcap_grad, 1.01, { Y, X, X } },
    { "order of heads", regroup, 1.01, { Y, X } },
    { "rope", rope, 1.01, { { CS_BF16, N, C, BOTH } } },
    { "cross entropy",
      cross_entropy,
      1.04,
      { { CS_F32, M, 1, WRITE }, { CS_BF16, M, V, READ }, { CS_I32, 0, M, READ } } },
    { "cross entropy and its gradient",
      cross_entropy,
      1.04,
      { { CS_F32, M, 1, WRITE }, { CS_BF16, M, V, BOTH }, { CS_I32, 0, M, READ }, { CS_F32, M, 1, READ } } },
    { "hits", hits, 1.04, { { CS_F32, M, 1, WRITE }, { CS_BF16, M, V, READ }, { CS_I32, 0, M, READ } } },
    { "squared error", squared_error, 1.01, { ROW_NUMBERS(WRITE), X, { CS_F32, N, C, READ } } },
    { "squared error gradient", squared_error_grad, 1.03, { Y, ROW_NUMBERS(READ), X, { CS_F32, N, C, READ } } },
    { "absolute error", absolute_error, 1.01, { ROW_NUMBERS(WRITE), X, { CS_F32, N, C, READ } } },
    { "absolute error gradient", absolute_error_grad, 1.03, { Y, ROW_NUMBERS(READ), X, { CS_F32, N, C, READ } } },
    { "dropout", dropout, 1.04, { Y, X, { CS_I64, 1, 1, READ } } },
    { "residual and dropout", add_dropout, 1.03, { Y, X, X, { CS_I64, 1, 1, READ } } },
    { "sum into columns", add_columns, 1.01, { WIDE, X, { CS_BF16, N, C, BOTH } } },
    { "columns", take_columns, 1.51, { WIDE, Y, X } },
    { "embedding", embed, 1.03, { Y, { CS_I32, 1, N, READ }, X, X } },
    { "embedding gradient",
      embed_grad,
      1.14,
      { { CS_F32, N, C, BOTH }, { CS_F32, N, C, BOTH }, X, { CS_I32, 1, N, READ } } },
    { "sort of tokens",
      sort_tokens,
      4.8,
      { { CS_F32, N, C, NOTHING },
        { 0 },
        { CS_BF16, N, C, NOTHING },
        { CS_I32, 1, N, READ },
        { CS_I64, 1, N, WRITE } /* the sorted keys and row numbers */ } },
    { "bias sums", bias_sums, 1.07, { DWEIGHT, X, { CS_F32, 1, C, NOTHING }, { CS_BF16, N, 1, NOTHING } } },
    { "bias sums of a product",
      bias_sums,
      1.51,
      { { CS_F32, 1, 256, BOTH },
        { CS_BF16, 32, 256, NOTHING },
        { CS_F32, 256, 256, NOTHING },
        { CS_BF16, 32, 256, NOTHING } } },
    { "norms of rows for dora",
      dora_norms_of_rows,
      1.48,
      { { CS_F32, 0, C, WRITE }, FACTORS(READ), { CS_BF16, 0, C, NOTHING } } },
    { "norms of columns for dora",
      dora_norms_of_columns,
      1.63,
      { { CS_F32, 0, C, WRITE }, FACTORS(READ), { CS_BF16, 0, C, NOTHING } } },
    { "dora",
      dora,
      1.13,
      { { CS_F32, 0, C, READ }, FACTORS(NOTHING), WEIGHT, WEIGHT, { CS_BF16, N, C, BOTH }, { CS_BF16, N, C, BOTH } } },
    { "dora gradient",
      dora_grad,
      1.15,
      { { CS_F32, 0, C, READ }, FACTORS(NOTHING), WEIGHT, WEIGHT, { CS_BF16, N, C, BOTH }, X, DWEIGHT } },
    { "adamw", adamw, 1.01, { STATE(BOTH), STATE(READ), STATE(BOTH), STATE(BOTH), { CS_BF16, 1, P, WRITE }, RANGE } },
    { "sgd", sgd, 1.02, { STATE(BOTH), STATE(READ), STATE(BOTH), { 0 }, { CS_BF16, 1, P, WRITE }, RANGE } },
    { "lion", lion, 1.02, { STATE(BOTH), STATE(READ), STATE(BOTH), { 0 }, { CS_BF16, 1, P, WRITE }, RANGE } },
    { "initial values", init, 1.01, { STATE(WRITE) } },
    { "gradient of the loss", seed, 1.04, { STATE(WRITE), { CS_I64, 1, 1, READ } } },
    { "fill", fill, 1.01, { { CS_BF16, 1, P, WRITE } } },
    { "cast", cast, 1.01, { { CS_BF16, 1, P, WRITE }, { CS_F32, 1, P, READ } } },
    { "narrow", narrow, 1.01, { { CS_BF16, 1, P, WRITE }, { CS_F32, 1, P, READ } } },
    { "sum of gradients", add_state, 1.01, { { CS_F32, 1, P, BOTH }, { CS_BF16, 1, P, READ } } },
    { "sum of squares",
      sum_squares,
      1.01,
      { { CS_I64, 1, (int64_t)sizeof(ce_exact) / 8, BOTH }, { CS_F32, 1, P, READ } } },
    { "sum of losses",
      sum_losses,
      1.01,
      { { CS_I64, 1, (int64_t)sizeof(ce_exact) / 8, BOTH }, { CS_F32, 1, P, READ } } },
    { "sum of counts", add_counts, 1.01, { { CS_I64, 1, P, BOTH }, { CS_I32, 1, P, READ } } },
    { "preferences",
      preference,
      1.11,
      { { CS_F32, 2 * PAIRS *T, 1, READ },
        { CS_I32, 2 * PAIRS, T, READ },
        { CS_F32, 0, 2 * PAIRS, READ },
        { CS_F32, 2 * PAIRS *T, 1, BOTH },
        { CS_F32, CE_PREFERENCE_FACTS, PAIRS, WRITE } } },
    { "attention to a cache",
      extend,
      1.01,
      { { CS_BF16, 1, HEADS *D, WRITE }, { CS_BF16, 1, 3 * HEADS *D, READ }, CACHED, CACHED } },
    { "attention", attention, 1.26, { HEAD_ROWS(WRITE), { CS_F32, HEADS, T, WRITE }, QKV(READ) } },
    { "attention gradient",
      attention_grad,
      1.93,
      { QKV(WRITE), HEAD_ROWS(READ), HEAD_ROWS(READ), { CS_F32, HEADS, T, READ }, QKV(READ) } },
    { "routing", route, 4.1, { ROUTING } },
    { "routing and its gradient",
      route_and_grad,
      5,
      { ROUTING, { CS_BF16, N, E, WRITE }, { CS_F32, N *K, 1, READ }, { CS_F32, 0, E, READ } } },
    { "rows to slots", take_slots, 1.62, { SLOTS(WRITE), X, { CS_I32, N *K, 1, READ }, { CS_I32, N, K, NOTHING } } },
    { "sums of slots", add_slots, 1.02, { SLOTS(READ), Y, { CS_I32, N *K, 1, NOTHING }, { CS_I32, N, K, READ } } },
    { "factors of rows", scale_rows, 1.04, { Y, X, { CS_F32, N, 1, READ } } },
    { "gradient of factors of rows",
      scale_rows_grad,
      1.02,
      { Y, { CS_F32, N, 1, WRITE }, X, X, { CS_F32, N, 1, READ } } },
    { "experts",
      experts,
      1.21,
      { MATRIX(N, 128, WRITE), MATRIX(N, 256, READ), { CS_BF16, 2 * 128, 256, READ }, TWO_EXPERTS(N) } },
    { "experts, few slots",
      experts,
      1.02,
      { MATRIX(8, 256, WRITE), MATRIX(8, 256, READ), { CS_BF16, 2 * 256, 256, READ }, TWO_EXPERTS(8) } },
    { "experts gradient",
      experts_grad_input,
      1.21,
      { MATRIX(N, 128, WRITE), MATRIX(N, 256, READ), { CS_BF16, 2 * 256, 128, READ }, TWO_EXPERTS(N) } },
    { "experts weight gradient",
      experts_grad_weight,
      1.01,
      { { CS_F32, 2 * 128, 128, BOTH }, MATRIX(N, 128, READ), MATRIX(N, 128, READ), TWO_EXPERTS(N) } },
};

/* ---- measuring ---- */

static int (*list_traffic)(const emulator_traffic **rows);
static void (*clear_traffic)(void);

static cs_tensor new_tensor(tensor like)
{
    int64_t count = like.rows ? like.rows : 1;
    bool real = like.dtype <= CS_F16;
    cs_tensor x =
        real ? near_random(like.dtype, count, like.columns, 1, 0.5) : near_new(like.dtype, count, like.columns);
    for (int64_t i = 0; like.dtype == CS_I32 && i < cs_count(x); i++)
        ((int32_t *)x.data)[i] = (int32_t)(i * 7 % N);
    return x;
}

static double fewest_bytes(const row *it)
{
    int64_t bytes = 0;
    for (int i = 0; i < MAX_COUNT; i++) {
        tensor one = it->tensors[i];
        int64_t times = one.use == BOTH ? 2 : one.use != NOTHING;
        bytes += times * (one.rows ? one.rows : 1) * one.columns * (int64_t)cs_dtype_bytes(one.dtype);
    }
    return (double)bytes;
}

static bool is_counted(const char *kernel)
{
    if (only_sort)
        return strstr(kernel, "count_digits") || strstr(kernel, "scatter_keys");
    return strcmp(kernel, "a product") != 0;
}

static double moved_bytes(void)
{
    const emulator_traffic *all;
    uint64_t sectors = 0;
    for (int i = list_traffic(&all) - 1; i >= 0; i--)
        if (is_counted(all[i].name))
            sectors += all[i].read.sectors + all[i].written.sectors;
    return 32 * (double)sectors;
}

static double measure(const row *it, cs_stream *stream)
{
    cs_tensor here[MAX_COUNT], there[MAX_COUNT];
    for (int i = 0; i < MAX_COUNT; i++) {
        here[i] = it->tensors[i].columns ? new_tensor(it->tensors[i]) : (cs_tensor){ 0 };
        there[i] = near_at(here[i]);
        if (here[i].data && !it->tensors[i].rows)
            there[i] = cs_vector(there[i].data, there[i].dtype, cs_count(there[i]));
    }
    only_sort = false;
    it->run(stream, there); /* tunes products and allocates workspaces */
    ce_stream_sync(stream);
    clear_traffic();
    it->run(stream, there);
    ce_stream_sync(stream);
    double moved = moved_bytes();
    for (int i = 0; i < MAX_COUNT; i++)
        if (here[i].data)
            near_free(here[i]);
    return moved / fewest_bytes(it);
}

static cs_stream *open_instrumented(void)
{
    const char *path = CS_BIN "/libcspeed_cuda_emulated_instrumented.so";
    if (access(path, R_OK) != 0) {
        printf("traffic: skipped, %s was not built\n", path);
        return NULL;
    }
    setenv("CSPEED_CUDA_MODULE", path, 1);
    setenv("CSPEED_TEST_DEVICE", "cuda", 1);
    setenv("CSPEED_CUDNN", "none", 1);
    cs_device *device = near_open(1);
    void *module = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    *(void **)&list_traffic = dlsym(module, "emulator_traffic_rows");
    *(void **)&clear_traffic = dlsym(module, "emulator_traffic_clear");
    ck_assert(list_traffic && clear_traffic);
    return ce_device_stream(device, CE_COMPUTE);
}

START_TEST(kernels_move_few_bytes)
{
    cs_stream *stream = open_instrumented();
    int above = 0;
    if (!stream)
        return;
    printf("%-28s %14s %8s %8s\n", "operation", "fewest bytes", "moved", "most");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double ratio = measure(&rows[i], stream);
        bool fits = ratio <= rows[i].max;
        printf("%-28s %14.0f %8.3f %8.3f%s\n", rows[i].name, fewest_bytes(&rows[i]), ratio, rows[i].max,
               fits ? "" : "  too many");
        above += !fits;
    }
    near_close();
    fflush(stdout);
    ck_assert_int_eq(above, 0);
}
END_TEST

SUITE_MAIN_APART("traffic", kernels_move_few_bytes)
