/* values.c - whole parameters and gradients for a program: each rank converts the elements that it holds, and an
 * all-reduce completes the others. */
#include "base/must.h"
#include "base/misuse.h"
#include "comm/collective_status.h"
#include "interchange/huggingface.h"
#include "saving/saving.h"

#include <string.h>

/* A parameter, and its whole values in memory that operations access. */
typedef struct {
    cs_engine *engine;
    ce_shard *shard;
    const ce_unit_entry *entry;
    float *whole;
} values;

typedef enum { READ_VALUES, WRITE_VALUES, READ_GRADIENTS } direction;

static cs_stream *compute(const values *v)
{
    return ce_device_stream(v->engine->device, CE_COMPUTE);
}

static int64_t count_of(const values *v)
{
    return v->entry->cut.whole[0] * v->entry->cut.whole[1];
}

/* Copies between a piece and its places in the whole parameter, in runs of elements that are consecutive in both. */
static void exchange(const values *v, const ce_shard_piece *piece, direction way)
{
    const int64_t *whole = v->entry->cut.whole, width = piece->part.size[1];
    char *elements = way == READ_GRADIENTS ? piece->gradient : piece->master;
    cs_dtype dtype = way == READ_GRADIENTS ? v->engine->zero.precision.sums : piece->dtype;
    ce_box boxes[CE_MAX_BOXES];
    int count = ce_boxes_split(boxes, piece->part.size, piece->part.dims, piece->range);
    int64_t before = 0;
    for (int i = 0; i < count; i++) {
        for (int d = 0; d < boxes[i].dims; d++)
            boxes[i].offset[d] += piece->part.offset[d];
        int64_t items = ce_boxes_volume(&boxes[i]), run = ce_boxes_run(&boxes[i], whole);
        for (int64_t at = 0; at < items; at += run) {
            int64_t own = piece->pitch ? at / width * piece->pitch + at % width : before + at;
            cs_tensor mine = cs_vector(elements + own * (int64_t)cs_dtype_bytes(dtype), dtype, run);
            cs_tensor all = cs_vector(v->whole + ce_boxes_place(&boxes[i], whole, at), CS_F32, run);
            cs_op_cast(compute(v), way == WRITE_VALUES ? mine : all, way == WRITE_VALUES ? all : mine);
        }
        before += items;
    }
}

static void exchange_all(const values *v, direction way)
{
    CE_FREED ce_shard_piece *pieces = ce_must_alloc(ce_shard_pieces_room(v->shard));
    int count = way == WRITE_VALUES ? ce_shard_held_pieces(v->shard, pieces) : ce_shard_pieces(v->shard, pieces);
    for (int i = 0; i < count; i++)
        if (pieces[i].entry == v->entry)
            exchange(v, &pieces[i], way);
}

/* Finds the parameter, and checks that its values are numbers. */
static cs_status find(values *v, cs_engine *engine, const char *name, const char *verb)
{
    cs_param_part part;
    int unit;
    CE_TRY(cs_param_local(engine, name, &part)); /* its message names the most similar parameter */
    *v = (values){ .engine = engine, .entry = ce_model_locate(engine->model, name, &unit) };
    v->shard = engine->shards[unit];
    if (ce_shard_unit(v->shard)->bytes)
        return ce_fail(CS_UNSUPPORTED, "not supported: %s of %s, because the parameter has 4-bit weights", verb, name);
    return CS_OK;
}

/* Takes memory for the whole parameter: that of the program if operations access it. */
static void open_whole(values *v, float *given)
{
    bool own = ce_device_has_own_memory(v->engine->device);
    v->whole = own ? ce_device_alloc(v->engine->device, (size_t)count_of(v) * sizeof(float)) : given;
}

static void close_whole(values *v)
{
    ce_stream_sync(compute(v));
    if (ce_device_has_own_memory(v->engine->device))
        ce_device_free(v->engine->device, v->whole);
}

/* Adds the bits of the elements as integers: each element is in the memory of one rank, and 0 in that of the others, so
 * the sum has its bits, also those of -0 and NaN. */
static void read_whole(values *v, float *to, direction way)
{
    int64_t count = count_of(v);
    open_whole(v, to);
    cs_op_fill(compute(v), cs_vector(v->whole, CS_F32, count), 0);
    exchange_all(v, way);
    ce_stream_sync(compute(v));
    if (v->whole != to)
        ce_stream_fetch(compute(v), to, v->whole, (size_t)count * sizeof *to);
    close_whole(v);
    cs_comm_all_reduce(v->engine->comm, to, count, CS_I32, CS_SUM);
}

cs_status ce_values_settle(cs_engine *engine, const char *verb)
{
    ce_phase_expect(engine, CE_FORWARD, verb);
    if (engine->micro != 0)
        return ce_fail(CS_UNSUPPORTED,
                       "%s: %lld micro-batches of a step have been accumulated; call it after the cs_step that "
                       "completes the step",
                       verb, (long long)engine->micro);
    ce_walk_settle(engine);
    return CS_OK;
}

cs_status cs_param_read(cs_engine *engine, const char *name, float *to)
{
    CE_GIVEN(engine, name, to);
    values v;
    CE_TRY(find(&v, engine, name, "cs_param_read"));
    ce_walk_settle(engine);
    read_whole(&v, to, READ_VALUES);
    return CS_OK;
}

/* Waits until the save in progress has copied the state, and the averages contain the last update. */
static cs_status prepare(cs_engine *engine, const char *verb)
{
    CE_TRY(ce_values_settle(engine, verb));
    ce_background_hold(engine->saving->async.work);
    ce_average_take(engine);
    ce_walk_settle(engine);
    return CS_OK;
}

cs_status cs_param_write(cs_engine *engine, const char *name, const float *from)
{
    CE_GIVEN(engine, name, from);
    values v;
    CE_TRY(find(&v, engine, name, "cs_param_write"));
    CE_TRY(prepare(engine, "cs_param_write"));
    open_whole(&v, (float *)(uintptr_t)from);
    if (v.whole != from)
        ce_stream_copy(compute(&v), v.whole, from, (size_t)count_of(&v) * sizeof *from);
    exchange_all(&v, WRITE_VALUES);
    close_whole(&v);
    ce_shard_spread(v.shard);
    ce_walk_settle(engine);
    return CS_OK;
}

cs_status cs_load_weights(cs_engine *engine, const char *folder)
{
    CE_GIVEN(engine, folder);
    bool found = false;
    CE_TRY(prepare(engine, "cs_load_weights"));
    cs_status status = ce_huggingface_detect(&found, folder);
    if (status == CS_OK && !found)
        status = ce_fail(CS_NOT_FOUND, "%s has no weights (no *.safetensors)", folder);
    CE_TRY(ce_collective_status(engine->comm, status));
    return ce_pretrained_load(engine, folder);
}

cs_status cs_gradient_read(cs_engine *engine, const char *name, float *to)
{
    CE_GIVEN(engine, name, to);
    values v;
    CE_TRY(find(&v, engine, name, "cs_gradient_read"));
    ce_phase_expect(engine, CE_STEP, "cs_gradient_read");
    if (v.entry->param.frozen)
        return ce_fail(CS_UNSUPPORTED, "not supported: cs_gradient_read of %s, because the parameter is frozen", name);
    if (!ce_backward_finishes(engine))
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cs_gradient_read with CUDA graphs, because cs_step completes the "
                       "gradients: set cspeed.cuda_graphs to false");
    if (engine->micro + 1 != engine->settings->accumulation)
        return ce_fail(CS_UNSUPPORTED,
                       "cs_gradient_read: %lld of %lld micro-batches of the step have been accumulated; call it after "
                       "the cs_backward of the last one",
                       (long long)engine->micro + 1, (long long)engine->settings->accumulation);
    ce_step_terms terms = ce_step_judge_terms(engine);
    int64_t rows = ce_mesh_leads(&engine->mesh) ? engine->loss_rows_counted : 0;
    ce_walk_settle(engine);
    cs_comm_all_reduce(engine->comm, &rows, 1, CS_I64, CS_SUM);
    read_whole(&v, to, READ_GRADIENTS);
    double factor = ce_verdict_factor(&terms, rows, engine->scaler.scale);
    for (int64_t i = 0; i < count_of(&v); i++)
        to[i] = (float)(to[i] * factor);
    return CS_OK;
}
