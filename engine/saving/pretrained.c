/* pretrained.c - loads initial values from a Hugging Face folder. Each rank reads only its own ranges of elements. */
#include "base/must.h"
#include "saving/saving.h"
#include "hub/hub.h"
#include "base/log.h"
#include "base/progress.h"
#include "comm/collective_status.h"
#include "base/files.h"
#include "interchange/huggingface.h"
#include "interchange/norms.h"

#include <stdlib.h>

static cs_status fill(const cs_engine *engine, ce_source *source, const ce_shard_piece *piece, void *into)
{
    const char *name = piece->entry->full_name;
    int64_t tensor = ce_source_find(source, name), weight;
    if (tensor >= 0)
        return ce_source_read_box(source, tensor, &piece->part, piece->range, into, piece->dtype);
    if (!ce_norms_weight(&weight, source, name))
        return ce_fail(CS_BAD_FILE, "tensor %s is missing", name);
    int64_t first = piece->part.offset[0]; /* the magnitudes are a vector */
    return ce_norms_read(source, weight, engine->lora.fan_in_fan_out,
                         (ce_range){ first + piece->range.from, first + piece->range.to }, into, piece->dtype);
}

/* Copies the values of a piece, which are contiguous in host memory, to their places. */
static void place(const cs_engine *engine, const ce_shard_piece *piece, const char *values)
{
    cs_stream *stream = ce_device_stream(engine->device, CE_COMPUTE);
    int64_t size = (int64_t)cs_dtype_bytes(piece->dtype), items = ce_range_length(piece->range);
    int64_t run = piece->pitch ? piece->part.size[1] : items;
    for (int64_t row = 0; row * run < items; row++)
        ce_stream_copy(stream, (char *)piece->master + row * piece->pitch * size, values + row * run * size,
                       (size_t)(run * size));
    ce_stream_sync(stream);
}

/* Reads one piece of a parameter. If the device has its own memory, or the piece is not contiguous, the elements are read
 * into host memory and then copied. */
static cs_status read_piece(cs_engine *engine, ce_source *source, const ce_shard_piece *piece)
{
    cs_dtype dtype = piece->dtype;
    size_t bytes = (size_t)ce_range_length(piece->range) * cs_dtype_bytes(dtype);
    bool copies = ce_device_has_own_memory(engine->device) || piece->pitch;
    void *into = copies ? malloc(bytes) : piece->master;
    if (!into)
        return ce_fail(CS_NO_MEMORY, "out of memory for %zu bytes of %s", bytes, piece->entry->full_name);
    cs_status status = fill(engine, source, piece, into);
    if (copies) {
        place(engine, piece, into);
        free(into);
    }
    return status;
}

/* True if a parameter's initial value comes from the model's folder: if it is a parameter of the model itself, or a
 * magnitude of DoRA that no folder of PEFT contains. */
static bool of_model(const cs_engine *engine, const ce_unit_entry *entry)
{
    return !entry->lora || (!engine->settings->lora.adapter && ce_norms_are(entry->full_name));
}

cs_status ce_pretrained_read(cs_engine *engine, struct ce_source *source, int i, bool adapter)
{
    if (ce_shard_unit(engine->shards[i])->bytes)
        return adapter ? CS_OK : ce_four_bit_load(engine, source, i);
    CE_FREED ce_shard_piece *pieces = ce_must_alloc(ce_shard_pieces_room(engine->shards[i]));
    int count = ce_shard_held_pieces(engine->shards[i], pieces);
    for (int at = 0; at < count; at++)
        if (adapter ? ce_adapter_has(pieces[at].entry) : of_model(engine, pieces[at].entry))
            CE_TRY(read_piece(engine, source, &pieces[at]));
    return CS_OK;
}

static cs_status read_all(cs_engine *engine, const char *folder)
{
    ce_source source;
    CE_TRY(ce_huggingface_open(&source, folder));
    cs_status status = ce_huggingface_check(&source, engine->model, &engine->facts, folder);
    ce_progress progress;
    ce_progress_begin(&progress, "loading", "units", engine->model->total);
    for (int i = 0; i < engine->model->total && status == CS_OK; i++) {
        status = ce_pretrained_read(engine, &source, i, false);
        ce_progress_add(&progress, 1);
    }
    ce_progress_end(&progress);
    if (status == CS_OK) {
        bool replaced = engine->config->reads && engine->settings->load && !engine->lora.first;
        ce_log(replaced ? CE_LOG_INFO : CE_LOG_NOTICE, "first values: %lld tensors of %s", (long long)source.count,
               folder);
        ce_huggingface_name_others(&source, folder);
    }
    ce_source_close(&source);
    return status;
}

/* transformers takes a folder with a whole model and an adapter for the adapter, beside the base model that
 * adapter_config.json names, and not for the whole model. */
static cs_status check_adapter(const cs_engine *engine, const char *folder)
{
    if (engine->settings->lora.adapter || !ce_files_holds(folder, "adapter_config.json"))
        return CS_OK;
    return ce_fail(CS_BAD_CONFIG,
                   "%s contains a complete model and an adapter (adapter_config.json), and only one can be used: "
                   "give --adapter %s for the adapter, with its base model as the model; or move adapter_config.json "
                   "and the adapter's weights elsewhere",
                   folder, folder);
}

/* Called if there are no weights to read. `folder` is NULL if the model has no folder. */
static cs_status start_at_random(const cs_engine *engine, const char *folder)
{
    bool reads = engine->config->reads;
    if (reads && !engine->settings->load)
        return ce_fail(CS_NOT_FOUND,
                       "%s has a config.json and no weights (no *.safetensors), so there is no trained model to use: "
                       "only training starts from random values",
                       folder ? folder : "cspeed.model");
    if (engine->settings->quantization.on && engine->lora.first && !engine->settings->load && !reads)
        return ce_fail(CS_BAD_CONFIG,
                       "cspeed.quantization_config: %s has no weights, and random values are not quantised to 4 bits",
                       folder ? folder : "the model");
    if (engine->settings->lora.dora && !engine->settings->lora.adapter && !reads && folder)
        return ce_fail(CS_BAD_CONFIG,
                       "cspeed.lora.dora: %s has no weights, whose norms are the initial magnitudes of DoRA", folder);
    bool trained = engine->lora.first || ce_preference_is_on(engine); /* starts from a trained model */
    if (!reads)
        ce_log(folder ? CE_LOG_WARNING : CE_LOG_NOTICE, "first values: random, seed %lld%s%s%s",
               (long long)engine->settings->seed, folder ? "; there are no weights (*.safetensors) in " : "",
               folder ? folder : "",
               folder && trained
                   ? ", and adapters and preference training need a trained model, unless a checkpoint of "
                     "this training is loaded next"
                   : "");
    return CS_OK;
}

cs_status ce_pretrained_load(cs_engine *engine, const char *folder)
{
    bool found = false;
    cs_status status = folder ? ce_huggingface_detect(&found, folder) : CS_OK;
    if (status == CS_OK && found)
        status = check_adapter(engine, folder);
    if (status == CS_OK)
        status = found ? read_all(engine, folder) : start_at_random(engine, folder);
    CE_TRY(ce_collective_status(engine->comm, status));
    if (found)
        CE_TRY(ce_base_note(engine, folder));
    for (int i = 0; i < engine->model->total && found; i++)
        ce_shard_spread(engine->shards[i]);
    return CS_OK;
}

/* Fails unless the folder's config.json describes this model and the folder has weights. */
static cs_status check_reference(const cs_engine *engine, const char *folder)
{
    char differences[CE_MODELS_DIFFERENCES], hint[CE_HUB_HINT];
    size_t length;
    bool found;
    CE_FREED char *text = NULL;
    CE_FREED char *path = ce_files_join(folder, "config.json");
    ce_hub_hint(hint, folder);
    cs_status status = ce_files_read(&text, &length, path, 1 << 26);
    if (status == CS_NOT_FOUND)
        return ce_fail(status, "cspeed.dpo.reference: there is no %s/config.json%s", folder, hint);
    CE_TRY(status);
    json_auto_t *config = ce_json_strict(text, length);
    if (!config)
        return ce_fail(CS_BAD_FILE, "%s/config.json: %s", folder, cs_error());
    ce_models_compare(differences, config, engine->model_json);
    if (differences[0])
        return ce_fail(CS_BAD_CONFIG, "cspeed.dpo.reference: the model in %s differs from the trained one: %s", folder,
                       differences);
    CE_TRY(ce_huggingface_detect(&found, folder));
    return found ? CS_OK : ce_fail(CS_NOT_FOUND, "cspeed.dpo.reference: %s has no weights (no *.safetensors)", folder);
}

cs_status ce_pretrained_reference(cs_engine *engine, const char *folder)
{
    cs_status status = engine->model_json ? check_reference(engine, folder)
                                          : ce_fail(CS_UNSUPPORTED,
                                                    "not supported: cspeed.dpo.reference with a model of the program's "
                                                    "own, because it has no Hugging Face folder");
    CE_TRY(ce_collective_status(engine->comm, status));
    return ce_pretrained_load(engine, folder);
}

static cs_status refuse(const char *folder)
{
    CE_CLOSED(ce_source_close) ce_source source = { 0 };
    json_t *provenance = NULL;
    bool found;
    CE_TRY(ce_huggingface_detect(&found, folder));
    if (ce_source_checkpoint_open(&source, &provenance, folder, NULL, false) != CS_OK)
        return ce_fail(CS_NOT_FOUND, "cspeed.model: there is no %s/config.json", folder);
    return ce_fail(CS_NOT_FOUND,
                   "cspeed.model: %s has no config.json, but a checkpoint: cspeed.load continues from it, and "
                   "`cspeed export %s OUT` converts it to a folder for cspeed.model",
                   folder, folder);
}

cs_status ce_pretrained_open(cs_engine *engine, const char *folder)
{
    ce_json *doc = NULL;
    CE_FREED char *path = ce_files_join(folder, "config.json");
    cs_status status = ce_files_exists(path) ? ce_json_open(&doc, path) : refuse(folder);
    CE_TRY(status);
    if (ce_json_is_lenient(engine->config->doc))
        ce_json_lenient(doc);
    status = ce_four_bit_take(engine, ce_json_root(doc), folder);
    if (status == CS_OK)
        status = ce_huggingface_open_model(&engine->model, &engine->facts, doc, folder);
    if (status == CS_OK)
        ce_models_describe(&engine->model_json, &engine->facts, ce_json_root(doc));
    ce_json_print_warnings(doc);
    ce_json_close(doc);
    return status;
}
