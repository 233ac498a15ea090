/* source_checkpoint.c - reads the weights of a cspeed checkpoint as a source of tensors; every block is verified when
 * it is read. */
#include "interchange/source.h"
#include "base/log.h"
#include "checkpoint/blocks.h"
#include "checkpoint/not_found.h"
#include "checkpoint/chunks.h"
#include "checkpoint/convert.h"
#include "checkpoint/files.h"
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
    int64_t *tensors; /* index of each of the source's tensors in the manifest */
    char *buffer;     /* one verified block: number held_block of chunk held_chunk */
    int64_t held_chunk, held_block;
    int64_t file; /* index of the open file; -1: none */
    int descriptor;
} checkpoint_source;

/* ---- opening ---- */

static cs_status read_headers(checkpoint_source *own)
{
    cs_status found = ce_manifest_load(&own->manifest, own->path);
    CS_TRY(found == CS_NOT_FOUND ? ce_not_found_manifest(own->path) : found);
    CS_TRY(ce_manifest_check_files(&own->manifest, own->path));
    for (int64_t i = 0; i < own->manifest.file_count; i++) {
        char *path = ce_files_join(own->path, own->manifest.files[i].name), *block = NULL;
        size_t block_bytes;
        int64_t bytes;
        cs_status status = ce_safetensors_load(&block, &block_bytes, &bytes, path);
        if (status == CS_OK)
            status = ce_chunks_add(&own->chunks, &own->manifest, i, block, block_bytes, own->path);
        free(block);
        free(path);
        CS_TRY(status);
    }
    return ce_chunks_check(&own->chunks, &own->manifest, own->path);
}

/* Opens dir/name, or dir itself if `name` is NULL, if its manifest and headers are valid; on failure everything is
 * released again. */
static cs_status try_folder(checkpoint_source *own, const char *dir, const char *name)
{
    own->path = name ? ce_files_join(dir, name) : strdup(dir);
    cs_status status = read_headers(own);
    if (status == CS_OK)
        return CS_OK;
    ce_chunks_close(&own->chunks);
    ce_manifest_close(&own->manifest);
    free(own->path);
    own->path = NULL;
    return status;
}

/* Opens the checkpoint that `latest` names, or, with a warning, the newest complete one. */
static cs_status open_newest(checkpoint_source *own, const char *dir)
{
    char latest[CS_TAG_BYTES] = "", why[CS_OTHER_FORMATS_BYTES];
    ce_catalog catalog;
    CS_TRY(ce_catalog_open(&catalog, dir));
    cs_status status = ce_catalog_latest(latest, dir);
    if (status == CS_OK)
        ce_line_follow(&catalog, dir, latest);
    if (status == CS_OK)
        status = try_folder(own, dir, latest);
    else if (status == CS_NOT_FOUND && catalog.count == 0)
        status = ce_not_found_all(&catalog, dir);
    snprintf(why, sizeof why, "%s", cs_error());
    for (int64_t i = 0; i < catalog.count && status != CS_OK; i++) {
        const ce_catalog_item *item = &catalog.items[i];
        if (strcmp(item->name, latest) == 0 || try_folder(own, dir, item->name) != CS_OK)
            continue;
        status = CS_OK;
        ce_log(CS_LOG_WARNING, "%s; taking %s instead, the newest whole checkpoint (step %lld)", why, own->path,
               (long long)item->step);
    }
    ce_catalog_close(&catalog);
    return status == CS_OK ? CS_OK : ce_fail(status, "%s", why);
}

static cs_status open_one(checkpoint_source *own, const char *dir, const char *tag)
{
    char name[CS_TAG_BYTES];
    if (tag) {
        CS_TRY(ce_catalog_find(name, dir, tag));
        return try_folder(own, dir, name);
    }
    return ce_files_holds(dir, CS_MANIFEST_FILE) ? try_folder(own, dir, NULL) : open_newest(own, dir);
}

/* Lists the weights as the source's tensors; optimizer state is left out. */
static cs_status list_weights(ce_source *source, checkpoint_source *own)
{
    source->tensors = calloc((size_t)own->manifest.tensor_count + 1, sizeof *source->tensors);
    own->tensors = calloc((size_t)own->manifest.tensor_count + 1, sizeof *own->tensors);
    own->buffer = malloc(CS_SHARDFILE_BLOCK);
    if (!source->tensors || !own->tensors || !own->buffer)
        return ce_fail(CS_NO_MEMORY, "out of memory for reading %s", own->path);
    json_t *all = json_object_get(own->manifest.root, "tensors");
    for (int64_t i = 0; i < own->manifest.tensor_count; i++) {
        const ce_manifest_tensor *from = &own->manifest.tensors[i];
        json_t *entry = json_object_get(all, from->name);
        const char *folder = json_string_value(json_object_get(entry, "folder"));
        if (!folder || strcmp(folder, "weights") != 0)
            continue;
        ce_source_tensor *to = &source->tensors[source->count];
        own->tensors[source->count++] = i;
        *to = (ce_source_tensor){ from->name, from->dtype, from->dims, { 0 } };
        memcpy(to->shape, from->shape, sizeof to->shape);
    }
    return CS_OK;
}

/* ---- reading ---- */

static cs_status open_file(checkpoint_source *own, int64_t file, const char *path)
{
    if (own->file == file)
        return CS_OK;
    if (own->file >= 0)
        close(own->descriptor);
    own->file = -1;
    CS_TRY(ce_files_open(&own->descriptor, path));
    own->file = file;
    return CS_OK;
}

/* Reads one block of a chunk into own->buffer and verifies its checksum, unless the buffer holds this block already. */
static cs_status load_block(checkpoint_source *own, int64_t chunk, int64_t index)
{
    const ce_chunk *from = &own->chunks.chunks[chunk];
    if (own->held_chunk == chunk && own->held_block == index)
        return CS_OK;
    own->held_chunk = -1;
    char *path = ce_files_join(own->path, own->manifest.files[from->file].name);
    cs_status status = open_file(own, from->file, path);
    ce_block block = { &own->manifest, &own->chunks, from, index, own->descriptor, path };
    if (status == CS_OK)
        status = ce_blocks_read(own->buffer, &block);
    free(path);
    CS_TRY(status);
    own->held_chunk = chunk;
    own->held_block = index;
    return CS_OK;
}

/* Copies the elements of `range` that are in the chunk, one contiguous run after another. */
static cs_status copy_overlap(checkpoint_source *own, int64_t chunk, ce_range range, char *to, cs_dtype dtype)
{
    const ce_chunk *from = &own->chunks.chunks[chunk];
    const ce_manifest_tensor *tensor = &own->manifest.tensors[from->tensor];
    ce_range cut = ce_boxes_cut(&from->box, tensor->shape, range);
    int64_t run = ce_boxes_run(&from->box, tensor->shape);
    int64_t block = CS_SHARDFILE_BLOCK / (int64_t)cs_dtype_bytes(tensor->dtype);
    for (int64_t at = cut.from, next; at < cut.to; at = next) {
        next = (at / run + 1) * run < (at / block + 1) * block ? (at / run + 1) * run : (at / block + 1) * block;
        next = next < cut.to ? next : cut.to;
        CS_TRY(load_block(own, chunk, at / block));
        int64_t place = ce_boxes_place(&from->box, tensor->shape, at) - range.from;
        ce_convert_elements(to + (size_t)place * cs_dtype_bytes(dtype), dtype,
                            own->buffer + (size_t)(at % block) * cs_dtype_bytes(tensor->dtype), tensor->dtype,
                            next - at);
    }
    return CS_OK;
}

static cs_status read_range(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    checkpoint_source *own = source->own;
    ce_range chunks = ce_chunks_of(&own->chunks, own->tensors[tensor]);
    for (int64_t i = chunks.from; i < chunks.to; i++)
        CS_TRY(copy_overlap(own, i, range, to, dtype));
    return CS_OK;
}

static void close_checkpoint(ce_source *source)
{
    checkpoint_source *own = source->own;
    if (own->file >= 0)
        close(own->descriptor);
    ce_chunks_close(&own->chunks);
    ce_manifest_close(&own->manifest);
    free(own->path);
    free(own->tensors);
    free(own->buffer);
    free(own);
}

static cs_status build(ce_source *source, const char *dir, const char *tag)
{
    checkpoint_source *own = source->own;
    CS_TRY(open_one(own, dir, tag));
    return list_weights(source, own);
}

cs_status ce_source_checkpoint_open(ce_source *source, json_t **provenance, const char *dir, const char *tag)
{
    checkpoint_source *own = calloc(1, sizeof *own);
    if (!own)
        return ce_fail(CS_NO_MEMORY, "out of memory for reading %s", dir);
    own->file = own->held_chunk = -1;
    *source = (ce_source){ .read = read_range, .close = close_checkpoint, .own = own };
    cs_status status = build(source, dir, tag);
    if (status != CS_OK)
        ce_source_close(source);
    else
        *provenance = json_object_get(own->manifest.root, "provenance");
    return status;
}
