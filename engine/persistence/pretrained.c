/* pretrained.c - loads initial values from a Hugging Face folder: each rank reads only its own ranges. */
#include "engine.h"
#include "base/log.h"
#include "checkpoint/collective_status.h"
#include "checkpoint/files.h"
#include "interchange/huggingface.h"

#include <stdlib.h>

/* Reads one piece; for a device with its own memory, into host memory first. */
static cs_status read_piece(cs_engine *engine, cs_source *source, const cs_shard_piece *piece)
{
    cs_dtype dtype = engine->zero.precision.masters;
    size_t bytes = (size_t)cs_range_length(piece->range) * cs_dtype_bytes(dtype);
    bool copies = cs_device_has_own_memory(engine->device);
    void *into = copies ? malloc(bytes) : piece->master;
    if (!into)
        return cs_fail(CS_NO_MEMORY, "out of memory for %zu bytes of %s", bytes, piece->entry->full_name);
    cs_status status = source->read(source, cs_source_find(source, piece->entry->full_name), piece->range, into, dtype);
    if (copies) {
        cs_stream *stream = cs_device_stream(engine->device, CS_COMPUTE);
        cs_stream_copy(stream, piece->master, into, bytes);
        cs_stream_sync(stream);
        free(into);
    }
    return status;
}

static cs_status read_shard(cs_engine *engine, cs_source *source, int i)
{
    int count = engine->model->units[i]->entry_count;
    cs_shard_piece *pieces = calloc((size_t)count + 1, sizeof *pieces);
    cs_status status = pieces ? CS_OK : cs_fail(CS_NO_MEMORY, "out of memory for a list of tensors");
    count = pieces ? cs_shard_pieces(engine->shards[i], pieces) : 0;
    for (int at = 0; at < count && status == CS_OK; at++)
        status = read_piece(engine, source, &pieces[at]);
    free(pieces);
    return status;
}

static cs_status read_all(cs_engine *engine, const char *folder)
{
    cs_source source;
    CS_TRY(cs_huggingface_open(&source, folder));
    cs_status status = cs_huggingface_check(&source, engine->model, &engine->facts, folder);
    for (int i = 0; i < engine->model->count && status == CS_OK; i++)
        status = read_shard(engine, &source, i);
    if (status == CS_OK)
        cs_log(CS_LOG_INFO, "first values: %lld tensors of %s", (long long)source.count, folder);
    cs_source_close(&source);
    return status;
}

cs_status cs_pretrained_load(cs_engine *engine)
{
    const char *folder = engine->settings->model_path;
    bool found = false;
    if (!folder || !engine->model_json)
        return CS_OK;
    cs_status status = cs_huggingface_detect(&found, folder);
    if (status == CS_OK && found)
        status = read_all(engine, folder);
    else if (status == CS_OK && engine->config->reads && !engine->settings->load)
        status = cs_fail(CS_NOT_FOUND,
                         "%s has a config.json and no weights (no *.safetensors), so there is no trained "
                         "model to use: only training starts from random values",
                         folder);
    CS_TRY(cs_collective_status(engine->comm, status));
    for (int i = 0; i < engine->model->count && found; i++)
        cs_shard_spread(engine->shards[i]);
    return CS_OK;
}

cs_status cs_pretrained_refuse(const char *folder)
{
    cs_source source = { 0 };
    json_t *provenance = NULL;
    bool found;
    if (!cs_files_exists(folder))
        return cs_fail(CS_NOT_FOUND,
                       "cspeed.model: %s: no such folder; name a Hugging Face folder, or describe the "
                       "model in place of its name",
                       folder);
    CS_TRY(cs_huggingface_detect(&found, folder));
    if (cs_source_checkpoint_open(&source, &provenance, folder, NULL) != CS_OK)
        return cs_fail(CS_NOT_FOUND, "cspeed.model: there is no %s/config.json", folder);
    cs_source_close(&source);
    return cs_fail(CS_NOT_FOUND,
                   "cspeed.model: %s has no config.json, but a checkpoint: cspeed.load goes on from it, "
                   "and `cspeed export %s OUT` makes it a folder for cspeed.model",
                   folder, folder);
}
