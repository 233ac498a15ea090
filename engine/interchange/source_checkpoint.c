/* source_checkpoint.c - reads the weights of a cspeed checkpoint as a source of tensors. Every block is verified when
 * it is first read. Later only the bytes that are wanted are read, because a block that contains some columns of a matrix
 * has elements of many ranges of the matrix. */
#include "interchange/source.h"
#include "base/log.h"
#include "checkpoint/blocks.h"
#include "checkpoint/not_found.h"
#include "checkpoint/chunks.h"
#include "checkpoint/convert.h"
#include "base/files.h"
#include "base/must.h"
#include "checkpoint/other_formats.h"
#include "checkpoint/line.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shardfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char *path; /* path of the checkpoint's directory */
    ce_manifest manifest;
    ce_chunks chunks;
    int64_t *tensors; /* for each tensor of the source, its index in the manifest */
    bool *verified;   /* for each block, in the order of chunks.crcs */
    char *buffer;     /* one block, or those bytes of it that were read last */
    /* the block of which `buffer` has all bytes: block number `held_block` of chunk number `held_chunk`, or none if
     * `held_chunk` is -1 */
    int64_t held_chunk, held_block;
    int64_t file; /* index of the open file, or -1 */
    int descriptor;
} checkpoint_source;

/* ---- opening ---- */

static cs_status read_headers(checkpoint_source *checkpoint)
{
    cs_status found = ce_manifest_load(&checkpoint->manifest, checkpoint->path);
    CE_TRY(found == CS_NOT_FOUND ? ce_not_found_manifest(checkpoint->path) : found);
    CE_TRY(ce_manifest_check_files(&checkpoint->manifest, checkpoint->path));
    for (int64_t i = 0; i < checkpoint->manifest.file_count; i++) {
        char *path = ce_files_join(checkpoint->path, checkpoint->manifest.files[i].name), *block = NULL;
        size_t block_bytes;
        int64_t bytes;
        cs_status status = ce_safetensors_load(&block, &block_bytes, &bytes, path);
        if (status == CS_OK)
            status = ce_chunks_add(&checkpoint->chunks, &checkpoint->manifest, i, block, block_bytes, checkpoint->path);
        free(block);
        free(path);
        CE_TRY(status);
    }
    return ce_chunks_check(&checkpoint->chunks, &checkpoint->manifest, checkpoint->path);
}

/* Opens the checkpoint dir/name, or dir itself if `name` is NULL. Fails if the manifest or a header of a chunk is
 * invalid. After a failure no file is open. */
static cs_status try_folder(checkpoint_source *checkpoint, const char *dir, const char *name)
{
    checkpoint->path = name ? ce_files_join(dir, name) : strdup(dir);
    cs_status status = read_headers(checkpoint);
    if (status == CS_OK)
        return CS_OK;
    ce_chunks_close(&checkpoint->chunks);
    ce_manifest_close(&checkpoint->manifest);
    free(checkpoint->path);
    checkpoint->path = NULL;
    return status;
}

/* Opens the checkpoint that the file `latest` names, or, with a warning, the newest complete one. */
static cs_status open_newest(checkpoint_source *checkpoint, const char *dir)
{
    char latest[CE_TAG_BYTES] = "", why[CE_OTHER_FORMATS_BYTES];
    ce_catalog catalog;
    CE_TRY(ce_catalog_open(&catalog, dir));
    cs_status status = ce_catalog_latest(latest, dir);
    if (status == CS_OK)
        ce_line_follow(&catalog, dir, latest);
    if (status == CS_OK)
        status = try_folder(checkpoint, dir, latest);
    else if (status == CS_NOT_FOUND && catalog.count == 0)
        status = ce_not_found_all(&catalog, dir);
    snprintf(why, sizeof why, "%s", cs_error());
    for (int64_t i = 0; i < catalog.count && status != CS_OK; i++) {
        const ce_catalog_item *item = &catalog.items[i];
        if (strcmp(item->name, latest) == 0 || try_folder(checkpoint, dir, item->name) != CS_OK)
            continue;
        status = CS_OK;
        ce_log(CE_LOG_WARNING, "%s; using %s instead, the newest complete checkpoint (step %lld)", why,
               checkpoint->path, (long long)item->step);
    }
    ce_catalog_close(&catalog);
    return status == CS_OK ? CS_OK : ce_fail(status, "%s", why);
}

static cs_status open_one(checkpoint_source *checkpoint, const char *dir, const char *tag)
{
    char name[CE_TAG_BYTES];
    if (tag) {
        CE_TRY(ce_catalog_find(name, dir, tag));
        return try_folder(checkpoint, dir, name);
    }
    return ce_files_holds(dir, CE_MANIFEST_FILE) ? try_folder(checkpoint, dir, NULL) : open_newest(checkpoint, dir);
}

/* Returns the index in the manifest of a parameter's average (cspeed.ema_decay), or -1. */
static int64_t find_average(const ce_manifest *manifest, const char *name)
{
    CE_FREED char *average = ce_must_print("state.%s.ema", name);
    for (int64_t i = 0; i < manifest->tensor_count; i++)
        if (strcmp(manifest->tensors[i].name, average) == 0)
            return i;
    return -1;
}

/* Lists the weights as the tensors of the source, or their averages if `averages` is true; frozen parameters have none.
 * Optimizer state is left out. */
static cs_status list_weights(ce_source *source, checkpoint_source *checkpoint, bool averages)
{
    int64_t found = 0;
    source->tensors = calloc((size_t)checkpoint->manifest.tensor_count + 1, sizeof *source->tensors);
    checkpoint->tensors = calloc((size_t)checkpoint->manifest.tensor_count + 1, sizeof *checkpoint->tensors);
    checkpoint->buffer = malloc(CE_SHARDFILE_BLOCK);
    checkpoint->verified = calloc((size_t)checkpoint->chunks.crc_count + 1, sizeof *checkpoint->verified);
    if (!source->tensors || !checkpoint->tensors || !checkpoint->buffer || !checkpoint->verified)
        return ce_fail(CS_NO_MEMORY, "out of memory for reading %s", checkpoint->path);
    json_t *all = json_object_get(checkpoint->manifest.root, "tensors");
    for (int64_t i = 0; i < checkpoint->manifest.tensor_count; i++) {
        const ce_manifest_tensor *from = &checkpoint->manifest.tensors[i];
        json_t *entry = json_object_get(all, from->name);
        const char *folder = json_string_value(json_object_get(entry, "folder"));
        if (!folder || strcmp(folder, "weights") != 0)
            continue;
        ce_source_tensor *to = &source->tensors[source->count];
        int64_t average = averages ? find_average(&checkpoint->manifest, from->name) : -1;
        found += average >= 0;
        checkpoint->tensors[source->count++] = average >= 0 ? average : i;
        *to =
            (ce_source_tensor){ .name = from->name, .dtype = average >= 0 ? CS_F32 : from->dtype, .dims = from->dims };
        memcpy(to->shape, from->shape, sizeof to->shape);
    }
    if (averages && found == 0)
        return ce_fail(CS_BAD_CONFIG, "--ema: %s has no averages, because its training had no cspeed.ema_decay",
                       checkpoint->path);
    return CS_OK;
}

/* ---- reading ---- */

static cs_status open_file(checkpoint_source *checkpoint, int64_t file, const char *path)
{
    if (checkpoint->file == file)
        return CS_OK;
    if (checkpoint->file >= 0)
        close(checkpoint->descriptor);
    checkpoint->file = -1;
    CE_TRY(ce_files_open(&checkpoint->descriptor, path));
    checkpoint->file = file;
    return CS_OK;
}

/* Reads the bytes `wanted` of one block of a chunk to their places in checkpoint->buffer. If the block was not verified
 * yet, reads and verifies all of it. */
static cs_status load_block(checkpoint_source *checkpoint, int64_t chunk, int64_t index, ce_range wanted)
{
    const ce_chunk *from = &checkpoint->chunks.chunks[chunk];
    bool *verified = &checkpoint->verified[from->crc + index];
    if (checkpoint->held_chunk == chunk && checkpoint->held_block == index)
        return CS_OK;
    checkpoint->held_chunk = -1;
    char *path = ce_files_join(checkpoint->path, checkpoint->manifest.files[from->file].name);
    cs_status status = open_file(checkpoint, from->file, path);
    ce_block block = { &checkpoint->manifest, &checkpoint->chunks, from, index, checkpoint->descriptor, path };
    if (status == CS_OK)
        status = *verified ? ce_blocks_read_part(checkpoint->buffer + wanted.from, &block, (size_t)wanted.from,
                                                 (size_t)ce_range_length(wanted))
                           : ce_blocks_read(checkpoint->buffer, &block);
    free(path);
    CE_TRY(status);
    if (!*verified) {
        checkpoint->held_chunk = chunk;
        checkpoint->held_block = index;
    }
    *verified = true;
    return CS_OK;
}

/* Copies those elements of `range` that are in the chunk to `to`. Each step of the inner loop copies elements that are
 * adjacent both in the tensor and in one block of the chunk. */
static cs_status copy_overlap(checkpoint_source *checkpoint, int64_t chunk, ce_range range, char *to, cs_dtype dtype)
{
    const ce_chunk *from = &checkpoint->chunks.chunks[chunk];
    const ce_manifest_tensor *tensor = &checkpoint->manifest.tensors[from->tensor];
    ce_range cut = ce_boxes_cut(&from->box, tensor->shape, range);
    int64_t run = ce_boxes_run(&from->box, tensor->shape);
    int64_t size = (int64_t)cs_dtype_bytes(tensor->dtype), block = CE_SHARDFILE_BLOCK / size;
    for (int64_t first = cut.from / block * block; first < cut.to; first += block) {
        ce_range inside = ce_range_overlap(cut, (ce_range){ first, first + block });
        CE_TRY(load_block(checkpoint, chunk, first / block,
                          (ce_range){ (inside.from - first) * size, (inside.to - first) * size }));
        for (int64_t at = inside.from, next; at < inside.to; at = next) {
            next = (at / run + 1) * run < inside.to ? (at / run + 1) * run : inside.to;
            int64_t place = ce_boxes_place(&from->box, tensor->shape, at) - range.from;
            ce_convert_elements(to + (size_t)place * cs_dtype_bytes(dtype), dtype,
                                checkpoint->buffer + (at - first) * size, tensor->dtype, next - at);
        }
    }
    return CS_OK;
}

static cs_status read_range(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    checkpoint_source *checkpoint = source->private_data;
    ce_range chunks = ce_chunks_of(&checkpoint->chunks, checkpoint->tensors[tensor]);
    for (int64_t i = chunks.from; i < chunks.to; i++)
        CE_TRY(copy_overlap(checkpoint, i, range, to, dtype));
    return CS_OK;
}

static void close_checkpoint(ce_source *source)
{
    checkpoint_source *checkpoint = source->private_data;
    if (checkpoint->file >= 0)
        close(checkpoint->descriptor);
    ce_chunks_close(&checkpoint->chunks);
    ce_manifest_close(&checkpoint->manifest);
    free(checkpoint->path);
    free(checkpoint->tensors);
    free(checkpoint->buffer);
    free(checkpoint->verified);
    free(checkpoint);
}

static cs_status build(ce_source *source, const char *dir, const char *tag, bool averages)
{
    checkpoint_source *checkpoint = source->private_data;
    CE_TRY(open_one(checkpoint, dir, tag));
    return list_weights(source, checkpoint, averages);
}

cs_status ce_source_checkpoint_open(ce_source *source, json_t **provenance, const char *dir, const char *tag,
                                    bool averages)
{
    checkpoint_source *checkpoint = calloc(1, sizeof *checkpoint);
    if (!checkpoint)
        return ce_fail(CS_NO_MEMORY, "out of memory for reading %s", dir);
    checkpoint->file = checkpoint->held_chunk = -1;
    *source = (ce_source){ .read = read_range, .close = close_checkpoint, .private_data = checkpoint };
    cs_status status = build(source, dir, tag, averages);
    if (status != CS_OK)
        ce_source_close(source);
    else
        *provenance = json_object_get(checkpoint->manifest.root, "provenance");
    return status;
}

cs_status ce_source_checkpoint_config(char **text, size_t *length, const ce_source *source)
{
    const checkpoint_source *checkpoint = source->private_data;
    return ce_manifest_read_text(text, length, &checkpoint->manifest, checkpoint->path, CE_CONFIG_FILE);
}
