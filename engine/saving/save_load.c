/* save_load.c - cs_save_checkpoint, cs_load_checkpoint: saves and loads the engine's state as pieces of named tensors
 * and some numbers. */
#include "saving/saving.h"
#include "base/misuse.h"
#include "base/must.h"
#include "products/products.h"
#include "chat/chat.h"
#include "base/beat.h"
#include "base/log.h"
#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "base/files.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pieces ---- */

typedef struct {
    ce_piece *piece;
    int64_t count, capacity;
} piece_list;

static void append(piece_list *list, ce_piece piece)
{
    CE_MUST_HOLD(list->piece, list->capacity, list->count + 1);
    list->piece[list->count++] = piece;
}

static void drop(piece_list *list)
{
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->piece[i].folder, "optim") == 0)
            free((void *)(uintptr_t)list->piece[i].name);
    free(list->piece);
}

/* True if the parameters are used but not trained, and the adapter comes from its own folder (`eval --adapter`). */
static bool takes_adapter(const cs_engine *engine)
{
    return engine->config->reads && engine->settings->lora.adapter;
}

/* A checkpoint in which the head is tied has only the table, and an adapter of `eval --adapter` may untie the head. */
static const char *name_of(const cs_engine *engine, const ce_unit_entry *entry)
{
    const char *untied = takes_adapter(engine) ? engine->facts.untied : NULL;
    return untied && strcmp(untied, entry->full_name) == 0 ? engine->facts.untied_of : entry->full_name;
}

/* Lists one parameter's master values and, if `states` is true, its optimizer slots, which have PyTorch's flattened
 * names, and the scales of slots in blocks. */
static void list_parameter(piece_list *list, const cs_engine *engine, const ce_shard_piece *from, bool states)
{
    const ce_cut *cut = &from->entry->cut;
    ce_piece piece = { .name = name_of(engine, from->entry),
                       .folder = "weights",
                       .dtype = from->dtype,
                       .dims = from->part.dims,
                       .shape = { cut->whole[0], cut->whole[1] },
                       .part = from->part,
                       .range = from->range,
                       .data = from->master,
                       .pitch = from->pitch };
    append(list, piece);
    for (int slot = 0; states && slot < CE_OPTIM_SLOTS && from->slots[slot]; slot++) {
        const ce_optimizer *optimizer = &engine->zero.groups->group[from->entry->group].optimizer;
        piece.name = ce_must_print("state.%s.%s", from->entry->full_name, optimizer->slot_names[slot]);
        piece.folder = "optim";
        piece.dtype = from->slot_dtype;
        piece.data = from->slots[slot];
        append(list, piece);
        if (from->scales[slot])
            append(list, ce_scales_piece(piece, ce_must_print("%s_scale", piece.name), from->scales[slot]));
    }
}

/* Lists the averages of cspeed.ema_decay, as a further slot of each parameter. */
static void list_averages(piece_list *list, const ce_average *average)
{
    for (int64_t i = 0; i < ce_average_pieces(average); i++) {
        void *data;
        const ce_shard_piece *from = ce_average_piece(average, i, &data);
        const ce_cut *cut = &from->entry->cut;
        append(list, (ce_piece){ .name = ce_must_print("state.%s.ema", from->entry->full_name),
                                 .folder = "optim",
                                 .dtype = CS_F32,
                                 .dims = from->part.dims,
                                 .shape = { cut->whole[0], cut->whole[1] },
                                 .part = from->part,
                                 .range = from->range,
                                 .data = data,
                                 .pitch = from->pitch });
    }
}

/* Lists this rank's pieces of every unit. The pieces that all ranks save cover each tensor exactly once, at every stage;
 * those that they load contain copies too. */
static void list_pieces(cs_engine *engine, piece_list *list, bool states, bool loads)
{
    for (int i = 0; i < engine->model->total; i++) {
        CE_FREED ce_shard_piece *pieces = ce_must_alloc(ce_shard_pieces_room(engine->shards[i]));
        int count = (loads ? ce_shard_held_pieces : ce_shard_pieces)(engine->shards[i], pieces);
        for (int at = 0; at < count; at++)
            if (!(pieces[at].entry->lora && takes_adapter(engine)))
                list_parameter(list, engine, &pieces[at], states);
    }
}

/* ---- numbers ---- */

enum { MARK_DIGITS = 17 };

/* Writes the hash of the data (ce_windows_mark) as hexadecimal digits, because JSON integers are signed. */
static void format_mark(char digits[MARK_DIGITS], uint64_t mark)
{
    snprintf(digits, MARK_DIGITS, "%016llx", (unsigned long long)mark);
}

/* The parts of the state that a load may skip. */
typedef enum { PROGRESS, OPTIMIZER, SCHEDULER, SCALER, RECORDED } number_part;

/* The integers of the state, which are all int64_t; `section` is NULL for the root. What is RECORDED is not restored. */
static const struct {
    const char *section, *key;
    size_t offset;
    number_part part;
} numbers[] = {
    { NULL, "global_step", offsetof(cs_engine, metrics.step), PROGRESS },
    { NULL, "samples", offsetof(cs_engine, metrics.samples), PROGRESS },
    { NULL, "tokens", offsetof(cs_engine, metrics.tokens), PROGRESS },
    { NULL, "skipped_steps", offsetof(cs_engine, metrics.skipped), PROGRESS },
    { "loss_scale", "hysteresis", offsetof(cs_engine, scaler.hysteresis), SCALER },
    { "loss_scale", "iteration", offsetof(cs_engine, scaler.iteration), SCALER },
    { "loss_scale", "last_overflow", offsetof(cs_engine, scaler.last_overflow), SCALER },
    { "optimizer", "step", offsetof(cs_engine, updates), OPTIMIZER },
    { "lr_scheduler", "last_step", offsetof(cs_engine, scheduled), SCHEDULER },
    { "data", "windows", offsetof(cs_engine, windows), RECORDED },
    { "data", "position", offsetof(cs_engine, metrics.samples), RECORDED },
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static json_t *engine_state(const cs_engine *engine)
{
    char mark[MARK_DIGITS];
    format_mark(mark, engine->mark);
    json_t *bits = ce_groups_have_blocks(engine->zero.groups) ? json_integer(8) : NULL;
    json_t *state = json_pack("{s:{s:s, s:f}, s:{s:s, s:o*}, s:{}, s:{s:s, s:I}, s:{s:s}}", "loss_scale", "kind",
                              engine->scaler.dynamic ? "dynamic" : "static", "scale", engine->scaler.scale, "optimizer",
                              "type", engine->zero.optimizer.name, "bits", bits, "lr_scheduler", "rng", "kind",
                              "philox4x32", "seed", (json_int_t)engine->settings->seed, "data", "mark", mark);
    for (int i = 0; i < NUMBERS; i++) {
        json_t *section = numbers[i].section ? json_object_get(state, numbers[i].section) : state;
        const int64_t *value = (const void *)((const char *)engine + numbers[i].offset);
        json_object_set_new(section, numbers[i].key, json_integer(*value));
    }
    if (engine->saving->average)
        json_object_set_new(state, "ema", json_pack("{s:f}", "decay", engine->settings->ema_decay));
    return state;
}

/* Returns the sizes of the mesh; NULL without tensor parallelism. They are for the reader of a manifest: a load does not
 * use them. */
static json_t *describe_mesh(const ce_mesh *mesh)
{
    if (mesh->size[CE_AXIS_TP] == 1)
        return NULL;
    return json_pack("{s:i, s:i, s:i}", "dp_replicate", mesh->size[CE_AXIS_REPLICATE], "dp_shard",
                     mesh->size[CE_AXIS_SHARD], "tp", mesh->size[CE_AXIS_TP]);
}

static json_t *provenance(const cs_engine *engine)
{
    static const char *const dtypes[] = { [CS_F32] = "F32", [CS_BF16] = "BF16", [CS_F16] = "F16" };
    char host[256] = "";
    FILE *file = fopen("/proc/sys/kernel/hostname", "r");
    if (file) {
        if (!fgets(host, sizeof host, file))
            host[0] = 0;
        host[strcspn(host, "\n")] = 0;
        fclose(file);
    }
    /* An export needs the facts about the model even if the model's folder no longer exists. */
    const char *model = engine->settings->model_path, *tokenizer = engine->settings->tokenizer;
    CE_FREED char *folder = engine->model_json && model ? realpath(model, NULL) : NULL;
    CE_FREED char *texts = tokenizer ? realpath(tokenizer, NULL) : NULL;
    if (!tokenizer && model && ce_files_holds_tokenizer(model))
        tokenizer = model; /* otherwise the tokens are bytes */
    json_t *chat = ce_chat_record(engine->settings->template, tokenizer);
    json_t *all =
        json_pack("{s:i, s:o*, s:i, s:s, s:s, s:s, s:o*, s:O*, s:s*, s:s*, s:o*, s:o*}", "world_size",
                  engine->world.size, "mesh", describe_mesh(&engine->mesh), "zero_stage", (int)engine->settings->stage,
                  "train_dtype", dtypes[engine->zero.precision.products], "host", host, "cspeed", CS_VERSION,
                  "products", ce_products_record(engine), "model", engine->model_json, "model_folder", folder,
                  "tokenizer", texts, "chat", chat, "lora", ce_lora_record(engine));
    return all;
}

/* Checks that the tag is the same on every rank, as checkpoint.tag_validation asks. */
static cs_status validate_tag(cs_engine *engine, const char *tag)
{
    int64_t min = (int64_t)(ce_rng_key(0, tag) >> 1), max = min;
    if (engine->settings->tag_validation == CE_TAG_IGNORE)
        return CS_OK;
    cs_comm_all_reduce(engine->comm, &min, 1, CS_I64, CS_MIN);
    cs_comm_all_reduce(engine->comm, &max, 1, CS_I64, CS_MAX);
    if (min == max)
        return CS_OK;
    if (engine->settings->tag_validation == CE_TAG_FAIL)
        return ce_fail(
            CS_BAD_CONFIG,
            "the checkpoint tag \"%s\" of this rank differs from that of other ranks (checkpoint.tag_validation is "
            "Fail)",
            tag);
    ce_log(CE_LOG_WARNING, "the checkpoint tag is not the same on all ranks; rank 0's, \"%s\", is taken", tag);
    return CS_OK;
}

cs_status cs_save_checkpoint(cs_engine *engine, const char *dir, const char *tag, const char *client_state)
{
    CE_GIVEN(engine, dir);
    char automatic[64];
    snprintf(automatic, sizeof automatic, "global_step%lld", (long long)engine->metrics.step);
    CE_TRY(ce_values_settle(engine, "cs_save_checkpoint"));
    double started = ce_clock_seconds();
    CE_TRY(ce_async_save_finish(engine));
    CE_TRY(validate_tag(engine, tag ? tag : automatic));
    ce_average_take(engine);
    ce_walk_settle(engine);
    piece_list list = { 0 };
    ce_checkpoint_content content = {
        .tag = tag ? tag : automatic,
        .client_state = client_state,
        .config_text = engine->config->text,
        .engine = engine_state(engine),
        .aliases =
            engine->facts.alias ? json_pack("{s:s}", engine->facts.alias, engine->facts.alias_of) : json_object(),
        .provenance = provenance(engine),
        /* As long as steps have a loss or gradients that are not finite, no older checkpoint is deleted. */
        .keep_last = engine->metrics.not_finite > 0 ? 0 : engine->settings->keep_last,
        .keep_every = engine->settings->keep_every,
        .keep_step = engine->saving->kept_step,
        .step = engine->metrics.step,
        .writing = { .threads = (int)engine->settings->writer_threads,
                     .buffer_bytes = (size_t)engine->settings->io_buffer_size,
                     .buffered = !engine->settings->direct },
        .finite = true,
    };
    list_pieces(engine, &list, true, false);
    list_averages(&list, engine->saving->average);
    ce_transfer_begin(engine, &content.device_copy);
    content.pieces = list.piece;
    content.piece_count = list.count;
    ce_ancestry_offer(engine, dir, &content);
    cs_status status = ce_async_save_start(engine, dir, &content, started);
    drop(&list);
    json_decref((json_t *)(uintptr_t)content.engine);
    json_decref((json_t *)(uintptr_t)content.aliases);
    json_decref((json_t *)(uintptr_t)content.provenance);
    engine->started += ce_clock_seconds() - started; /* The time of saving does not count as time of the step. */
    return status;
}

void cs_keep_checkpoint(cs_engine *engine, int64_t step)
{
    CE_GIVEN(engine);
    engine->saving->kept_step = step;
}

/* ---- load ---- */

/* Numbers that the checkpoint does not have become 0, but for the step of the last overflow, which becomes -1. */
static void restore_numbers(cs_engine *engine, json_t *state, const cs_load_options *options)
{
    json_t *saved = json_object_get(state, "loss_scale");
    const char *kind = json_string_value(json_object_get(saved, "kind"));
    /* If the loss scale of the checkpoint or of the run is static, the run keeps its initial scale. */
    bool scaled = engine->scaler.dynamic && kind && strcmp(kind, "dynamic") == 0;
    for (int i = 0; i < NUMBERS; i++) {
        number_part part = numbers[i].part;
        const json_t *section = numbers[i].section ? json_object_get(state, numbers[i].section) : state;
        const json_t *number = json_object_get(section, numbers[i].key);
        bool skips = (part == OPTIMIZER && options->skip_optimizer_states) ||
                     (part == SCHEDULER && options->skip_lr_scheduler_states);
        if (part == RECORDED || (part == SCALER && !scaled))
            continue;
        int64_t missing = numbers[i].offset == offsetof(cs_engine, scaler.last_overflow) ? -1 : 0;
        *(int64_t *)(void *)((char *)engine + numbers[i].offset) = skips ? 0
                                                                   : json_is_integer(number)
                                                                       ? json_integer_value(number)
                                                                       : missing;
    }
    if (!scaled)
        return;
    const json_t *scale = json_object_get(saved, "scale");
    engine->scaler.scale = scale ? json_number_value(scale) : 1;
    ce_step_judge_place(engine);
}

static cs_status check_optimizer(cs_engine *engine, json_t *state)
{
    const char *saved = "";
    int bits = 32, own = ce_groups_have_blocks(engine->zero.groups) ? 8 : 32;
    json_unpack(state, "{s?{s?s, s?i}}", "optimizer", "type", &saved, "bits", &bits);
    if (strcmp(saved, engine->zero.optimizer.name) != 0)
        return ce_fail(CS_BAD_CONFIG,
                       "the checkpoint was made with the optimizer %s, but this run uses %s: load without optimizer "
                       "states, or use the same optimizer",
                       saved, engine->zero.optimizer.name);
    if (bits != own)
        return ce_fail(CS_BAD_CONFIG,
                       "the checkpoint has %d-bit optimizer state, but this run has %d-bit state: set "
                       "optimizer.params.optim_bits to %d, or load without optimizer states",
                       bits, own, bits);
    return CS_OK;
}

/* Warns if the seed or the data differ from those of the checkpoint, because the saved position in the data then stands
 * for other samples. */
static void warn_of_other_data(const cs_engine *engine, json_t *state)
{
    json_int_t seed = engine->settings->seed, windows = 0;
    char current[MARK_DIGITS];
    /* A checkpoint of an older version has no hash of the data; the data then counts as equal. */
    const char *mark = current;
    format_mark(current, engine->mark);
    json_unpack(state, "{s?{s?I}, s?{s?I, s?s}}", "rng", "seed", &seed, "data", "windows", &windows, "mark", &mark);
    if (seed != engine->settings->seed)
        ce_log(CE_LOG_WARNING,
               "the checkpoint was made with seed %lld, this run has %lld: data order and dropout change here",
               (long long)seed, (long long)engine->settings->seed);
    if (windows == 0 || engine->windows == 0)
        return;
    if (windows != engine->windows)
        ce_log(CE_LOG_WARNING,
               "the checkpoint was made on %lld windows of data, here there are %lld: the order of an "
               "epoch is another, and what was learnt from may come again before the rest has come",
               (long long)windows, (long long)engine->windows);
    else if (strcmp(mark, current) != 0)
        ce_log(CE_LOG_WARNING, "the checkpoint was made on other data of as many windows: training goes on with what "
                               "cspeed.data.train names now");
}

/* Warns if the training began with another model folder than the one that is named now, because the values in that
 * folder have no effect. */
static void warn_of_other_folder(const cs_engine *engine, const char *saved)
{
    const char *path = engine->settings->model_path;
    CE_FREED char *folder = path && saved && !engine->config->reads ? realpath(path, NULL) : NULL;
    if (folder && strcmp(folder, saved) != 0)
        ce_log(CE_LOG_WARNING,
               "cspeed.model names %s, and this checkpoint's training began with %s: the checkpoint's parameters are "
               "used, and none of %s; train with another cspeed.output, or with --fresh, to begin with that model",
               path, saved, path);
}

/* Warns of model settings that differ from the checkpoint's and give the same tensors another meaning. Settings that
 * change shapes are refused when the tensors are read. */
static void warn_of_other_model(const cs_engine *engine, json_t *provenance)
{
    char text[CE_MODELS_DIFFERENCES];
    const json_t *saved = json_object_get(provenance, "model");
    warn_of_other_folder(engine, json_string_value(json_object_get(provenance, "model_folder")));
    if (!engine->model_json || !json_is_object(saved))
        return;
    ce_models_compare(text, saved, engine->model_json);
    if (text[0])
        ce_log(CE_LOG_WARNING,
               "the checkpoint was made with another model: %s; its parameters were trained for what the "
               "checkpoint says",
               text);
}

/* Reads the parameters from the open checkpoint. If `states` is true, also reads the optimizer state. */
static cs_status read_pieces(cs_engine *engine, ce_checkpoint_reader *reader, bool states, piece_list *list)
{
    list_pieces(engine, list, states, true);
    if (states && json_object_get(ce_checkpoint_engine(reader), "ema"))
        list_averages(list, engine->saving->average);
    cs_status status = ce_checkpoint_read(reader, engine->comm, list->piece, list->count);
    ce_transfer_end(engine);
    return status;
}

/* Loads the state from the open checkpoint. Counters, the loss scale and positions in the data are set after all
 * tensors have been read. So a read that fails at a damaged block has changed only tensors, and a later read of another
 * checkpoint replaces all of these tensors. */
static cs_status load(cs_engine *engine, const char *dir, ce_checkpoint_reader *reader, const cs_load_options *options)
{
    bool states = !options->module_only && !options->skip_optimizer_states;
    json_t *state = ce_checkpoint_engine(reader);
    piece_list list = { 0 };
    if (states)
        CE_TRY(check_optimizer(engine, state));
    if (states && json_object_get(state, "ema") && !engine->saving->average)
        return ce_fail(CS_BAD_CONFIG, "the checkpoint has averages of the parameters, and this run has none: set "
                                      "cspeed.ema_decay, or load without optimizer states");
    if (!options->module_only)
        CE_TRY(ce_base_check(engine, ce_checkpoint_provenance(reader)));
    cs_status status = read_pieces(engine, reader, states, &list);
    drop(&list);
    CE_TRY(status);
    if (engine->config->reads)
        ce_log(CE_LOG_NOTICE, "the model's values: %s of %s", ce_checkpoint_tag(reader), dir);
    for (int i = 0; i < engine->model->total; i++) {
        if (options->skip_optimizer_states)
            ce_shard_forget(engine->shards[i]);
        ce_shard_spread(engine->shards[i]);
    }
    warn_of_other_data(engine, state);
    warn_of_other_model(engine, ce_checkpoint_provenance(reader));
    /* The checkpoint may contain biases that the adapter's folder contains too. Loading the adapter again restores the
     * values of the folder. */
    if (takes_adapter(engine))
        CE_TRY(ce_adapter_load(engine));
    if (!options->module_only || engine->config->reads)
        ce_products_resume(engine, ce_checkpoint_provenance(reader));
    if (!options->module_only) {
        restore_numbers(engine, state, options);
        ce_average_loaded(engine, states && json_object_get(state, "ema"));
        ce_schedule_change_read(engine, reader);
    }
    return CS_OK;
}

/* Loads the chosen checkpoint. If reading shows that it is damaged, loads the next candidate instead, and so on. */
static cs_status load_whole(cs_engine *engine, const char *dir, ce_checkpoint_reader *reader,
                            const cs_load_options *options)
{
    cs_status status = load(engine, dir, reader, options);
    while (status != CS_OK && ce_checkpoint_is_damaged(reader)) {
        CE_TRY(ce_checkpoint_fall_back(reader, engine->comm));
        status = load(engine, dir, reader, options);
    }
    return status;
}

cs_status cs_load_checkpoint(cs_engine *engine, const char *dir, const char *tag, const cs_load_options *options,
                             char **client_state)
{
    CE_GIVEN(engine, dir);
    static const cs_load_options everything = { 0 };
    ce_checkpoint_reader *reader = NULL;
    CE_TRY(ce_values_settle(engine, "cs_load_checkpoint"));
    CE_TRY(ce_async_save_finish(engine));
    options = options ? options : &everything;
    bool begins = engine->metrics.step == 0 && !options->module_only; /* True for the load at the start of a run. */
    if (begins && !tag && !engine->saving->async.resume_dir)
        engine->saving->async.resume_dir = ce_must_copy(dir);
    ce_checkpoint_reading reading = { .no_fallback = engine->settings->on_bad_latest == CE_BAD_LATEST_FAIL,
                                      .verify = (unsigned)engine->settings->verify_on_load,
                                      .names = options->loose ? CE_NAMES_LOOSE : CE_NAMES_ALL };
    engine->fresh = false;
    ce_transfer_begin(engine, &reading.device_copy);
    CE_TRY(ce_checkpoint_open_as(&reader, engine->comm, dir, tag, &reading));
    cs_status status = load_whole(engine, dir, reader, options);
    if (status == CS_OK)
        ce_ancestry_loaded(engine, dir, reader, options->module_only);
    if (status == CS_OK && options->rewind)
        status = ce_ancestry_rewind(engine, dir, reader);
    if (status == CS_OK && client_state) {
        const char *text = ce_checkpoint_client_state(reader);
        *client_state = text ? ce_must_copy(text) : NULL;
    }
    if (status == CS_OK && begins)
        ce_beat_keep(engine->metrics.step);
    if (status == CS_OK) {
        ce_async_save_trust(engine, dir, ce_checkpoint_tag(reader));
        engine->metrics.not_finite = 0; /* the count belongs to the state that has been replaced */
    }
    ce_checkpoint_close(reader);
    engine->started = ce_clock_seconds();
    return status;
}
