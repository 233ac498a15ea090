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
#include "base/beat.h"
#include "base/must.h"
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
    ce_traffic *traffic;
    int64_t times; /* how often a step calls each of them; 0: they are no part of a step */
} exchange_count;

static void count_call(void *argument, int what, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    const exchange_count *counted = argument;
    (void)out;
    (void)in;
    if (counted->times > 0)
        ce_traffic_add(counted->traffic, (ce_traffic_call){ CS_AXIS_TP, what, count, dtype, counted->times, 0, 0 });
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

/* Lists the collectives of a step except those of layers, which were counted. */
static void list_calls(cs_engine *engine)
{
    const cs_model *model = engine->model;
    ce_traffic_call sums = { CS_AXIS_ALL, CE_BEAT_ALL_REDUCE, ce_step_judge_sums(engine), CS_I64, 1, 0, 0 };
    ce_traffic_add(&engine->traffic, sums);
    sums.count = ce_experts_cells(engine);
    ce_traffic_add(&engine->traffic, sums);
    for (int i = 0; i < model->total; i++)
        ce_plan_calls(&engine->traffic, &engine->zero, engine->shards[i], engine->settings->accumulation);
}

static void walk(cs_engine *engine, exchange_count *counted)
{
    const cs_model *model = engine->model;
    int64_t batch = engine->sequences;
    cs_tensor inputs = model->inputs ? nowhere(CS_F32, batch, model->inputs) : nowhere(CS_I32, batch, engine->length);
    cs_tensor targets = model->inputs ? nowhere(model->target_dtype, batch, model->targets) : inputs;
    if (!engine->config->reads)
        train(engine, inputs, targets);
    counted->times = 0;
    list_calls(engine);
    evaluate(engine, &(ce_forward_input){ .mode = CE_PASS_EVALUATION, .inputs = inputs, .targets = targets });
}

static cs_status open_pass(cs_engine *engine)
{
    ce_precision types = engine->zero.precision;
    ce_pass_shape shape = { engine->device,
                            types.values,
                            types.products,
                            NULL,
                            0,
                            engine->chunk_bytes,
                            engine->exchange,
                            engine->model->tp.rows,
                            ce_setup_regular(engine->settings) };
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

ce_regular ce_setup_regular(const ce_settings *settings)
{
    return (ce_regular){ { .smoothing = (float)settings->label_smoothing, .z_loss = (float)settings->z_loss },
                         settings->neftune_noise_alpha };
}

/* Refuses keys that no layer of the model has read. */
static cs_status check_regular(const cs_engine *engine)
{
    ce_regular asked = ce_setup_regular(engine->settings);
    unsigned parts = ce_pass_regular_parts(engine->pass);
    if (engine->config->reads)
        return CS_OK;
    if ((asked.entropy.smoothing > 0 || asked.entropy.z_loss > 0) && !(parts & CE_REGULAR_ENTROPY))
        return ce_fail(
            CS_UNSUPPORTED,
            "not supported: cspeed.label_smoothing_factor and cspeed.z_loss with this model, because its last "
            "unit is not a cross-entropy, cs_entropy_forward");
    if (asked.noise > 0 && !(parts & CE_REGULAR_NOISE))
        return ce_fail(CS_UNSUPPORTED, "not supported: cspeed.neftune_noise_alpha with this model, because it has no "
                                       "embedding of tokens, cs_embed_forward");
    return CS_OK;
}

static cs_status measure(cs_engine *engine)
{
    ce_cut_group tp = engine->model->tp;
    exchange_count counted = { &engine->traffic, engine->settings->accumulation };
    engine->exchange = (ce_exchange){ .run = count_call, .argument = &counted, .size = tp.size, .rank = tp.rank };
    CE_TRY(ce_device_open(&engine->device, &(ce_device_settings){ .kind = "dry", .threads = 1 }));
    engine->zero.device = engine->device;
    engine->zero.comm = ce_comm_open_dry(&engine->world);
    engine->zero.buckets = engine->buckets = ce_bucket_open(&engine->zero, engine->model);
    ce_load_place(&engine->model->load, NOWHERE);
    CE_TRY(open_pass(engine));
    for (int i = 0; i < engine->model->total; i++)
        engine->shards[i] = ce_shard_open(&engine->zero, engine->model->units[i], engine->values, engine->grads);
    walk(engine, &counted);
    CE_TRY(check_regular(engine));
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
    bool averages = engine->settings->ema_decay > 0 && !engine->config->reads;
    memory->slots = plan.slots + (averages ? ce_average_bytes(zero, engine->model) : 0);
    memory->offloaded = plan.offloaded;
    memory->padding = plan.padding;
    memory->rows_held = plan.rows_held;
    memory->rows_zero = plan.rows_zero;
    memory->copy = ce_async_save_copy(engine);
}

/* Returns the number of the host of each rank, malloc'ed. The launcher lists the numbers of ranks of the hosts; without
 * such a list of this world, each host has as many ranks as this one. */
static int *hosts_of(const cs_world *world)
{
    int *host = ce_must_alloc((size_t)world->size * sizeof *host), rank = 0, number = 0;
    const char *at = getenv("CSPEED_HOST_RANKS");
    for (char *end; at && *at; at = end + (*end == ','), number++) {
        long ranks = strtol(at, &end, 10);
        for (; end > at && ranks > 0 && rank < world->size; ranks--)
            host[rank++] = number;
        if (end == at || ranks > 0)
            break;
    }
    for (int i = 0; i < world->size && (rank < world->size || (at && *at)); i++)
        host[i] = i / world->local_size;
    return host;
}

void ce_dry_run_sent(const cs_engine *engine, const ce_mesh *mesh, cs_memory *memory)
{
    CE_FREED int *host = hosts_of(&engine->world);
    ce_traffic_plan(&engine->traffic, mesh, host, memory->sent_by);
    memory->sent = 0;
    for (int axis = 0; axis < CS_AXES; axis++)
        memory->sent += memory->sent_by[axis].all;
}

cs_status ce_dry_run(cs_engine *engine)
{
    cs_device *device = engine->device;
    cs_comm *comm = engine->zero.comm;
    ce_exchange exchange = engine->exchange;
    engine->device = NULL;
    engine->zero.tp = (ce_exchange){ 0 }; /* ce_plan_calls lists these sums */
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
    ce_dry_run_sent(engine, &engine->mesh, &engine->memory);
    engine->memory.value_rows = ce_pool_bytes(engine->values);
    engine->memory.gradient_rows = ce_pool_bytes(engine->grads) + ce_plan_wire(&engine->zero, engine->model);
    engine->memory.pinned = ce_connect_is_gpu(engine) ? ce_transfer_bytes() : 0;
    return status;
}
