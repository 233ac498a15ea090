/* initialize.c - cs_initialize, cs_destroy: config, world, device, comm, model, shards; and back. */
#include "engine.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

/* The configuration's own object, or a folder's config.json. */
static cs_status open_named_model(cs_engine *engine)
{
    const cs_settings *settings = engine->settings;
    if (settings->model)
        return cs_models_open(&engine->model, &engine->facts, engine->config->doc, settings->model, "cspeed.model");
    if (!settings->model_path)
        return cs_fail(CS_BAD_CONFIG,
                       "no model: name one in cspeed.model (an object as in a Hugging Face config.json, or a "
                       "folder that holds one), or give cs_initialize a model of your own");
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", settings->model_path);
    cs_json *doc = NULL;
    CS_TRY(cs_json_open(&doc, path));
    cs_status status = cs_models_open(&engine->model, &engine->facts, doc, cs_json_root(doc), "");
    cs_json_close(doc);
    return status;
}

/* First values only, so far: a folder with weights in it must not be trained from scratch in silence. */
static cs_status refuse_weights(const char *folder)
{
    static const char *const names[] = { "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin" };
    for (int i = 0; folder && i < 3; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "rb");
        if (!file)
            continue;
        fclose(file);
        return cs_fail(
            CS_UNSUPPORTED,
            "not supported: starting from %s, because reading Hugging Face weights is not built yet; a folder with "
            "config.json alone trains that architecture from random first values",
            path);
    }
    return CS_OK;
}

static cs_status open_model(cs_engine *engine, cs_model *own)
{
    engine->model = own;
    if (!own) {
        CS_TRY(refuse_weights(engine->settings->model_path));
        CS_TRY(open_named_model(engine));
    }
    if (engine->model->count == 0)
        return cs_fail(CS_BAD_CONFIG, "the model has no unit");
    engine->length = engine->model->inputs ? 1 : engine->settings->seq_len;
    if (engine->facts.positions && engine->length > engine->facts.positions)
        return cs_fail(CS_BAD_CONFIG, "cspeed.data.seq_len %lld is longer than the model's n_positions %lld",
                       (long long)engine->length, (long long)engine->facts.positions);
    return CS_OK;
}

static cs_status open_world(cs_engine *engine)
{
    static const char *const kinds[] = { "auto", "cpu", "cuda" };
    engine->world                    = engine->config->world;
    int threads = getenv("OMP_NUM_THREADS") ? 0 : (int)engine->settings->threads; /* which wins when set */
    CS_TRY(
        cs_device_open(&engine->device, &(cs_device_settings){ kinds[engine->settings->device], threads,
                                                               engine->world.bound ? 1 : engine->world.local_size }));
    if (engine->settings->threads > 0 && engine->settings->threads != cs_device_threads(engine->device))
        cs_log(CS_LOG_WARNING, "cspeed.threads %lld gives way to OMP_NUM_THREADS: %d thread(s) a rank",
               (long long)engine->settings->threads, cs_device_threads(engine->device));
    return cs_comm_open(&engine->comm, &engine->world, &(cs_comm_settings){ .kind = engine->settings->comm });
}

static cs_status open_shards(cs_engine *engine)
{
    const cs_settings *settings = engine->settings;
    engine->zero                = (cs_zero){
                       .stage     = cs_stages[settings->stage],
                       .dtype     = settings->dtype,
                       .optimizer = cs_optim_find(&settings->optim),
                       .comm      = engine->comm,
                       .device    = engine->device,
                       .rank      = engine->world.rank,
                       .world     = engine->world.size,
    };
    CS_TRY(cs_pool_open(&engine->values, cs_dtype_bytes(settings->dtype)));
    CS_TRY(cs_pool_open(&engine->grads, sizeof(float)));
    CS_TRY(cs_measure_run(engine));
    cs_pool_settle(engine->values, engine->comm);
    cs_pool_settle(engine->grads, engine->comm);
    engine->block = cs_device_alloc(engine->device, engine->memory.activations);
    CS_TRY(cs_pass_open(
        &engine->pass, &(cs_pass_shape){ engine->device, settings->dtype, engine->block, engine->memory.activations }));
    for (int i = 0; i < engine->model->count; i++) {
        CS_TRY(
            cs_shard_open(&engine->shards[i], &engine->zero, engine->model->units[i], engine->values, engine->grads));
        cs_shard_init(engine->shards[i], (uint64_t)settings->seed);
    }
    return CS_OK;
}

static cs_status build(cs_engine *engine, cs_model *own)
{
    CS_TRY(cs_config_finish(engine->config));
    engine->settings = &engine->config->settings;
    cs_log_open(CS_LOG_INFO, engine->config->world.rank);
    for (int i = 0; i < cs_json_note_count(engine->config->doc); i++)
        cs_log(CS_LOG_INFO, "note: %s", cs_json_note_text(engine->config->doc, i));
    cs_scaler_open(&engine->scaler, &engine->settings->scaler, engine->settings->dtype == CS_F16);
    CS_TRY(open_model(engine, own));
    CS_TRY(open_world(engine));
    size_t batch   = (size_t)engine->settings->micro_batch;
    engine->shards = calloc((size_t)engine->model->count, sizeof *engine->shards);
    engine->inputs = calloc((size_t)engine->model->count, sizeof *engine->inputs);
    engine->keys   = calloc(batch, sizeof *engine->keys);
    if (!engine->shards || !engine->inputs || !engine->keys)
        return cs_fail(CS_NO_MEMORY, "out of memory for the engine's lists");
    CS_TRY(open_shards(engine));
    engine->metrics.loss       = (double)NAN;
    engine->metrics.loss_scale = engine->scaler.scale;
    engine->started            = cs_clock_seconds();
    return CS_OK;
}

cs_status cs_initialize(cs_engine **engine, cs_config *config, cs_model *own)
{
    *engine          = calloc(1, sizeof **engine);
    cs_status status = *engine ? CS_OK : cs_fail(CS_NO_MEMORY, "out of memory for an engine");
    if (status != CS_OK) {
        cs_config_close(config);
        cs_model_free(own);
        return status;
    }
    (*engine)->config = config;
    (*engine)->model  = own;
    status            = build(*engine, own);
    if (status != CS_OK) {
        cs_destroy(*engine);
        *engine = NULL;
    }
    return status;
}

void cs_destroy(cs_engine *engine)
{
    if (!engine)
        return;
    if (engine->device && engine->comm)
        cs_walk_settle(engine); /* a loop may end in the middle of a step */
    for (int i = 0; engine->shards && i < engine->model->count; i++)
        cs_shard_close(engine->shards[i]);
    cs_pass_close(engine->pass);
    if (engine->block)
        cs_device_free(engine->device, engine->block);
    cs_pool_close(engine->values);
    cs_pool_close(engine->grads);
    cs_comm_close(engine->comm);
    cs_device_close(engine->device);
    cs_model_free(engine->model);
    cs_config_close(engine->config);
    free(engine->shards);
    free(engine->inputs);
    free(engine->keys);
    free(engine);
}

int cs_rank(const cs_engine *engine)
{
    return engine->world.rank;
}

int cs_world_size(const cs_engine *engine)
{
    return engine->world.size;
}

int64_t cs_parameter_count(const cs_engine *engine)
{
    return engine->model->parameters;
}

int64_t cs_vocabulary(const cs_engine *engine)
{
    return engine->facts.vocabulary;
}

void cs_set_total_steps(cs_engine *engine, int64_t steps)
{
    if (engine->config->settings.schedule.total_is_auto)
        engine->config->settings.schedule.total_num_steps = steps;
}

int64_t cs_agree(cs_engine *engine, int64_t value)
{
    cs_walk_settle(engine);
    cs_comm_broadcast(engine->comm, &value, 1, CS_I64, 0);
    return value;
}

const char *cs_device_description(const cs_engine *engine)
{
    return cs_device_describe(engine->device);
}
