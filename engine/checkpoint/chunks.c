/* chunks.c - the table of all chunks of a checkpoint, read from the headers of its shards. */
#include "checkpoint/chunks.h"
#include "base/must.h"
#include "base/crc.h"
#include "base/files.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shardfile.h"

#include <stdlib.h>
#include <string.h>

/* The JSON objects that the metadata of a shard's header has as strings. They exist only while the header is read. */
typedef struct {
    const char *path;
    const json_t *sharding, *checksums;
} notes;

static json_t *note(const ce_safetensors *header, const char *key)
{
    const json_t *string = json_object_get(header->metadata, key);
    json_t *object = string ? ce_json_strict(json_string_value(string), json_string_length(string)) : NULL;
    if (json_is_object(object))
        return object;
    json_decref(object);
    return NULL;
}

/* Sets *box to the box that a safetensors entry has: its size is the entry's shape, and its position within the tensor
 * is read from the header. */
static cs_status read_box(ce_box *box, const ce_safetensors_entry *entry, const ce_manifest_tensor *tensor,
                          const notes *n, const json_t *offsets)
{
    if (entry->dims != tensor->dims || strcmp(entry->dtype, ce_safetensors_name(tensor->dtype)) != 0)
        return ce_fail(CS_BAD_FILE, "%s: %s is of another type or number of dimensions than the manifest says", n->path,
                       entry->key);
    if (!json_is_array(offsets) || json_array_size(offsets) != (size_t)entry->dims)
        return ce_fail(CS_BAD_FILE, "%s: DCP_SHARDING_INFO: %s has no \"saved_offsets\" of %d numbers", n->path,
                       entry->key, entry->dims);
    box->dims = entry->dims;
    for (int i = 0; i < entry->dims; i++) {
        const json_t *offset = json_array_get(offsets, (size_t)i);
        box->offset[i] = json_integer_value(offset);
        box->size[i] = entry->shape[i];
        if (!json_is_integer(offset) || box->offset[i] < 0 || box->offset[i] > tensor->shape[i] ||
            box->size[i] > tensor->shape[i] - box->offset[i])
            return ce_fail(CS_BAD_FILE, "%s: %s lies outside of its tensor in dimension %d", n->path, entry->key, i);
    }
    return CS_OK;
}

static cs_status read_crcs(ce_chunks *chunks, const ce_safetensors_entry *entry, const notes *n)
{
    const json_t *list = json_object_get(n->checksums, entry->key);
    int64_t blocks = ce_divide_up(entry->end - entry->begin, CE_SHARDFILE_BLOCK);
    if (!json_is_array(list) || (int64_t)json_array_size(list) != blocks)
        return ce_fail(CS_BAD_FILE, "%s: cspeed.crc32c: %s has no list of %lld checksums", n->path, entry->key,
                       (long long)blocks);
    for (size_t i = 0; i < (size_t)blocks; i++) {
        CE_MUST_HOLD(chunks->crcs, chunks->crc_capacity, chunks->crc_count + 1);
        if (!ce_manifest_digits(&chunks->crcs[chunks->crc_count++], json_string_value(json_array_get(list, i))))
            return ce_fail(CS_BAD_FILE, "%s: cspeed.crc32c: %s: block %zu has no checksum of eight digits", n->path,
                           entry->key, i);
    }
    return CS_OK;
}

static cs_status add_entry(ce_chunks *chunks, const ce_manifest *manifest, ce_chunk *chunk,
                           const ce_safetensors_entry *entry, const notes *n)
{
    const json_t *about = json_object_get(n->sharding, entry->key);
    const char *name = json_string_value(json_object_get(about, "logical_fqn"));
    const ce_manifest_tensor *tensor = ce_manifest_find(manifest, name ? name : entry->key);
    if (!tensor)
        return ce_fail(CS_BAD_FILE, "%s holds tensor %s, which the manifest does not list", n->path,
                       name ? name : entry->key);
    CE_TRY(read_box(&chunk->box, entry, tensor, n, json_object_get(about, "saved_offsets")));
    chunk->tensor = tensor - manifest->tensors;
    chunk->count = ce_boxes_volume(&chunk->box);
    chunk->from = chunk->count ? ce_boxes_place(&chunk->box, tensor->shape, 0) : 0;
    chunk->crc = chunks->crc_count;
    CE_TRY(read_crcs(chunks, entry, n));
    CE_MUST_HOLD(chunks->chunks, chunks->capacity, chunks->count + 1);
    chunks->chunks[chunks->count++] = *chunk;
    return CS_OK;
}

static cs_status check_save(const ce_safetensors *header, const ce_manifest *manifest, const char *path)
{
    const char *version = json_string_value(json_object_get(header->metadata, "cspeed.version"));
    const char *id = json_string_value(json_object_get(header->metadata, "cspeed.save_id"));
    if (!version || strcmp(version, "1") != 0)
        return ce_fail(CS_BAD_FILE, "%s: its header has no cspeed.version that this program reads", path);
    if (!id || strcmp(id, manifest->save_id) != 0)
        return ce_fail(CS_BAD_FILE,
                       "%s belongs to another save (%s) than the manifest (%s): files of two checkpoints are mixed",
                       path, id ? id : "none", manifest->save_id);
    return CS_OK;
}

static cs_status add_header(ce_chunks *chunks, const ce_manifest *manifest, int64_t file, ce_safetensors *header,
                            size_t block_bytes, const char *path)
{
    CE_TRY(check_save(header, manifest, path));
    json_auto_t *sharding = note(header, "DCP_SHARDING_INFO");
    json_auto_t *checksums = note(header, "cspeed.crc32c");
    if (!sharding || !checksums)
        return ce_fail(CS_BAD_FILE, "%s: its header lacks DCP_SHARDING_INFO or cspeed.crc32c, or they are not JSON",
                       path);
    const notes n = { path, sharding, checksums };
    for (int64_t i = 0; i < header->count; i++) {
        ce_chunk chunk = { .file = file, .offset = (int64_t)block_bytes + header->entries[i].begin };
        CE_TRY(add_entry(chunks, manifest, &chunk, &header->entries[i], &n));
    }
    return CS_OK;
}

static cs_status check_block(const ce_manifest_file *file, const char *block, size_t block_bytes, const char *path)
{
    uint32_t crc = ce_crc32c(0, block, block_bytes);
    int64_t bytes = 0;
    if (crc != file->header_crc)
        return ce_fail(CS_BAD_FILE, "%s: its header has CRC32C %08x where the manifest says %08x: the file is damaged",
                       path, (unsigned)crc, (unsigned)file->header_crc);
    CE_TRY(ce_safetensors_header_bytes(&bytes, (const uint8_t *)block, block_bytes, file->bytes, path));
    return bytes == (int64_t)block_bytes
               ? CS_OK
               : ce_fail(CS_BAD_FILE, "%s: its header is not as long as its first 8 bytes say", path);
}

cs_status ce_chunks_add(ce_chunks *chunks, const ce_manifest *manifest, int64_t file, const char *block,
                        size_t block_bytes, const char *directory)
{
    const ce_manifest_file *about = &manifest->files[file];
    CE_FREED char *path = ce_files_join(directory, about->name);
    CE_CLOSED(ce_safetensors_close) ce_safetensors header = { 0 };
    CE_TRY(check_block(about, block, block_bytes, path));
    CE_TRY(ce_safetensors_parse(&header, block + 8, block_bytes - 8, about->bytes - (int64_t)block_bytes, path));
    return add_header(chunks, manifest, file, &header, block_bytes, path);
}

static int by_place(const void *one, const void *other)
{
    const ce_chunk *a = one, *b = other;
    if (a->tensor != b->tensor)
        return a->tensor < b->tensor ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* Checks that the chunks cover the tensor exactly once. */
static cs_status check_tensor(const ce_chunk *chunks, int64_t count, const ce_manifest_tensor *tensor,
                              const char *directory)
{
    int64_t elements, sum = 0;
    CE_FREED ce_box *boxes = ce_must_alloc((size_t)count * sizeof *boxes + 1);
    ce_boxes_count(&elements, tensor->shape, tensor->dims, 1);
    for (int64_t i = 0; i < count; i++) {
        boxes[i] = chunks[i].box;
        if (__builtin_add_overflow(sum, chunks[i].count, &sum) || sum > elements)
            return ce_fail(CS_BAD_FILE, "%s: parts of tensor %s are in the shards twice", directory, tensor->name);
    }
    if (sum != elements)
        return ce_fail(CS_BAD_FILE, "%s: the shards contain only %lld of the %lld elements of tensor %s", directory,
                       (long long)sum, (long long)elements, tensor->name);
    if (ce_range_length(ce_boxes_cover(boxes, count, tensor->shape, tensor->dims).elements) > 0)
        return ce_fail(CS_BAD_FILE, "%s: parts of tensor %s are in the shards twice", directory, tensor->name);
    return CS_OK;
}

cs_status ce_chunks_check(ce_chunks *chunks, const ce_manifest *manifest, const char *directory)
{
    if (chunks->count > 1)
        qsort(chunks->chunks, (size_t)chunks->count, sizeof *chunks->chunks, by_place);
    for (int64_t i = 0; i < manifest->tensor_count; i++) {
        ce_range of_tensor = ce_chunks_of(chunks, i);
        CE_TRY(check_tensor(&chunks->chunks[of_tensor.from], of_tensor.to - of_tensor.from, &manifest->tensors[i],
                            directory));
    }
    return CS_OK;
}

static int64_t first_of(const ce_chunks *chunks, int64_t tensor)
{
    int64_t low = 0, high = chunks->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (chunks->chunks[middle].tensor < tensor)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

ce_range ce_chunks_of(const ce_chunks *chunks, int64_t tensor)
{
    return (ce_range){ first_of(chunks, tensor), first_of(chunks, tensor + 1) };
}

void ce_chunks_close(ce_chunks *chunks)
{
    free(chunks->chunks);
    free(chunks->crcs);
    *chunks = (ce_chunks){ 0 };
}
