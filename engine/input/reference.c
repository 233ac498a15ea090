/* reference.c - the reference model of preference training.
 *
 * The reference model's log-probabilities of all answers are computed once, before the training starts. During this
 * computation the memory of the trained model's parameters holds the reference model's parameters, so a second model
 * needs no memory. The log-probabilities are stored in the folder cspeed.data.cache. The name of the file is a hash of
 * the reference model's parameters, of the tokens and of the types of the computation. */
#include "input/loader.h"
#include "input/input.h"
#include "query/query.h"
#include "saving/saving.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rng.h"
#include "comm/collective_status.h"
#include "base/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The header of the file. The log-probabilities follow as fp32. */
typedef struct {
    char magic[8];
    uint64_t name;
    int64_t count; /* number of log-probabilities */
    uint32_t crc, zero;
} header;

static const char magic[8] = "CSLOGPS1";

/* ---- the parameters ---- */

/* Returns the hash of a piece of a parameter. It is a sum over elements, so that it does not depend on how the elements
 * are divided among ranks. */
static uint64_t hash_piece(cs_engine *engine, const ce_shard_piece *piece)
{
    const ce_box *part = &piece->part;
    size_t each = cs_dtype_bytes(engine->zero.precision.masters), bytes = (size_t)ce_shard_span(piece) * each;
    uint64_t key = ce_rng_key(0, piece->entry->full_name), hash = 0;
    int64_t row = part->size[part->dims - 1];
    CE_FREED char *copy = ce_device_has_own_memory(engine->device) ? ce_must_alloc(bytes + 1) : NULL;
    if (copy)
        ce_stream_fetch(ce_device_stream(engine->device, CE_COMPUTE), copy, piece->master, bytes);
    const char *values = copy ? copy : piece->master;
    for (int64_t at = piece->range.from, next; at < piece->range.to; at = next) {
        int64_t place = piece->pitch ? at / row * piece->pitch : at - piece->range.from;
        next = (at / row + 1) * row < piece->range.to ? (at / row + 1) * row : piece->range.to;
        hash += ce_rng_hash(values + (size_t)place * each, each, next - at, key,
                            ce_boxes_place(part, piece->entry->cut.whole, at));
    }
    return hash;
}

static uint64_t hash_parameters(cs_engine *engine)
{
    uint64_t hash = 0;
    for (int i = 0; i < engine->model->count; i++) {
        CE_FREED ce_shard_piece *pieces = ce_must_alloc(ce_shard_pieces_room(engine->shards[i]));
        int count = ce_shard_pieces(engine->shards[i], pieces);
        for (int at = 0; at < count; at++)
            hash += hash_piece(engine, &pieces[at]);
    }
    int64_t part = (int64_t)(hash >> 16); /* The shift makes sure that the sum over ranks does not overflow. */
    cs_comm_all_reduce(engine->comm, &part, 1, CS_I64, CS_SUM);
    return ce_rng_mix((uint64_t)part, 0) | 1;
}

/* Loads the reference model's parameters into the memory of the trained model's parameters. */
static cs_status take_reference(cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    cs_load_options parameters = { .module_only = true };
    if (settings->reference)
        return ce_pretrained_reference(engine, settings->reference);
    if (settings->load)
        return cs_load_checkpoint(engine, settings->load, settings->tag, &parameters, NULL);
    return CS_OK;
}

/* Loads again the parameters with which the training of the model began. */
static cs_status take_start(cs_engine *engine)
{
    const ce_settings *settings = engine->settings;
    if (!settings->reference && !settings->load)
        return CS_OK;
    for (int i = 0; i < engine->model->count; i++)
        ce_shard_init(engine->shards[i], (uint64_t)settings->seed);
    engine->fresh = true;
    return ce_pretrained_load(engine, engine->model_json ? settings->model_path : NULL);
}

/* ---- the file ---- */

static uint64_t name_of(const cs_data *data)
{
    const ce_precision *types = &data->engine->settings->precision;
    const double ld_alpha = data->engine->settings->preference.ld_alpha;
    uint64_t name = ce_rng_mix(data->engine->reference_mark, ce_windows_mark(data->windows));
    if (ld_alpha < 1)
        name = ce_rng_mix(name, (uint64_t)(ld_alpha * 0x1p53));
    return ce_rng_mix(ce_rng_mix(name, (uint64_t)types->values), (uint64_t)types->products);
}

static char *path_of(const cs_data *data)
{
    char name[64];
    snprintf(name, sizeof name, "reference-%016" PRIx64 ".bin", name_of(data));
    return ce_files_join(data->engine->settings->cache, name);
}

/* Reads the log-probabilities. Returns false if the file is missing, damaged or about other data. */
static bool read_file(const cs_data *data, const char *path, float *logps, int64_t count)
{
    char *text;
    size_t length, bytes = (size_t)count * sizeof *logps;
    header head;
    if (ce_files_read(&text, &length, path, sizeof head + bytes) != CS_OK)
        return false;
    bool good = length == sizeof head + bytes;
    if (good) {
        memcpy(&head, text, sizeof head);
        memcpy(logps, text + sizeof head, bytes);
        good = memcmp(head.magic, magic, sizeof magic) == 0 && head.name == name_of(data) && head.count == count &&
               head.crc == ce_crc32c(0, logps, bytes);
    }
    free(text);
    return good;
}

static cs_status write_file(const cs_data *data, const char *path, const float *logps, int64_t count)
{
    size_t bytes = (size_t)count * sizeof *logps;
    header head = { .name = name_of(data), .count = count, .crc = ce_crc32c(0, logps, bytes) };
    memcpy(head.magic, magic, sizeof magic);
    CE_FREED char *text = ce_must_alloc(sizeof head + bytes);
    CE_FREED char *part = ce_must_print("%s.part-%d", path, (int)getpid());
    memcpy(text, &head, sizeof head);
    memcpy(text + sizeof head, logps, bytes);
    unlink(part); /* Another run that died may have left this file. */
    CE_TRY(ce_files_write(part, text, sizeof head + bytes));
    return ce_files_rename(part, path);
}

/* ---- opening ---- */

/* Reads the file on every rank. If one rank cannot read it, the result is false on all ranks. */
static bool find(const cs_data *data, const char *path, float *logps, int64_t count)
{
    int64_t missing = !read_file(data, path, logps, count);
    cs_comm_all_reduce(data->engine->comm, &missing, 1, CS_I64, CS_SUM);
    if (missing == 0)
        ce_log(CE_LOG_INFO, "log-probabilities of %lld pairs by the reference model: read from %s",
               (long long)(count / CE_ANSWERS), path);
    return missing == 0;
}

static cs_status compute(cs_data *data, const char *path, float *logps, int64_t count)
{
    cs_engine *engine = data->engine;
    double begun = ce_clock_seconds();
    ce_evaluate_pairs(engine, data, logps);
    ce_log(CE_LOG_INFO, "log-probabilities of %lld pairs by the reference model: computed in %.1f s, saved in %s",
           (long long)(count / CE_ANSWERS), ce_clock_seconds() - begun, path);
    return ce_collective_status(engine->comm,
                                engine->world.local_rank == 0 ? write_file(data, path, logps, count) : CS_OK);
}

/* Reads the log-probabilities from their file, or computes and writes them. The reference model's parameters must be
 * loaded, because the file's name contains their hash. */
static cs_status find_or_compute(cs_data *data, float *logps, int64_t count)
{
    cs_engine *engine = data->engine;
    if (engine->reference_mark == 0)
        engine->reference_mark = hash_parameters(engine);
    CE_FREED char *path = path_of(data);
    return find(data, path, logps, count) ? CS_OK : compute(data, path, logps, count);
}

cs_status ce_reference_open(float **logps, cs_data *data)
{
    cs_engine *engine = data->engine;
    int64_t count = CE_ANSWERS * ce_windows_count(data->windows);
    *logps = ce_must_alloc((size_t)count * sizeof **logps);
    if (engine->settings->preference.reference_free) {
        memset(*logps, 0, (size_t)count * sizeof **logps);
        return CS_OK;
    }
    if (engine->reference_mark != 0) {
        CE_FREED char *path = path_of(data);
        bool found = find(data, path, *logps, count);
        if (found)
            return CS_OK;
    }
    if (!engine->fresh)
        return ce_fail(CS_MISUSE, "cs_data_open: with cspeed.dpo it needs the initial parameters as the reference, "
                                  "so call it before cs_load_checkpoint and cs_forward");
    CE_TRY(take_reference(engine));
    CE_TRY(find_or_compute(data, *logps, count));
    return take_start(engine);
}
