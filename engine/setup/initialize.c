/* initialize.c - cs_initialize, cs_destroy, cs_estimate: opens configuration, model, device, transport and shards. */
#include "setup/setup.h"
#include "base/misuse.h"
#include "products/products.h"
#include "query/query.h"
#include "input/input.h"
#include "input/loader.h"
#include "saving/saving.h"
#include "reporting/reporting.h"
#include "base/asked.h"
#include "base/log.h"
#include "base/plural.h"
#include "comm/common.h"
#include "hub/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

/* Opens the model that cspeed.model describes: a JSON object, or a folder that contains config.json. */
cs_status ce_initialize_model(cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    CE_TRY(ce_config_need_model(engine->config));
    if (settings->model_path)
        return ce_pretrained_open(engine, settings->model_path);
    CE_TRY(ce_models_open_described(&engine->model, &engine->facts, &engine->model_json, engine->config->doc,
                                    settings->model, "cspeed.model"));
    ce_json_print_warnings(engine->config->doc);
    return CS_OK;
}

/* If the model comes from a folder, windows longer than the model's number of positions are cut, because the folder's
 * author chose that number. If the configuration itself describes the model, longer windows are an error. */
static cs_status fit_windows(cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    long long asked = (long long)settings->seq_len, max = (long long)engine->facts.positions;
    if (max == 0 || asked <= max)
        return CS_OK;
    if (!settings->model_path)
        return ce_fail(CS_BAD_CONFIG,
                       "cspeed.data.seq_len %lld is greater than the number of positions of the model: --seq_len "
                       "%lld is possible",
                       asked, max);
    if (settings->curriculum.kind != CE_DIFFICULTY_NONE && settings->curriculum.max > max)
        return ce_fail(CS_BAD_CONFIG,
                       "the curriculum ends with samples of %lld tokens, but the model of %s has %lld positions",
                       (long long)settings->curriculum.max, settings->model_path, max);
    ce_log(CE_LOG_WARNING, "cspeed.data.seq_len %lld is cut to %lld, the positions of the model in %s", asked, max,
           settings->model_path);
    ce_config_cut_windows(engine->config, max);
    return CS_OK;
}

/* Sequence parallelism: each rank has the rows of whole sequences, or a part of one sequence. */
static cs_status check_rows(const cs_engine *engine)
{
    int64_t tp = engine->settings->tp, sequences = engine->sequences, parts = tp / sequences;
    bool whole = sequences % tp == 0, one = tp % sequences == 0 && parts > 0 && engine->length % parts == 0;
    if (!engine->settings->cuts_rows || whole || one)
        return CS_OK;
    return ce_fail(CS_BAD_CONFIG,
                   "cspeed.mesh.sequence: %lld ranks cannot divide the %lld sequences of %lld tokens of a micro-batch "
                   "evenly; use a micro-batch that is a multiple of %lld, or one that divides %lld with a seq_len that "
                   "is a multiple of %lld",
                   (long long)tp, (long long)sequences, (long long)engine->length, (long long)tp, (long long)tp,
                   (long long)tp);
}

static cs_status open_model(cs_engine *engine, cs_model *model)
{
    const ce_settings *settings = engine->settings;
    engine->mesh = ce_mesh_of(engine->world.rank, engine->world.size, settings->tp, settings->shard_size);
    engine->facts.tp =
        (ce_cut_group){ engine->mesh.size[CE_AXIS_TP], engine->mesh.own[CE_AXIS_TP], settings->cuts_rows };
    engine->model = model;
    if (model && settings->cuts_rows)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cspeed.mesh.sequence with a model of the program's own, because its "
                       "layers do not say where the rows of their tensors may be divided");
    if (!model)
        CE_TRY(ce_initialize_model(engine));
    if (engine->model->count == 0)
        return ce_fail(CS_BAD_CONFIG, "the model has no unit");
    CE_TRY(ce_lora_open(engine));
    CE_TRY(ce_names_check(engine->model));
    CE_TRY(ce_quantize(engine));
    if (model)
        ce_model_copy(model, engine->facts.tp);
    if (!engine->model->inputs)
        CE_TRY(fit_windows(engine));
    engine->length = engine->model->inputs ? 1 : engine->settings->seq_len;
    engine->sequences = engine->settings->micro_batch * (ce_preference_is_on(engine) ? CE_ANSWERS : 1);
    CE_TRY(check_rows(engine));
    if (ce_preference_is_on(engine) && engine->model->inputs)
        return ce_fail(
            CS_BAD_CONFIG,
            "not supported: cspeed.dpo with a model that reads floats, because the answers of a pair are texts");
    return CS_OK;
}

static void say_padding(const cs_memory *memory)
{
    if (memory->rows_zero > 0)
        ce_log(CE_LOG_INFO,
               "the vocabulary of %lld is held as %lld rows on the device, so that its products are aligned: the %lld "
               "zero rows take %.1f MB, and are neither updated nor saved",
               (long long)(memory->rows_held - memory->rows_zero), (long long)memory->rows_held,
               (long long)memory->rows_zero, 1e-6 * (double)memory->padding);
}

/* Returns true if the ranks of this rank's group of hybrid sharding can compute with one common copy of the
 * parameters. */
static bool has_common(const cs_engine *engine)
{
    cs_world group = engine->world;
    int first = ce_mesh_first(&engine->mesh, CE_AXIS_SHARD), stride = ce_mesh_stride(&engine->mesh, CE_AXIS_SHARD);
    int host = engine->world.rank - engine->world.local_rank;
    group.size = engine->mesh.size[CE_AXIS_SHARD];
    bool inside = first >= host && first + (group.size - 1) * stride < host + engine->world.local_size;
    group.local_size = inside ? group.size : 1;
    return ce_comm_has_common(&group, engine->settings->transport);
}

/* Offload from a GPU needs state that is sharded over all ranks: collectives then do not work on state in host memory.
 * */
static cs_status check_offload(const cs_engine *engine)
{
    const ce_zero *zero = &engine->zero;
    if (zero->offload_optimizer && zero->stage.optim == CE_REPLICATED)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: zero_optimization.offload_optimizer on a GPU with stage 0, which "
                       "shards no optimizer state; choose stage 1, 2 or 3");
    if (zero->offload_params && zero->stage.params == CE_REPLICATED)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: zero_optimization.offload_param on a GPU with stage %d, which "
                       "shards no parameters; choose stage 3",
                       (int)engine->settings->stage);
    if ((zero->offload_optimizer || zero->offload_params) && engine->mesh.size[CE_AXIS_REPLICATE] > 1)
        return ce_fail(CS_UNSUPPORTED, "not supported: zero_optimization.offload_optimizer and offload_param on a GPU "
                                       "with hybrid sharding (zero_optimization.mics_shard_size)");
    return CS_OK;
}

/* Sets engine->zero, opens the pools and measures the memory that this rank needs. */
static cs_status measure(cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    bool gpu = ce_connect_is_gpu(engine);
    engine->zero = (ce_zero){
        .stage = ce_stages[settings->stage],
        .precision = settings->precision,
        .bucket_elements = settings->reduce_bucket_size,
        .prescale_factor = settings->prescale_factor,
        .optimizer = ce_optim_find(&settings->optim),
        .groups = &settings->groups,
        .align = ce_groups_have_blocks(&settings->groups) ? CE_OPTIM_BLOCK : CE_ZERO_ALIGN,
        .comm = engine->group ? engine->group : engine->comm,
        .across = engine->across,
        .tp = engine->exchange,
        .copies = engine->copies_exchange,
        .device = engine->device,
        .common = !gpu && has_common(engine),
        .offload_optimizer = gpu && settings->offload_optimizer == CE_OFFLOAD_CPU,
        .offload_params = gpu && settings->offload_param == CE_OFFLOAD_CPU,
    };
    CE_TRY(check_offload(engine));
    if (settings->stage == 3 && engine->zero.common && settings->prefetch > 1)
        ce_log(CE_LOG_WARNING,
               "cspeed.prefetch %lld has no effect: the CPU ranks of one host compute with each other's "
               "parameters in place",
               (long long)settings->prefetch);
    ce_stage_place(&engine->zero, &engine->mesh);
    for (int i = 0; i < settings->groups.count; i++)
        if (settings->groups.group[i].optimizer.slots > engine->zero.optimizer.slots)
            engine->zero.optimizer.slots = settings->groups.group[i].optimizer.slots;
    ce_assign_print(&settings->groups, engine->model);
    engine->values = ce_pool_open(1);
    engine->grads = ce_pool_open(sizeof(float));
    return ce_dry_run(engine);
}

/* With tensor parallelism the pass is in memory of the group's comm, where CPU ranks of one host exchange tensors in
 * place. All ranks of the group allocate as many bytes as the rank that needs most. */
static void agree_on_activations(cs_engine *engine)
{
    int64_t bytes = (int64_t)engine->memory.activations;
    if (engine->tp.comm)
        cs_comm_all_reduce(engine->tp.comm, &bytes, 1, CS_I64, CS_MAX);
    engine->memory.activations = (size_t)bytes;
}

static void *alloc_block(cs_engine *engine)
{
    size_t bytes = engine->memory.activations;
    return engine->tp.comm ? cs_comm_alloc(engine->tp.comm, bytes) : ce_device_alloc(engine->device, bytes);
}

static cs_status open_shards(cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    CE_TRY(measure(engine));
    agree_on_activations(engine);
    say_padding(&engine->memory);
    CE_TRY(ce_memory_fit_check(engine));
    CE_TRY(ce_loader_begin(engine));
    CE_TRY(ce_products_agree(engine));
    ce_pool_settle(engine->values, engine->zero.comm);
    ce_pool_settle(engine->grads, engine->zero.comm);
    size_t wire = ce_plan_wire(&engine->zero, engine->model);
    engine->zero.wire = wire ? cs_comm_alloc(engine->zero.comm, wire) : NULL;
    engine->zero.buckets = engine->buckets = ce_bucket_open(&engine->zero, engine->model);
    engine->block = alloc_block(engine);
    ce_step_judge_open(engine, engine->block);
    size_t table = ce_step_judge_bytes(), load = table + ce_ranges_bytes(engine->model);
    size_t rest = load + ce_experts_bytes(engine);
    ce_experts_open(engine, (char *)engine->block + load);
    ce_pass_shape shape = { engine->device,
                            settings->precision.values,
                            settings->precision.products,
                            (char *)engine->block + rest,
                            engine->memory.activations - rest,
                            engine->chunk_bytes,
                            engine->exchange,
                            engine->model->tp.rows,
                            ce_setup_regular(settings) };
    CE_TRY(ce_pass_open(&engine->pass, &shape));
    for (int i = 0; i < engine->model->total; i++) {
        engine->shards[i] = ce_shard_open(&engine->zero, engine->model->units[i], engine->values, engine->grads);
        ce_shard_init(engine->shards[i], (uint64_t)settings->seed);
    }
    CE_TRY(ce_upload_open(engine));
    engine->update =
        ce_update_open(&engine->zero, engine->shards, engine->model, shape.block, (char *)engine->block + table);
    CE_TRY(ce_pretrained_load(engine, engine->model_json ? settings->model_path : NULL));
    CE_TRY(ce_adapter_load(engine));
    return ce_ends_load(engine);
}

/* Logs the data types and the clipping limit and, with mixed precision, the types of each kind of operation. */
static void say_precision(const ce_settings *settings)
{
    const ce_precision *types = &settings->precision;
    bool mixed = settings->amp.enabled || settings->autocast.enabled;
    ce_precision_row row;
    ce_log(CE_LOG_INFO,
           "precision: parameters %s, masters %s, optimizer state %s, gradients %s, between ranks %s; %s%g",
           ce_precision_name(types->values), ce_precision_name(types->masters), ce_precision_name(types->slots),
           ce_precision_name(types->sums), ce_precision_name(types->wire),
           settings->gradient_clipping > 0 ? "gradient_clipping " : "gradients are not clipped: gradient_clipping ",
           settings->gradient_clipping);
    for (int i = 0; mixed && ce_precision_list(types, i, &row); i++)
        ce_log(CE_LOG_INFO, "  %-18s takes %s, gives %s", row.operation, ce_precision_name(row.takes),
               ce_precision_name(row.gives));
}

/* Decides which parameters are frozen, and computes the shapes that depend on the kind of device. */
static cs_status lay_out(cs_engine *engine, const char *kind)
{
    CE_TRY(ce_assign_groups(&engine->settings->groups, engine->model));
    CE_TRY(ce_partition_compare(engine));
    CE_TRY(ce_model_freeze(engine->model, engine->settings->quantization.twice));
    ce_model_lay_out(engine->model, ce_device_row_multiple(kind),
                     ce_groups_have_blocks(&engine->settings->groups) ? CE_OPTIM_BLOCK : 1);
    engine->chunk_bytes = ce_device_chunk_bytes(kind);
    return CS_OK;
}

static cs_status open_lists(cs_engine *engine)
{
    size_t units = (size_t)engine->model->total;
    engine->shards = calloc(units, sizeof *engine->shards);
    engine->inputs = calloc(units, sizeof *engine->inputs);
    engine->keys = calloc((size_t)engine->sequences, sizeof *engine->keys);
    if (!engine->shards || !engine->inputs || !engine->keys)
        return ce_fail(CS_NO_MEMORY, "out of memory for the engine's lists");
    CE_TRY(ce_experts_check(engine));
    return ce_curriculum_open(engine);
}

static const ce_observer *const observers[] = { &ce_position_observer,
                                                &ce_report_observer,
                                                &ce_finite_observer,
                                                &ce_async_save_observer,
                                                &ce_curriculum_observer,
                                                &ce_experts_observer,
                                                &ce_predict_observer,
                                                &ce_check_observer,
                                                &ce_graphs_observer,
                                                &ce_copies_observer,
                                                NULL };

/* Downloads weights that the Hugging Face Hub has and the disk does not, before any rank waits for another one. */
static cs_status download_weights(const ce_settings *settings)
{
    const char *const folders[] = { settings->model_path, settings->reference, settings->lora.adapter };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (folders[i])
            CE_TRY(ce_hub_need_weights(folders[i]));
    return CS_OK;
}

static cs_status build(cs_engine *engine, cs_model *model)
{
    CE_TRY(cs_config_finish(engine->config));
    engine->settings = &engine->config->settings;
    ce_log_open(engine->config->reads ? CE_LOG_NOTICE : CE_LOG_INFO, engine->config->world.rank);
    for (int i = 0; i < ce_json_note_count(engine->config->doc); i++)
        ce_log(CE_LOG_INFO, "note: %s", ce_json_note_text(engine->config->doc, i));
    ce_scaler_open(&engine->scaler, &engine->settings->scaler, engine->settings->precision.scaled);
    say_precision(engine->settings);
    engine->world = engine->config->world;
    CE_TRY(ce_mesh_groups_check(engine));
    CE_TRY(download_weights(engine->settings));
    CE_TRY(open_model(engine, model));
    CE_TRY(ce_connect(engine->config, &engine->device, &engine->comm));
    CE_TRY(ce_agreement_check(engine));
    CE_TRY(ce_cpu_isa_agree(engine));
    CE_TRY(lay_out(engine, ce_device_kind(engine->device)));
    CE_TRY(open_lists(engine));
    CE_TRY(ce_mesh_groups_open(engine));
    CE_TRY(open_shards(engine));
    engine->metrics.loss = (double)NAN;
    engine->metrics.loss_scale = engine->scaler.scale;
    CE_TRY(ce_async_save_open(engine));
    CE_TRY(ce_report_open(engine));
    CE_TRY(ce_memory_fit_address_space());
    ce_graphs_open(engine);
    engine->observers = observers;
    ce_preference_report(&engine->metrics.preference, (double[CE_PAIR_MEANS]){ NAN, NAN, NAN, NAN, NAN });
    engine->fresh = true;
    engine->started = ce_clock_seconds();
    return CS_OK;
}

cs_status cs_initialize(cs_engine **engine, cs_config *config, cs_model *model)
{
    CE_GIVEN(engine, config);
    *engine = calloc(1, sizeof **engine);
    cs_status status = *engine ? CS_OK : ce_fail(CS_NO_MEMORY, "out of memory for an engine");
    if (status != CS_OK) {
        cs_config_close(config);
        cs_model_free(model);
        return status;
    }
    (*engine)->config = config;
    (*engine)->model = model;
    status = build(*engine, model);
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
    cs_data_close(engine->begun[0]);
    cs_data_close(engine->begun[1]);
    if (engine->device && engine->comm)
        /* the streams may be busy, because a program may close the engine in the middle of a step */
        ce_walk_settle(engine);
    ce_step_settle(engine);
    ce_async_save_close(engine);
    ce_report_close(engine);
    ce_curriculum_close(engine);
    ce_experts_close(engine);
    for (int i = 0; engine->shards && i < engine->model->total; i++)
        ce_shard_close(engine->shards[i]);
    ce_update_close(engine->update);
    ce_predict_close(engine);
    ce_pass_close(engine->pass);
    ce_step_judge_close(engine);
    if (engine->block && !engine->tp.comm)
        ce_device_free(engine->device, engine->block);
    ce_upload_close(engine->upload);
    ce_transfer_close(engine->transfer);
    ce_pool_close(engine->values);
    ce_pool_close(engine->grads);
    ce_mesh_groups_close(engine);
    cs_model_free(engine->model);
    ce_lora_close(&engine->lora);
    json_decref(engine->model_json);
    json_decref(engine->ends);
    cs_config_close(engine->config); /* closes engine->comm and engine->device too */
    ce_asked_release();
    ce_traffic_free(&engine->traffic);
    free(engine->shards);
    free(engine->buckets);
    free(engine->inputs);
    free(engine->keys);
    free(engine->must_end);
    free(engine);
}

cs_status ce_initialize_dry(cs_engine *engine)
{
    CE_TRY(open_model(engine, NULL));
    CE_TRY(lay_out(engine, ce_connect_kind(engine->settings->device)));
    CE_TRY(open_lists(engine));
    return measure(engine);
}
