/* cudnn.c - attention by cuDNN, for shapes that one of cuDNN's engines supports; cspeed's kernels compute the other
 * shapes.
 *
 * The library is loaded at the first attention that cuDNN may run. At the first use of a shape, a plan is created: for
 * the whole attention, or for one piece of the attention. A plan for one piece is run for all pieces, one after the
 * other. A run needs a variant pack, cuDNN's list of addresses. The pack is created for each run and takes some hundred
 * bytes of host memory. */
#include "base/log.h"
#include "base/range.h"
#include "base/rng.h"
#include "device/cuda/cudnn.h"
#include "device/cuda/open.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    ce_cudnn_shape shape;
    ce_cudnn_plan plan;
    int64_t pieces; /* number of runs of the plan that one attention needs; 0: cuDNN does not run this shape */
} choice;

struct ce_cudnn {
    ce_cudnn_library library;
    ce_cudnn_target target;
    cudaStream_t stream; /* the stream that was set in cuDNN's handle */
    choice *choices;
    int count, capacity;
};

static void check(const struct ce_cudnn *cudnn, cudnnStatus_t status, const char *what)
{
    if (status != CUDNN_STATUS_SUCCESS)
        ce_fatal(CS_NO_DEVICE,
                 "cuDNN: %s: %s; the environment variable CSPEED_CUDNN=none selects the engine's own kernels for "
                 "attention",
                 what, cudnn->library.describe(status));
}

/* ---- opening ---- */

static cs_status open_handle(struct ce_cudnn *cudnn)
{
    CE_TRY(ce_cudnn_library_open(&cudnn->library));
    cudnnStatus_t status = cudnn->library.open(&cudnn->target.handle);
    if (status == CUDNN_STATUS_SUCCESS)
        return CS_OK;
    cudnn->target.handle = NULL;
    return ce_fail(CS_UNSUPPORTED, "cuDNN: no handle can be created: %s", cudnn->library.describe(status));
}

/* Returns the device's cuDNN state, which the first call creates. If there is no cuDNN, the handle in the state is
 * NULL. */
static struct ce_cudnn *cudnn_of(cs_device *device)
{
    ce_cuda *cuda = ce_cuda_of(device);
    if (cuda->cudnn)
        return cuda->cudnn;
    cuda->cudnn = calloc(1, sizeof *cuda->cudnn);
    if (!cuda->cudnn)
        ce_fatal(CS_NO_MEMORY, "no memory for cuDNN's plans");
    cs_status status = open_handle(cuda->cudnn);
    if (status != CS_OK)
        ce_log(status == CS_NO_DEVICE ? CE_LOG_DEBUG : CE_LOG_INFO, "%s; attention uses the engine's own kernels",
               cs_error());
    return cuda->cudnn;
}

void ce_cudnn_close(cs_device *device)
{
    struct ce_cudnn *cudnn = ce_cuda_of(device)->cudnn;
    if (!cudnn)
        return;
    for (int i = 0; i < cudnn->count; i++)
        ce_cudnn_plan_close(&cudnn->choices[i].plan);
    if (cudnn->target.handle)
        cudnn->library.close(cudnn->target.handle);
    free(cudnn->choices);
    free(cudnn);
}

/* ---- choosing ---- */

/* Deterministic backward stores the gradients of the scores of all heads of a piece, two bytes each. A limit of 2 GiB
 * allows enough heads to fill any GPU. For example, it allows 16 heads of 8,192 rows: 1,024 tiles of 128 rows. It
 * allows more heads if the samples are shorter. Products and reductions need workspace in the same step, so a piece may
 * use at most a quarter of the free memory. Only the smallest piece, one key head of one sample, may exceed both limits
 * and use up to 7/8 of the free memory. If the smallest piece needs more, cspeed's own kernels compute the
 * attention. */
static ce_cudnn_bound bound_of(cs_device *device)
{
    const int64_t max = (int64_t)2 << 30, free_bytes = (int64_t)ce_cuda_free_bytes(device);
    return (ce_cudnn_bound){ .max = free_bytes / 4 < max ? free_bytes / 4 : max, .max_smallest = free_bytes / 8 * 7 };
}

static void choose(struct ce_cudnn *cudnn, choice *made, ce_cudnn_bound bound)
{
    static const char *const types[] = { "fp32", "bf16", "fp16" };
    const ce_cudnn_shape *shape = &made->shape;
    char how[512];
    cs_status status = ce_cudnn_pieces_open(&made->plan, &cudnn->library, &cudnn->target, shape, bound);
    bool fits = status == CS_OK;
    made->pieces = fits ? ce_cudnn_pieces(&made->plan, shape) : 0;
    if (fits)
        snprintf(how, sizeof how, "by cuDNN, in %lld pieces, with %lld bytes of workspace", (long long)made->pieces,
                 (long long)made->plan.workspace);
    else
        snprintf(how, sizeof how, "by the engine's own kernels, not by cuDNN: %s", cs_error());
    ce_log(fits ? CE_LOG_DEBUG : CE_LOG_INFO, "attention%s of (%lld, %lld), %lld heads over %lld of %lld, %s: %s",
           shape->grad ? "'s gradient" : "", (long long)shape->samples, (long long)shape->length,
           (long long)shape->queries, (long long)shape->keys, (long long)shape->width, types[shape->dtype], how);
}

static choice *choice_for(cs_device *device, struct ce_cudnn *cudnn, const ce_cudnn_shape *shape)
{
    for (int i = 0; i < cudnn->count; i++)
        if (memcmp(&cudnn->choices[i].shape, shape, sizeof *shape) == 0)
            return &cudnn->choices[i];
    if (cudnn->count == cudnn->capacity) {
        cudnn->capacity = cudnn->capacity ? 2 * cudnn->capacity : 8;
        cudnn->choices = realloc(cudnn->choices, (size_t)cudnn->capacity * sizeof *cudnn->choices);
        if (!cudnn->choices)
            ce_fatal(CS_NO_MEMORY, "no memory for %d plans of attention", cudnn->capacity);
    }
    choice *made = &cudnn->choices[cudnn->count++];
    *made = (choice){ .shape = *shape };
    choose(cudnn, made, bound_of(device));
    return made;
}

enum { WIDEST = 256 }; /* the greatest number of columns of a head that cuDNN supports on any GPU */

/* Returns whether the attention has only the causal mask (no window, no document starts), no dropout and no cap of the
 * scores (the graphs in cudnn_attention.c have no tanh), and its tensors are 16-bit and aligned. */
static bool is_plain(const ce_attention_args *given)
{
    bool near = given->heads.window && given->heads.window < cs_columns(given->lse);
    return given->y.dtype != CS_F32 && !given->heads.starts.data && !near && given->dropout.rate == 0 &&
           given->heads.cap == 0 && ce_is_aligned(given->qkv.data) && ce_is_aligned(given->y.data) &&
           ce_is_aligned(given->lse.data) && ce_is_aligned(given->dy.data) && ce_is_aligned(given->dqkv.data);
}

static ce_cudnn_shape shape_of(const ce_attention_args *given)
{
    int64_t length = cs_columns(given->lse);
    return (ce_cudnn_shape){ .samples = cs_rows(given->y) / length,
                             .length = length,
                             .queries = given->heads.queries,
                             .keys = given->heads.keys,
                             .width = cs_columns(given->y) / given->heads.queries,
                             .dtype = given->y.dtype,
                             .grad = given->dqkv.data != NULL,
                             .row_queries = given->heads.queries,
                             .row_keys = given->heads.keys };
}

/* ---- running ---- */

/* The addresses of the inputs and outputs of the whole attention, or of a piece. The index is a ce_cudnn_number. */
typedef void *addresses[CE_CUDNN_NUMBERS];

/* Returns a hash that identifies a run: it depends on the plan and on the addresses of the attention's tensors. */
static uint64_t run_hash(const struct ce_cudnn *cudnn, const choice *made, const ce_attention_args *given)
{
    const void *places[] = { given->qkv.data, given->y.data, given->lse.data, given->dy.data, given->dqkv.data };
    uint64_t hash = (uint64_t)(made - cudnn->choices);
    for (int i = 0; i < 5; i++)
        hash = ce_rng_mix(hash, (uint64_t)(uintptr_t)places[i]);
    return hash;
}

static void run_piece(struct ce_cudnn *cudnn, const choice *made, addresses at, void *workspace)
{
    const ce_cudnn_library *library = &cudnn->library;
    int64_t numbers[CE_CUDNN_NUMBERS], count = made->shape.grad ? CE_CUDNN_ONE : CE_CUDNN_HIDDEN;
    cudnnBackendDescriptor_t pack;
    for (int64_t i = 0; i < CE_CUDNN_NUMBERS; i++)
        numbers[i] = i;
    check(cudnn, library->create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), "a pack");
    check(cudnn, library->set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, &numbers[1]),
          "a pack's numbers");
    check(cudnn, library->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, &at[1]),
          "a pack's addresses");
    check(cudnn, library->set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace),
          "a pack's workspace");
    check(cudnn, library->finalize(pack), "a finished pack");
    check(cudnn, library->execute(cudnn->target.handle, made->plan.plan, pack), "attention");
    check(cudnn, library->destroy(pack), "a pack's end");
}

static void run(struct ce_cudnn *cudnn, const choice *made, addresses whole, void *workspace)
{
    for (int64_t piece = 0; piece < made->pieces; piece++) {
        addresses at;
        for (int i = 1; i < CE_CUDNN_NUMBERS; i++)
            at[i] = ce_cudnn_piece_address(&made->plan, &made->shape, piece, (ce_cudnn_number)i, whole[i]);
        run_piece(cudnn, made, at, workspace);
    }
}

/* Stores the addresses of q, k and v, which are columns of rows q | k | v. */
static void split(void *rows, const ce_cudnn_shape *shape, void **q, void **k, void **v)
{
    char *first = rows;
    *q = first;
    *k = first + (size_t)(shape->queries * shape->width) * sizeof(uint16_t);
    *v = first + (size_t)((shape->queries + shape->keys) * shape->width) * sizeof(uint16_t);
}

/* Runs the attention. The device's workspace holds delta, and behind it the plan's workspace. */
static void attend(cs_device *device, struct ce_cudnn *cudnn, const choice *made, const ce_attention_args *given)
{
    const ce_cudnn_shape *shape = &made->shape;
    float scale = ce_heads_scale(given->heads, shape->width), hidden = -INFINITY, one = 1;
    size_t rows = shape->grad ? (size_t)ce_round_up(cs_count(given->lse) * (int64_t)sizeof(float), 256) : 0;
    char *workspace = ce_cuda_workspace(device, CE_CUDA_ATTENTION, rows + (size_t)made->plan.workspace);
    addresses at = { [CE_CUDNN_Y] = given->y.data, [CE_CUDNN_LSE] = given->lse.data, [CE_CUDNN_DY] = given->dy.data,
                     [CE_CUDNN_DELTA] = workspace, [CE_CUDNN_SCALE] = &scale,        [CE_CUDNN_HIDDEN] = &hidden,
                     [CE_CUDNN_ONE] = &one };
    split(given->qkv.data, shape, &at[CE_CUDNN_Q], &at[CE_CUDNN_K], &at[CE_CUDNN_V]);
    if (shape->grad)
        split(given->dqkv.data, shape, &at[CE_CUDNN_DQ], &at[CE_CUDNN_DK], &at[CE_CUDNN_DV]);
    if (cudnn->stream != ce_cuda_compute(device)) {
        cudnn->stream = ce_cuda_compute(device);
        check(cudnn, cudnn->library.set_stream(cudnn->target.handle, cudnn->stream), "its stream");
    }
    if (!ce_cuda_replays(run_hash(cudnn, made, given)))
        run(cudnn, made, at, made->plan.workspace ? workspace + rows : NULL);
}

bool ce_cudnn_attention(cs_device *device, const ce_attention_args *given)
{
    ce_cudnn_shape shape = shape_of(given);
    if (!is_plain(given) || shape.width % 8 || shape.width > WIDEST || shape.length < 2)
        return false;
    struct ce_cudnn *cudnn = cudnn_of(device);
    const choice *made = cudnn->target.handle ? choice_for(device, cudnn, &shape) : NULL;
    if (!made || !made->pieces)
        return false;
    attend(device, cudnn, made, given);
    return true;
}
