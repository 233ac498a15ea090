/* bench_ops.c - the rate of every operation with the shapes of GPT-2 124M, 4 x 256 tokens, in fp32, in bf16, and in
 * bf16 with native products where the CPU has them. The rate is compared with a roof that the same run measures. For
 * matrix products and attention, the roof is the rate of matrix products; of attention, only the scores that the causal
 * mask keeps are counted. For all other operations, the roof is the rate of a copy, whose bytes read and bytes written
 * are counted; an operation whose data fits into a cache may be faster than this roof. The last column is the
 * operation's share of the time of all operations of a training step without dropout (AdamW). On a GPU, an operation is
 * queued so many times that the calls take some milliseconds together, and the host waits once at the end. With
 * CSPEED_CUDNN=none in the environment, attention on a GPU uses the engine's own kernels instead of cuDNN. The products
 * of experts have shapes of their own.
 *
 *     bench_ops [--device KIND] [--only NAME] [--way fp32|bf16|native] [THREADS [SAMPLES LENGTH]]
 *
 * --only runs the operations whose names begin with NAME; their roof is then the rate of the largest of them. */
#include "bench.h"
#include "base/clock.h"
#include "base/must.h"
#include "device/device.h"
#include "cspeed/ops.h"
#include "device/products.h"
#include "device/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 768, HEADS = 12, VOCABULARY = 50304, STATE = 8 << 20, LONG = 16 << 20, NEAR = 128 };

static cs_device *device;
static cs_stream *stream;
static int64_t B = 4, T = 256, N;
static cs_dtype dtype;
static double copy_rate;
static const char *only = ""; /* the value of --only */
static int measured;          /* number of operations that --only chose */
static char others[4096];     /* the names of the operations that it did not choose */
static uint64_t *keys;        /* each sample's key for the random numbers of dropout, in device memory */
static cs_tensor starts;      /* first token of each token's document; a document has NEAR tokens */
static cs_rope turns = { .width = WIDTH / HEADS, .factor = 1 };
static const cs_tensor absent;

/* A mixture of experts: `tokens` rows, each of which goes to `chosen` experts. An expert's matrix is (2 hidden, width),
 * its gate and up projections. */
typedef struct {
    int64_t tokens, experts, chosen, width, hidden;
} mixture;
static const mixture small_mixture = { 256, 8, 2, 512, 256 }, large_mixture = { 4096, 64, 8, 2048, 1024 };

/* The tensors that the operations use, allocated once for each type. */
static struct {
    cs_tensor x, y, wide, wide2, qkv, dqkv, w, dw, bias, dbias, table, dtable, logits, tokens, stats, loss, dloss;
    cs_tensor head_lse;
    float *state[4];
    ce_exact *sum;
    ce_state_ranges ranges;                /* ranges that cover the whole state */
    cs_tensor own_x, own_h, own_w, own_dw; /* the slots and the matrices of experts */
    cs_routing routing, few;               /* few: the routing of one token */
} on;

static cs_tensor make(cs_dtype type, int64_t rows, int64_t columns)
{
    size_t bytes = (size_t)(rows * columns) * cs_dtype_bytes(type);
    cs_tensor x = cs_matrix(ce_device_alloc(device, bytes), type, rows, columns);
    if (type <= CS_F16)
        cs_op_fill(stream, x, 0.01f); /* memory that was never written would be read from one shared page of zeros */
    return x;
}

/* Copies the caller's host memory to new memory of the device. */
static void *bring(const void *from, size_t bytes)
{
    void *there = ce_device_alloc(device, bytes);
    ce_stream_copy(stream, there, from, bytes);
    ce_stream_sync(stream);
    return there;
}

/* Makes the arguments that do not depend on the type: `keys`, rotary frequencies, starts of documents. */
static void make_small(void)
{
    uint64_t numbers[64];
    int32_t *begins = malloc((size_t)N * sizeof *begins);
    CE_ASSERT(begins);
    for (int i = 0; i < 64; i++)
        numbers[i] = (uint64_t)i + 1;
    for (int64_t i = 0; i < N; i++)
        begins[i] = (int32_t)(i % T / NEAR * NEAR);
    for (int i = 0; i < WIDTH / HEADS / 2; i++)
        turns.frequency[i] = (float)pow(10000, -2.0 * i * HEADS / WIDTH);
    keys = bring(numbers, sizeof numbers);
    starts = cs_matrix(bring(begins, (size_t)N * sizeof *begins), CS_I32, B, T);
    free(begins);
}

/* Fills x with normally distributed numbers. Earlier operations may have left large numbers in x, and such numbers make
 * some operations slow. */
static void refill(cs_tensor x)
{
    float *values = ce_device_alloc(device, (size_t)cs_count(x) * sizeof *values);
    ce_state_init(stream, values, (cs_init){ CS_NORMAL, 0.5f }, 1, (ce_state_places){ 0 }, cs_count(x));
    cs_op_cast(stream, x, cs_vector(values, CS_F32, cs_count(x)));
    ce_stream_sync(stream);
    ce_device_free(device, values);
}

static void refill_all(void)
{
    const cs_tensor all[] = { on.x, on.y, on.wide, on.qkv, on.w, on.bias };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        refill(all[i]);
    cs_op_fill(stream, on.logits, 0.1f);
}

static void make_all(void)
{
    on.x = make(dtype, N, WIDTH), on.y = make(dtype, N, WIDTH);
    on.wide = make(dtype, N, 4 * WIDTH), on.wide2 = make(dtype, N, 4 * WIDTH);
    on.qkv = make(dtype, N, 3 * WIDTH), on.dqkv = make(dtype, N, 3 * WIDTH);
    on.w = make(dtype, WIDTH, 4 * WIDTH), on.dw = make(CS_F32, WIDTH, 4 * WIDTH);
    on.bias = make(dtype, 1, 4 * WIDTH), on.dbias = make(CS_F32, 1, 4 * WIDTH);
    on.table = make(dtype, VOCABULARY, WIDTH), on.dtable = make(CS_F32, VOCABULARY, WIDTH);
    on.logits = make(dtype, N, VOCABULARY), on.tokens = make(CS_I32, B, T);
    on.stats = make(CS_F32, N, 2), on.loss = make(CS_F32, N, 1), on.dloss = make(CS_F32, N, 1);
    on.head_lse = make(CS_F32, B * HEADS, T);
    for (int i = 0; i < 4; i++)
        on.state[i] = make(CS_F32, 1, STATE).data;
    cs_op_fill(stream, cs_vector(on.state[1], CS_F32, STATE), 1e-3f); /* so that no moment becomes subnormal */
    on.sum = ce_device_alloc(device, sizeof *on.sum);
    ce_state_range whole = { .to = STATE, .decays = 1 };
    on.ranges = (ce_state_ranges){ .table = bring(&whole, sizeof whole),
                                   .count = 1,
                                   .tiles = ce_state_tiles((ce_range){ 0, STATE }) };
}

static mixture mixture_of(void)
{
    return ce_device_has_own_memory(device) ? large_mixture : small_mixture;
}

/* Makes the routing in which expert e has the slots bounds[e] to bounds[e + 1] - 1. */
static cs_routing make_routing(const int32_t *bounds, int64_t experts)
{
    size_t bytes = (size_t)(experts + 1) * sizeof *bounds;
    return (cs_routing){ .rows = make(CS_I32, bounds[experts], 1),
                         .bounds = cs_vector(bring(bounds, bytes), CS_I32, experts + 1) };
}

/* Half of the experts get 3/4 of the mean number of slots, and the others 5/4. A single token goes to the first
 * experts. */
static void make_experts(void)
{
    mixture sizes = mixture_of();
    int64_t slots = sizes.tokens * sizes.chosen, mean = slots / sizes.experts;
    int32_t bounds[CS_MAX_EXPERTS + 1], few[CS_MAX_EXPERTS + 1];
    for (int64_t e = 0; e <= sizes.experts; e++) {
        bounds[e] = (int32_t)(e * mean - e % 2 * (mean / 4));
        few[e] = (int32_t)(e < sizes.chosen ? e : sizes.chosen);
    }
    on.routing = make_routing(bounds, sizes.experts), on.few = make_routing(few, sizes.experts);
    on.own_x = make(dtype, slots, sizes.width), on.own_h = make(dtype, slots, 2 * sizes.hidden);
    on.own_w = make(dtype, sizes.experts * 2 * sizes.hidden, sizes.width);
    on.own_dw = make(CS_F32, sizes.experts * 2 * sizes.hidden, sizes.width);
    refill(on.own_x);
    refill(on.own_w);
}

static cs_tensor shaped(cs_tensor x, int64_t rows, int64_t columns)
{
    return cs_matrix(x.data, x.dtype, rows, columns);
}

static cs_tensor row(cs_tensor x, int64_t count)
{
    return cs_vector(x.data, x.dtype, count);
}

/* ---- the operations ---- */

static void run_copy(void)
{
    cs_op_cast(stream, row(on.dtable, LONG), cs_vector((float *)on.dtable.data + LONG, CS_F32, LONG));
}

#define PRODUCTS(name, K, M, x, y, bias, dbias, layout)                                                                \
    static void forward_##name(void)                                                                                   \
    {                                                                                                                  \
        cs_op_matmul(stream, y, x, name##_weight(), bias, layout);                                                     \
    }                                                                                                                  \
    static void input_##name(void)                                                                                     \
    {                                                                                                                  \
        cs_op_matmul_grad_input(stream, x, y, name##_weight(), layout);                                                \
    }                                                                                                                  \
    static void weight_##name(void)                                                                                    \
    {                                                                                                                  \
        cs_op_matmul_grad_weight(stream, name##_grad(), dbias, x, y, layout);                                          \
    }

#define WEIGHTS(name, weight, grad)                                                                                    \
    static cs_tensor name##_weight(void)                                                                               \
    {                                                                                                                  \
        return weight;                                                                                                 \
    }                                                                                                                  \
    static cs_tensor name##_grad(void)                                                                                 \
    {                                                                                                                  \
        return grad;                                                                                                   \
    }
WEIGHTS(qkv, shaped(on.w, WIDTH, 3 * WIDTH), shaped(on.dw, WIDTH, 3 * WIDTH))
WEIGHTS(proj, shaped(on.w, WIDTH, WIDTH), shaped(on.dw, WIDTH, WIDTH))
WEIGHTS(up, on.w, on.dw)
WEIGHTS(down, shaped(on.w, 4 * WIDTH, WIDTH), shaped(on.dw, 4 * WIDTH, WIDTH))
WEIGHTS(head, on.table, on.dtable)
PRODUCTS(qkv, WIDTH, 3 * WIDTH, on.x, on.qkv, row(on.bias, 3 * WIDTH), row(on.dbias, 3 * WIDTH), CS_IN_OUT)
PRODUCTS(proj, WIDTH, WIDTH, on.x, on.y, row(on.bias, WIDTH), row(on.dbias, WIDTH), CS_IN_OUT)
PRODUCTS(up, WIDTH, 4 * WIDTH, on.x, on.wide, row(on.bias, 4 * WIDTH), row(on.dbias, 4 * WIDTH), CS_IN_OUT)
PRODUCTS(down, 4 * WIDTH, WIDTH, on.wide, on.x, row(on.bias, WIDTH), row(on.dbias, WIDTH), CS_IN_OUT)
PRODUCTS(head, WIDTH, VOCABULARY, on.x, on.logits, absent, absent, CS_OUT_IN)

static void run_experts(void)
{
    cs_op_experts(stream, on.own_h, on.own_x, on.own_w, CS_OUT_IN, &on.routing);
}
static void run_experts_input(void)
{
    cs_op_experts_grad_input(stream, on.own_x, on.own_h, on.own_w, CS_OUT_IN, &on.routing);
}
static void run_experts_weight(void)
{
    cs_op_experts_grad_weight(stream, on.own_dw, on.own_x, on.own_h, CS_OUT_IN, &on.routing);
}

static void run_experts_few(void)
{
    int64_t slots = cs_count(on.few.rows);
    cs_op_experts(stream, shaped(on.own_h, slots, cs_columns(on.own_h)), shaped(on.own_x, slots, cs_columns(on.own_x)),
                  on.own_w, CS_OUT_IN, &on.few);
}

static cs_dropout dropout(float rate)
{
    return (cs_dropout){ .rate = rate, .place = 3, .keys = keys, .batch = B };
}
static const cs_heads all = { .queries = HEADS, .keys = HEADS };
static const cs_heads window = { .queries = HEADS, .keys = HEADS, .window = NEAR };
static cs_heads packed(void)
{
    return (cs_heads){ .queries = HEADS, .keys = HEADS, .starts = starts };
}
static void attend(cs_heads heads, float rate)
{
    cs_op_attention(stream, on.y, on.head_lse, on.qkv, heads, dropout(rate));
}
static void attend_back(cs_heads heads, float rate)
{
    cs_op_attention_grad(stream, on.dqkv, on.x, on.y, on.head_lse, on.qkv, heads, dropout(rate));
}
#define ATTENTION(name, heads, rate)                                                                                   \
    static void run_attention##name(void)                                                                              \
    {                                                                                                                  \
        attend(heads, rate);                                                                                           \
    }                                                                                                                  \
    static void run_attention_grad##name(void)                                                                         \
    {                                                                                                                  \
        attend_back(heads, rate);                                                                                      \
    }
ATTENTION(, all, 0)
ATTENTION(_drop, all, 0.1f)
ATTENTION(_window, window, 0)
ATTENTION(_packed, packed(), 0)
static void run_norm(void)
{
    cs_op_norm(stream, on.y, on.stats, on.x, row(on.bias, WIDTH), row(on.bias, WIDTH), 1e-5f);
}
static void run_norm_grad(void)
{
    cs_op_norm_grad(stream, shaped(on.qkv, N, WIDTH), row(on.dbias, WIDTH), row(on.dw, WIDTH), on.y, on.x, on.stats,
                    row(on.bias, WIDTH));
}
static cs_addition addition(void)
{
    return (cs_addition){ .sum = shaped(on.wide, N, WIDTH), .a = on.x, .b = shaped(on.wide2, N, WIDTH) };
}
static void run_add_norm(void)
{
    cs_addition sum = addition();
    cs_op_add_norm(stream, on.y, on.stats, &sum, row(on.bias, WIDTH), row(on.bias, WIDTH), 1e-5f);
}
static void run_norm_grad_add(void)
{
    cs_op_norm_grad_add(stream, shaped(on.qkv, N, WIDTH), row(on.dbias, WIDTH), row(on.dw, WIDTH), on.y, on.x, on.stats,
                        row(on.bias, WIDTH), shaped(on.wide, N, WIDTH));
}
static void run_rms(void)
{
    cs_op_rms(stream, on.y, shaped(on.stats, N, 1), on.x, row(on.bias, WIDTH), 0, 1e-5f);
}
static void run_rms_grad(void)
{
    cs_op_rms_grad(stream, shaped(on.qkv, N, WIDTH), row(on.dbias, WIDTH), on.y, on.x, shaped(on.stats, N, 1),
                   row(on.bias, WIDTH), 0);
}
static void run_rope(void)
{
    cs_op_rope(stream, on.qkv, &turns, (cs_rope_rows){ .heads = 2 * HEADS, .length = T });
}
static void run_swiglu(void)
{
    cs_op_swiglu(stream, shaped(on.wide2, N, 2 * WIDTH), on.wide);
}
static void run_swiglu_grad(void)
{
    cs_op_swiglu_grad(stream, on.wide2, shaped(on.dqkv, N, 2 * WIDTH), on.wide);
}
static void run_gelu(void)
{
    cs_op_gelu(stream, on.wide2, on.wide);
}
static void run_gelu_grad(void)
{
    cs_op_gelu_grad(stream, on.wide2, on.wide, on.wide);
}
static void run_add(void)
{
    cs_op_add(stream, on.wide2, on.wide, on.wide);
}
static void run_dropout(void)
{
    cs_op_dropout(stream, on.wide2, on.wide, dropout(0.1f));
}
static void run_add_dropout(void)
{
    cs_op_add_dropout(stream, on.wide2, on.wide2, on.wide, dropout(0.1f));
}
static void run_embed(void)
{
    cs_op_embed(stream, on.x, on.tokens, on.table, CS_WHOLE_TABLE, shaped(on.w, T, WIDTH), (cs_tensor){ 0 });
}
static void run_embed_grad(void)
{
    cs_op_embed_grad(stream, on.dtable, CS_WHOLE_TABLE, shaped(on.dw, T, WIDTH), on.x, on.tokens, (cs_tensor){ 0 }, -1);
}
static void run_entropy(void)
{
    cs_op_cross_entropy(stream, on.loss, on.logits, on.tokens, cs_columns(on.logits), (cs_tensor){ 0 });
}
static void run_entropy_grad(void)
{
    cs_op_cross_entropy(stream, on.loss, on.logits, on.tokens, cs_columns(on.logits), on.dloss);
}
/* The loss of columns that are divided over ranks, of which there is one. */
static void run_facts(void)
{
    cs_op_entropy_facts(stream, shaped(on.head_lse, N, CS_ENTROPY_FACTS), on.logits, on.tokens, 0,
                        cs_columns(on.logits));
}
static void run_finish(void)
{
    cs_op_entropy_finish(stream, on.loss, absent, on.logits, on.tokens, 0, cs_columns(on.logits), on.dloss,
                         shaped(on.head_lse, N, CS_ENTROPY_FACTS), (cs_entropy_terms){ 0 });
}
static void run_cast(void)
{
    cs_op_cast(stream, row(on.table, LONG), row(on.dtable, LONG));
}
static void run_fill(void)
{
    cs_op_fill(stream, row(on.dtable, LONG), 0);
}
static void run_squares(void)
{
    ce_state_sum_squares(stream, on.sum, cs_vector(on.state[0], CS_F32, STATE), 0, 1);
}
static void run_sum_into(void)
{
    ce_state_add(stream, cs_vector(on.state[0], CS_F32, STATE), cs_vector(on.state[1], CS_F32, STATE));
}
/* With 8 bits the codes and the scales are in the memory of the slots. */
static void update(ce_optim_kind kind, int64_t bits)
{
    ce_optim_settings settings = {
        .kind = (int)kind, .bits = bits, .betas = { 0.9, 0.999 }, .momentum = 0.9, .epsilon = 1e-8
    };
    ce_optimizer found = ce_optim_find(&settings);
    ce_state_rows rows = { .ranges = on.ranges };
    rows.master = cs_vector(on.state[0], CS_F32, STATE);
    rows.gradient = cs_vector(on.state[1], CS_F32, STATE);
    for (int i = 0; i < found.slots; i++) {
        rows.slots[i] = cs_vector(on.state[2 + i], bits == 8 ? CS_U8 : CS_F32, STATE);
        rows.scales[i] = on.state[2 + i] + STATE / 4;
    }
    if (dtype != CS_F32 && !found.directs)
        rows.publish = cs_vector(on.table.data, dtype, STATE);
    ce_state_update(stream, &found, ce_optim_hyper(&settings, 1e-3, 1, 1), &rows);
}
#define UPDATE(name, kind, bits)                                                                                       \
    static void run_##name(void)                                                                                       \
    {                                                                                                                  \
        update(kind, bits);                                                                                            \
    }
UPDATE(adamw, CE_OPTIM_ADAMW, 32)
UPDATE(adamw_8bit, CE_OPTIM_ADAMW, 8)
UPDATE(lion_8bit, CE_OPTIM_LION, 8)
UPDATE(sgd, CE_OPTIM_SGD, 32)
UPDATE(adagrad, CE_OPTIM_ADAGRAD, 32)
UPDATE(lion, CE_OPTIM_LION, 32)
UPDATE(lamb, CE_OPTIM_LAMB, 32)
UPDATE(muon, CE_OPTIM_MUON, 32)
static void run_init(void)
{
    ce_state_init(stream, on.state[0], (cs_init){ CS_NORMAL, 0.02f }, 1, (ce_state_places){ 0 }, STATE / 8);
}

/* ---- timing ---- */

typedef struct {
    const char *name;
    void (*run)(void);
    double times; /* how often the operation runs in a training step of GPT-2 124M */
    double bytes; /* the least number of bytes to move; 0: the rate is in floating-point operations, not in bytes */
} bench;
static struct {
    bench given;
    double seconds, flops;
} tried[64];
static int tried_count;

static double time_of(void (*run)(void), int times)
{
    double from = ce_clock_seconds();
    for (int i = 0; i < times; i++)
        run();
    ce_stream_sync(stream);
    return ce_clock_seconds() - from;
}

static double best_of(void (*run)(void))
{
    double once, best = INFINITY, begin = ce_clock_seconds();
    time_of(run, 1);
    once = time_of(run, 1);
    int times = ce_device_has_own_memory(device) ? (int)fmin(200, 1 + 5e-3 / once) : 1;
    for (int round = 0; round < 3 || (round < 50 && ce_clock_seconds() - begin < 0.15); round++)
        best = fmin(best, time_of(run, times) / times);
    return best;
}

static void try_all(const bench *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(list[i].name, only, strlen(only)) != 0) {
            size_t used = strlen(others);
            snprintf(others + used, sizeof others - used, "%s\"%s\"", used ? ", " : "", list[i].name);
            continue;
        }
        double before = ce_device_flops(device);
        list[i].run();
        double flops = ce_device_flops(device) - before, time = best_of(list[i].run);
        tried[tried_count].given = list[i], tried[tried_count].seconds = time, tried[tried_count].flops = flops;
        if (list[i].bytes == 0)
            ce_device_raise_roof(device, dtype, flops / time);
        tried_count++, measured++;
    }
}

static void show_all_tried(void)
{
    double roof = ce_device_roof(device, dtype), whole = 0;
    for (int i = 0; i < tried_count; i++)
        whole += tried[i].given.times * tried[i].seconds;
    for (int i = 0; i < tried_count; i++) {
        bench given = tried[i].given;
        double time = tried[i].seconds, rate = (given.bytes == 0 ? tried[i].flops : given.bytes) / time;
        printf("  %-22s %9.3f ms %8.1f %-7s %4.0f %% of %s", given.name, time * 1e3, rate * 1e-9,
               given.bytes == 0 ? "GFLOP/s" : "GB/s", 100 * rate / (given.bytes == 0 ? roof : copy_rate),
               given.bytes == 0 ? "the matrix roof" : "a copy         ");
        printf(given.times > 0 ? "  %5.1f %% of a step\n" : "\n", 100 * given.times * time / whole);
    }
    printf("  operations of a step: %.0f ms\n", whole * 1e3);
    tried_count = 0;
}

static void try_products(void)
{
    const bench products[] = {
        { "qkv", forward_qkv, 12, 0 },
        { "qkv dx", input_qkv, 12, 0 },
        { "qkv dw", weight_qkv, 12, 0 },
        { "proj", forward_proj, 12, 0 },
        { "proj dx", input_proj, 12, 0 },
        { "proj dw", weight_proj, 12, 0 },
        { "up", forward_up, 12, 0 },
        { "up dx", input_up, 12, 0 },
        { "up dw", weight_up, 12, 0 },
        { "down", forward_down, 12, 0 },
        { "down dx", input_down, 12, 0 },
        { "down dw", weight_down, 12, 0 },
        { "head", forward_head, 1, 0 },
        { "head dx", input_head, 1, 0 },
        { "head dw", weight_head, 1, 0 },
        { "experts", run_experts, 0, 0 },
        { "experts dx", run_experts_input, 0, 0 },
        { "experts dw", run_experts_weight, 0, 0 },
        { "attention", run_attention, 12, 0 },
        { "attention grad", run_attention_grad, 12, 0 },
        { "attention, dropout", run_attention_drop, 0, 0 },
        { "attention grad, dropout", run_attention_grad_drop, 0, 0 },
        { "attention, window", run_attention_window, 0, 0 },
        { "attention grad, window", run_attention_grad_window, 0, 0 },
        { "attention, packed", run_attention_packed, 0, 0 },
        { "attention grad, packed", run_attention_grad_packed, 0, 0 },
    };
    try_all(products, sizeof products / sizeof *products);
}

static void try_walks(void)
{
    /* so many operations on STATE elements cover the 124.4e6 parameters of the model */
    const double states = 124.4e6 / STATE;
    double each = (double)cs_dtype_bytes(dtype), rows = (double)N * WIDTH * each;
    double logits = (double)cs_count(on.logits) * each, published = dtype == CS_F32 ? 0 : each;
    mixture sizes = mixture_of();
    double matrices = 2.0 * (double)(sizes.chosen * sizes.hidden * sizes.width) * each; /* those that one token uses */
    const bench walks[] = {
        { "norm", run_norm, 13, 2 * rows },
        { "norm grad", run_norm_grad, 1, 3 * rows },
        { "add norm", run_add_norm, 12, 4 * rows },
        { "norm grad add", run_norm_grad_add, 24, 4 * rows },
        { "experts, one token", run_experts_few, 0, matrices },
        { "rms", run_rms, 0, 2 * rows },
        { "rms grad", run_rms_grad, 0, 3 * rows },
        { "rope", run_rope, 0, 4 * rows },
        { "swiglu", run_swiglu, 0, 6 * rows },
        { "swiglu grad", run_swiglu_grad, 0, 10 * rows },
        { "gelu", run_gelu, 12, 8 * rows },
        { "gelu grad", run_gelu_grad, 12, 12 * rows },
        { "add", run_add, 3, 12 * rows },
        { "dropout", run_dropout, 0, 8 * rows },
        { "add dropout", run_add_dropout, 0, 12 * rows },
        { "embed", run_embed, 1, 3 * rows },
        { "embed grad", run_embed_grad, 1, rows + 16.0 * (double)N * WIDTH },
        { "cross entropy", run_entropy, 0, logits },
        { "cross entropy grad", run_entropy_grad, 1, 2 * logits },
        { "entropy facts", run_facts, 0, logits },
        { "entropy finish", run_finish, 0, 2 * logits },
        { "cast", run_cast, 0, LONG * (4 + each) },
        { "fill", run_fill, 0, 4.0 * LONG },
        { "state sum of squares", run_squares, states, 4.0 * STATE },
        { "state add", run_sum_into, 0, 12.0 * STATE },
        { "state update, AdamW", run_adamw, states, (28 + published) * STATE },
        { "state update, SGD", run_sgd, 0, (20 + published) * STATE },
        { "state update, Adagrad", run_adagrad, 0, (20 + published) * STATE },
        { "state update, Lion", run_lion, 0, (20 + published) * STATE },
        { "state update, AdamW 8-bit", run_adamw_8bit, states, (16 + published) * STATE },
        { "state update, Lion 8-bit", run_lion_8bit, states, (14 + published) * STATE },
        { "state direction, LAMB", run_lamb, 0, 28.0 * STATE },
        { "state direction, Muon", run_muon, 0, 16.0 * STATE },
        { "state init, normal", run_init, 0, 4.0 * STATE / 8 },
    };
    try_all(walks, sizeof walks / sizeof *walks);
}

enum { FP32, BF16, NATIVE, WAYS };

static void show_all(void)
{
    stream = ce_device_stream(device, CE_COMPUTE);
    make_small();
    make_all();
    make_experts();
    copy_rate = 8.0 * LONG / best_of(run_copy);
    printf("%s, %s, %lld x %lld tokens: matrix roof %.1f GFLOP/s, copy %.1f GB/s\n", ce_device_describe(device),
           dtype == CS_F32 ? "fp32" : "bf16", (long long)B, (long long)T, ce_device_roof(device, dtype) * 1e-9,
           copy_rate * 1e-9);
    refill_all();
    others[0] = 0;
    try_products();
    refill_all();
    try_walks();
    show_all_tried();
}

int main(int count, char **arguments)
{
    const char *kind = "cpu", *chosen = NULL;
    static const char *const ways[] = { "fp32", "bf16", "native" };
    int threads = 0, samples = (int)B, length = (int)T;
    bench_arguments(count, arguments,
                    (const bench_option[]){ { "--device", .word = &kind, .choices = "cpu|cuda" },
                                            { "--only", .word = &only },
                                            { "--way", .word = &chosen, .choices = "fp32|bf16|native" },
                                            { "THREADS", .number = &threads, .min = 0, .max = 1024 },
                                            { "SAMPLES", .number = &samples, .min = 1, .max = 64 },
                                            { "LENGTH", .number = &length, .min = 1, .max = 1 << 20 },
                                            { .name = NULL } });
    B = samples;
    T = length;
    N = B * T;
    for (int way = 0; way < WAYS; way++) {
        if (chosen && strcmp(chosen, ways[way]) != 0)
            continue;
        dtype = way == FP32 ? CS_F32 : CS_BF16;
        CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = kind, .threads = threads, .local_ranks = 1 }));
        if (way == NATIVE && !(ce_device_methods(device, dtype, false) & 1u << CE_METHOD_NATIVE)) {
            ce_device_close(device);
            break;
        }
        if (way == NATIVE)
            ce_device_use_products(device, &(ce_product_choice){ .dtype = dtype, .others = CE_METHOD_NATIVE });
        show_all();
        ce_device_close(device);
    }
    bench_must_measure(measured > 0, others[0] ? others : "the CPU's ways to multiply: it lacks native bf16 products");
    return 0;
}
