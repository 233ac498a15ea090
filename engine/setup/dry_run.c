/* dry_run.c - measures the memory of a run and lists its matrix products, by running forward and backward on a device
 * that computes nothing.
 *
 * The dry run executes the code of training on this device and on a transport that sends nothing: the pools count how
 * many of their buffers are in use at the same time, and the pass counts the bytes of its tensors. After the dry run all
 * memory is allocated at once. */
#include "setup/setup.h"
#include "input/input.h"
#include "reporting/reporting.h"
#include "saving/saving.h"
#include "comm/dry.h"

#include <stdlib.h>

/* The address of tensors without memory. The device of the dry run does not access the elements of a tensor. */
#define NOWHERE ((void *)64)

static cs_tensor nowhere(cs_dtype dtype, int64_t rows, int64_t columns)
{
    return cs_matrix(NOWHERE, dtype, rows, columns);
}

/* ---- the exchanges of layers: counted instead of done ---- */

typedef struct {
    size_t ranks, sent; /* `sent`: bytes that this rank would send */
} exchange_count;

static void count_sum(void *argument, void *data, int64_t count, cs_dtype dtype)
{
    exchange_count *counted = argument;
    (void)data;
    counted->sent += 2 * (counted->ranks - 1) * (size_t)count * cs_dtype_bytes(dtype) / counted->ranks;
}

static void count_gather(void *argument, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    exchange_count *counted = argument;
    (void)out;
    (void)in;
    counted->sent += (counted->ranks - 1) * (size_t)count * cs_dtype_bytes(dtype);
}

static void count_scatter(void *argument, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    count_gather(argument, out, in, count, dtype);
}

/* ---- the passes ---- */

static void train(cs_engine *engine, cs_tensor inputs, cs_tensor targets)
{
    ce_forward_input input = { .mode = CE_PASS_TRAINING, .inputs = inputs, .targets = targets };
    engine->loss_rows = ce_forward_units(engine, engine->pass, &input);
    ce_backward_units(engine);
}

static void evaluate(cs_engine *engine, const ce_forward_input *input)
{
    cs_tensor output = ce_forward_units(engine, engine->pass, input);
    ce_pass_let_go(engine->pass, output);
    ce_pass_end(engine->pass);
}

/* Runs a micro-batch of each length of the curriculum. The peak is the maximum over all lengths, because the pass packs
 * tensors differently for each length. */
static void walk_curriculum(cs_engine *engine)
{
    for (int64_t length = 1; length < engine->length; length++) {
        if (!ce_curriculum_may_be(engine, length))
            continue;
        cs_tensor tokens = nowhere(CS_I32, engine->settings->micro_batch, length);
        train(engine, tokens, tokens);
    }
}

static void plan_messages(cs_engine *engine, const exchange_count *counted)
{
    const cs_model *model = engine->model;
    int64_t micros = engine->settings->accumulation;
    engine->memory.sent_tp =
        counted->sent * (size_t)micros + ce_plan_sent_to_copies(engine->shards, model->count, micros);
    engine->memory.sent = ce_step_judge_sent(engine) + ce_experts_sent(engine) + engine->memory.sent_tp +
                          ce_plan_sent(&engine->zero, engine->shards, model->total, micros);
    engine->memory.sent_to_groups = ce_plan_sent_to_groups(&engine->zero, engine->shards, model->count);
}

static void walk(cs_engine *engine, const exchange_count *counted)
{
    const cs_model *model = engine->model;
    int64_t batch = engine->sequences;
    cs_tensor inputs = model->inputs ? nowhere(CS_F32, batch, model->inputs) : nowhere(CS_I32, batch, engine->length);
    cs_tensor targets = model->inputs ? nowhere(model->target_dtype, batch, model->targets) : inputs;
    if (!engine->config->reads)
        train(engine, inputs, targets);
    plan_messages(engine, counted);
    evaluate(engine, &(ce_forward_input){ .mode = CE_PASS_EVALUATION, .inputs = inputs, .targets = targets });
}

static cs_status open_pass(cs_engine *engine)
{
    ce_precision types = engine->zero.precision;
    ce_pass_shape shape = { engine->device,      types.values,     types.products,        NULL, 0,
                            engine->chunk_bytes, engine->exchange, engine->model->tp.rows };
    ce_pass_close(engine->pass);
    engine->pass = NULL;
    return ce_pass_open(&engine->pass, &shape);
}

/* Runs a prediction with a new pass, so that the peak of this pass is that of the prediction. Sets *row to the bytes of
 * a row of the output. */
static cs_status walk_prediction(cs_engine *engine, const ce_forward_input *input, size_t *row)
{
    CE_TRY(open_pass(engine));
    cs_tensor output = ce_forward_units(engine, engine->pass, input);
    ce_pass_let_go(engine->pass, output);
    ce_pass_end(engine->pass);
    *row = (size_t)cs_columns(output) * cs_dtype_bytes(output.dtype);
    return CS_OK;
}

/* Measures the memory that cs_predict and a cs_context need. `peak` is the peak of all other passes, in bytes. */
static cs_status measure_predictions(cs_engine *engine, size_t peak)
{
    const cs_model *model = engine->model;
    int64_t batch = engine->settings->micro_batch;
    ce_sequence text = { 0 };
    size_t row;
    ce_forward_input input = { .mode = CE_PASS_EVALUATION, .predict = true };
    if (!model->units[model->count - 1]->kind->predict)
        return CS_OK;
    input.inputs = model->inputs ? nowhere(CS_F32, batch, model->inputs) : nowhere(CS_I32, batch, engine->length);
    CE_TRY(walk_prediction(engine, &input, &row));
    size_t whole = ce_pass_peak(engine->pass);
    engine->memory.prediction = whole > peak ? whole : 0;
    if (model->inputs)
        return CS_OK;
    CE_TRY(ce_cache_open(&text.cache, engine->device, engine->length));
    input.inputs = nowhere(CS_I32, 1, engine->length);
    input.sequences = &text;
    cs_status status = walk_prediction(engine, &input, &engine->continuation.row);
    ce_cache_close(text.cache);
    engine->continuation.text = status == CS_OK ? ce_pass_peak(engine->pass) : 0;
    return status;
}

static void list_products(cs_engine *engine)
{
    const ce_product_list *all = ce_device_product_list(engine->device);
    ce_product_list *list = &engine->products.list;
    list->count = 0;
    for (int i = 0; i < all->count; i++)
        if (all->use[i].dtype == engine->zero.precision.products)
            list->use[list->count++] = all->use[i];
}

static cs_status measure(cs_engine *engine)
{
    ce_cut_group tp = engine->model->tp;
    exchange_count counted = { .ranks = (size_t)tp.size };
    engine->exchange = (ce_exchange){ count_sum, count_gather, count_scatter, &counted, tp.size, tp.rank };
    CE_TRY(ce_device_open(&engine->device, &(ce_device_settings){ .kind = "dry", .threads = 1 }));
    engine->zero.device = engine->device;
    engine->zero.comm = ce_comm_open_dry(&engine->world);
    engine->zero.buckets = engine->buckets = ce_bucket_open(&engine->zero, engine->model);
    ce_load_place(&engine->model->load, NOWHERE);
    CE_TRY(open_pass(engine));
    for (int i = 0; i < engine->model->total; i++)
        engine->shards[i] = ce_shard_open(&engine->zero, engine->model->units[i], engine->values, engine->grads);
    walk(engine, &counted);
    list_products(engine);
    walk_curriculum(engine);
    size_t scratch = ce_update_scratch(engine->zero.groups, engine->model);
    size_t peak = ce_pass_peak(engine->pass) > scratch ? ce_pass_peak(engine->pass) : scratch;
    engine->memory.activations =
        ce_step_judge_bytes() + ce_ranges_bytes(engine->model) + ce_experts_bytes(engine) + peak;
    return measure_predictions(engine, peak);
}

void ce_dry_run_persistent(const cs_engine *engine, const ce_zero *zero, cs_memory *memory)
{
    ce_plan plan = ce_plan_persistent(zero, engine->model);
    memory->values = plan.values;
    memory->gradients = plan.gradients;
    memory->masters = plan.masters;
    memory->slots = plan.slots;
    memory->offloaded = plan.offloaded;
    memory->padding = plan.padding;
    memory->rows_held = plan.rows_held;
    memory->rows_zero = plan.rows_zero;
    memory->copy = ce_async_save_copy(engine);
}

cs_status ce_dry_run(cs_engine *engine)
{
    cs_device *device = engine->device;
    cs_comm *comm = engine->zero.comm;
    ce_exchange exchange = engine->exchange;
    engine->device = NULL;
    engine->zero.tp = (ce_exchange){ 0 }; /* the bytes of these sums are planned by ce_plan_sent_to_copies */
    engine->zero.comm = NULL;
    cs_status status = measure(engine);
    for (int i = 0; i < engine->model->total; i++) {
        ce_shard_close(engine->shards[i]);
        engine->shards[i] = NULL;
    }
    ce_pass_close(engine->pass);
    ce_device_close(engine->device);
    cs_comm_close(engine->zero.comm);
    free(engine->buckets);
    engine->buckets = NULL;
    engine->pass = NULL;
    engine->device = device;
    engine->zero.device = device;
    engine->zero.comm = comm;
    engine->zero.tp = exchange;
    engine->exchange = exchange;
    ce_dry_run_persistent(engine, &engine->zero, &engine->memory);
    engine->memory.value_rows = ce_pool_bytes(engine->values);
    engine->memory.gradient_rows = ce_pool_bytes(engine->grads) + ce_plan_wire(&engine->zero, engine->model);
    engine->memory.pinned = ce_connect_is_gpu(engine) ? ce_transfer_bytes() : 0;
    return status;
}
