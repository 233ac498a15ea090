/* dry_run.c - walks the list once where nothing is computed, so that all memory can be taken at once.
 *
 * The same code runs as in training, on the dry device and without a transport: pools count the rows that are out
 * together, the pass counts its bytes. */
#include "engine.h"

#include <stdlib.h>

/* No memory is behind these tensors, and the dry device touches none. */
static cs_tensor nowhere(cs_dtype dtype, int64_t rows, int64_t columns)
{
    return cs_matrix((void *)64, dtype, rows, columns);
}

static void train(cs_engine *engine, cs_tensor inputs, cs_tensor targets)
{
    cs_descent descent = { .mode = CS_PASS_TRAINING, .inputs = inputs, .targets = targets };
    engine->loss_rows = cs_forward_descend(engine, &descent);
    cs_backward_ascend(engine);
}

static void look(cs_engine *engine, const cs_descent *descent)
{
    cs_tensor output = cs_forward_descend(engine, descent);
    cs_pass_let_go(engine->pass, output);
    cs_pass_end(engine->pass);
}

/* Shorter samples may find other gaps between tensors: the peak is over all lengths. */
static void walk_curriculum(cs_engine *engine)
{
    for (int64_t length = 1; length < engine->length; length++) {
        if (!cs_curriculum_may_be(engine, length))
            continue;
        cs_tensor tokens = nowhere(CS_I32, engine->settings->micro_batch, length);
        train(engine, tokens, tokens);
    }
}

static void walk(cs_engine *engine)
{
    const cs_model *model = engine->model;
    int64_t batch = engine->settings->micro_batch;
    cs_tensor inputs = model->inputs ? nowhere(CS_F32, batch, model->inputs) : nowhere(CS_I32, batch, engine->length);
    cs_tensor targets = model->inputs ? nowhere(CS_F32, batch, model->targets) : inputs;
    if (!engine->config->reads)
        train(engine, inputs, targets);
    look(engine, &(cs_descent){ .mode = CS_PASS_EVALUATION, .inputs = inputs, .targets = targets });
    if (model->units[model->count - 1]->kind->predict)
        look(engine, &(cs_descent){ .mode = CS_PASS_EVALUATION, .inputs = inputs, .predict = true });
}

static cs_status measure(cs_engine *engine)
{
    CS_TRY(cs_device_open(&engine->device, &(cs_device_settings){ .kind = "dry", .threads = 1 }));
    engine->zero.device = engine->device;
    engine->zero.comm = NULL;
    cs_precision types = engine->zero.precision;
    CS_TRY(cs_pass_open(&engine->pass, &(cs_pass_shape){ engine->device, types.values, types.products, NULL, 0 }));
    for (int i = 0; i < engine->model->count; i++)
        CS_TRY(
            cs_shard_open(&engine->shards[i], &engine->zero, engine->model->units[i], engine->values, engine->grads));
    walk(engine);
    walk_curriculum(engine);
    size_t scratch = cs_update_scratch(engine->zero.groups, engine->model);
    size_t peak = cs_pass_peak(engine->pass);
    engine->memory.activations =
        cs_boundary_bytes() + cs_ranges_bytes(engine->model) + (peak > scratch ? peak : scratch);
    return CS_OK;
}

cs_status cs_measure_run(cs_engine *engine)
{
    cs_device *device = engine->device;
    cs_comm *comm = engine->zero.comm;
    engine->device = NULL;
    cs_status status = measure(engine);
    for (int i = 0; i < engine->model->count; i++) {
        cs_shard_close(engine->shards[i]);
        engine->shards[i] = NULL;
    }
    cs_pass_close(engine->pass);
    cs_device_close(engine->device);
    engine->pass = NULL;
    engine->device = device;
    engine->zero.device = device;
    engine->zero.comm = comm;
    cs_plan plan = cs_plan_persistent(&engine->zero, engine->model);
    engine->memory.values = plan.values;
    engine->memory.gradients = plan.gradients;
    engine->memory.masters = plan.masters;
    engine->memory.slots = plan.slots;
    engine->memory.padding = plan.padding;
    engine->memory.rows_held = plan.rows_held;
    engine->memory.rows_zero = plan.rows_zero;
    engine->memory.value_rows = cs_pool_bytes(engine->values);
    engine->memory.gradient_rows = cs_pool_bytes(engine->grads);
    engine->memory.copy = cs_saving_copy(engine);
    bool gpu = device ? cs_device_has_own_memory(device) : engine->settings->device == 2;
    engine->memory.pinned = gpu ? cs_transfer_bytes() : 0;
    return status;
}
