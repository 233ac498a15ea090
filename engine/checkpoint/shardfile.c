/* shardfile.c - writes one safetensors shard. The header stands at the beginning of the file and contains a checksum of
 * each block of the data, so the data are written first and the header last.
 *
 * The length of the header does not depend on the data, because a checksum always has eight digits. The header is
 * therefore built twice: first with zeros as checksums, to know where the data begin, and again after the data are
 * written. */
#include "checkpoint/shardfile.h"
#include "base/crc.h"
#include "base/must.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/direct_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t chunk_bytes(const ce_write_plan_chunk *chunk)
{
    return chunk->count * (int64_t)cs_dtype_bytes(chunk->piece->dtype);
}

static int64_t chunk_blocks(const ce_write_plan_chunk *chunk)
{
    return (chunk_bytes(chunk) + CE_SHARDFILE_BLOCK - 1) / CE_SHARDFILE_BLOCK;
}

/* Converts a JSON object to a string, the only type that safetensors metadata may have. Takes ownership of the object.
 */
static json_t *as_string(json_t *object)
{
    CE_FREED char *text = json_dumps(object, JSON_COMPACT);
    json_t *string = json_string(text);
    json_decref(object);
    return string;
}

static json_t *metadata_of(const ce_write_plan_file *file, const char *save_id, const uint32_t *crcs)
{
    json_t *sharding = json_object(), *shapes = json_object(), *checksums = json_object();
    for (int64_t i = 0; i < file->count; i++) {
        const ce_write_plan_chunk *chunk = &file->chunks[i];
        const char *name = chunk->piece->name;
        json_t *list = json_array();
        for (int64_t block = 0; block < chunk_blocks(chunk); block++) {
            char digits[9];
            snprintf(digits, sizeof digits, "%08x", (unsigned)*crcs++);
            json_array_append_new(list, json_string(digits));
        }
        json_object_set_new(checksums, name, list);
        json_object_set_new(shapes, name, ce_safetensors_numbers(chunk->piece->shape, chunk->piece->dims));
        json_object_set_new(sharding, name,
                            json_pack("{s:o, s:s}", "saved_offsets",
                                      ce_safetensors_numbers(chunk->box.offset, chunk->box.dims), "logical_fqn", name));
    }
    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:o, s:o}", "format", "pt", "DCP_VERSION", "1.0", "DCP_SHARDING_INFO",
                     as_string(sharding), "cspeed.version", "1", "cspeed.save_id", save_id, "cspeed.global_shape",
                     as_string(shapes), "cspeed.crc32c", as_string(checksums));
}

static char *header_text(const ce_write_plan_file *file, const char *save_id, const uint32_t *crcs)
{
    json_t *header = json_object();
    int64_t at = 0;
    json_object_set_new(header, "__metadata__", metadata_of(file, save_id, crcs));
    for (int64_t i = 0; i < file->count; i++) {
        const ce_write_plan_chunk *chunk = &file->chunks[i];
        json_t *offsets = json_pack("[I I]", (json_int_t)at, (json_int_t)(at + chunk_bytes(chunk)));
        at += chunk_bytes(chunk);
        json_object_set_new(header, chunk->piece->name,
                            json_pack("{s:s, s:o, s:o}", "dtype", ce_safetensors_name(chunk->piece->dtype), "shape",
                                      ce_safetensors_numbers(chunk->box.size, chunk->box.dims), "data_offsets",
                                      offsets));
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (!text)
        ce_fatal(CS_NO_MEMORY, "checkpoint: no memory for the header of a shard");
    return text;
}

/* Builds the header block: the JSON's length, the JSON, and spaces up to the next multiple of
 * CE_DIRECT_WRITER_ALIGN. */
static uint8_t *header_block(size_t *bytes, const ce_write_plan_file *file, const char *save_id, const uint32_t *crcs)
{
    CE_FREED char *text = header_text(file, save_id, crcs);
    size_t length = strlen(text);
    *bytes = (8 + length + CE_DIRECT_WRITER_ALIGN - 1) / CE_DIRECT_WRITER_ALIGN * CE_DIRECT_WRITER_ALIGN;
    uint8_t *block = ce_must_alloc(*bytes);
    for (int i = 0; i < 8; i++)
        block[i] = (uint8_t)((uint64_t)(*bytes - 8) >> 8 * i);
    memset(block + 8, ' ', *bytes - 8);
    memcpy(block + 8, text, length);
    return block;
}

/* ---- infinities and NaNs ---- */

/* Returns true if one of `count` fp32 numbers is an infinity or a NaN, that is, if all bits of its exponent are ones.
 * The loop has no early exit, so that compilers vectorize it. */
static bool has_wide(const char *data, int64_t count)
{
    uint32_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, data + (size_t)i * sizeof bits, sizeof bits);
        found |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return found != 0;
}

static bool has_half(const char *data, int64_t count, uint16_t exponent)
{
    uint16_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, data + (size_t)i * sizeof bits, sizeof bits);
        found = (uint16_t)(found | ((bits & exponent) == exponent));
    }
    return found != 0;
}

static bool has_nonfinite(const char *data, int64_t bytes, cs_dtype dtype)
{
    switch (dtype) {
    case CS_F32:
        return has_wide(data, bytes / 4);
    case CS_BF16:
        return has_half(data, bytes / 2, 0x7f80);
    case CS_F16:
        return has_half(data, bytes / 2, 0x7c00);
    default:
        return false;
    }
}

/* `data` has some elements of the piece, in host memory; they have `bytes` bytes. Returns CS_NOT_FINITE, with the
 * piece's name in the message, if one of these elements is an infinity or a NaN. */
static cs_status refuse_nonfinite(const ce_piece *piece, const char *data, int64_t bytes)
{
    if (!has_nonfinite(data, bytes, piece->dtype))
        return CS_OK;
    return ce_fail(CS_NOT_FINITE,
                   "parameter %s contains an infinity or a NaN; a checkpoint with such values is not saved",
                   piece->name);
}

/* ---- writing ---- */

/* The state of one file while it is written. */
typedef struct {
    ce_direct_writer writer;
    const ce_write_plan_file *file;
    const ce_checkpoint_content *content;
    uint32_t *crcs;
    char *buffer; /* a copy of one block that is not contiguous in host memory; NULL before the first such block */
} writing;

/* Checks a block for infinities and NaNs, computes its checksum and writes it. It works in steps that are small enough
 * to stay in the processor's cache between these three uses. */
static cs_status write_block(writing *w, const ce_piece *piece, uint32_t *crc, const char *data, int64_t bytes)
{
    enum { STEP = 1 << 18 };
    bool finite = w->content->finite && w->file->folder == CE_WRITE_PLAN_WEIGHTS;
    for (int64_t done = 0; done < bytes; done += STEP) {
        int64_t now = bytes - done < STEP ? bytes - done : STEP;
        if (finite)
            CE_TRY(refuse_nonfinite(piece, data + done, now));
        *crc = ce_crc32c(*crc, data + done, (size_t)now);
        CE_TRY(ce_direct_writer_write(&w->writer, data + done, (size_t)now));
    }
    return CS_OK;
}

/* Returns the address of elements of a piece in host memory, after copying them if they are in device memory or not
 * contiguous. */
static const char *bring(writing *w, const ce_piece *piece, ce_range elements)
{
    if (!w->content->device_copy && !piece->pitch)
        return ce_piece_at(piece, elements.from, NULL);
    if (!w->buffer)
        w->buffer = ce_must_alloc(CE_SHARDFILE_BLOCK);
    ce_piece_fetch(w->buffer, piece, elements, w->content->device_copy);
    return w->buffer;
}

static cs_status write_data(writing *w)
{
    uint32_t *crc = w->crcs;
    for (int64_t i = 0; i < w->file->count; i++) {
        const ce_write_plan_chunk *chunk = &w->file->chunks[i];
        int64_t size = (int64_t)cs_dtype_bytes(chunk->piece->dtype), length = CE_SHARDFILE_BLOCK / size;
        for (int64_t from = chunk->elements.from; from < chunk->elements.to; from += length) {
            ce_range block = ce_range_overlap(chunk->elements, (ce_range){ from, from + length });
            CE_TRY(write_block(w, chunk->piece, crc++, bring(w, chunk->piece, block), ce_range_length(block) * size));
        }
    }
    return CS_OK;
}

static cs_status write_file(ce_shardfile_record *record, writing *w, const char *path, const char *save_id)
{
    const ce_write_plan_file *file = w->file;
    size_t head_bytes, again;
    free(header_block(&head_bytes, file, save_id, w->crcs));
    if (head_bytes > CE_SAFETENSORS_MAX_HEADER)
        return ce_fail(
            CS_UNSUPPORTED,
            "%s: its %lld tensors need a header of %zu bytes, and safetensors allows %d; save from more ranks", path,
            (long long)file->count, head_bytes, CE_SAFETENSORS_MAX_HEADER);
    record->folder = file->folder;
    record->bytes = (int64_t)head_bytes + file->data_bytes;
    CE_TRY(ce_direct_writer_open(&w->writer, path, (int64_t)head_bytes, record->bytes, &w->content->writing));
    CE_TRY(write_data(w));
    CE_FREED uint8_t *head = header_block(&again, file, save_id, w->crcs);
    record->header_crc = ce_crc32c(0, head, again);
    if (again != head_bytes) /* jansson has left out what it had no memory for */
        return ce_fail(CS_NO_MEMORY, "%s: no memory for its header", path);
    return ce_direct_writer_finish(&w->writer, head, head_bytes);
}

cs_status ce_shardfile_write(ce_shardfile_record *record, const char *path, const ce_write_plan_file *file,
                             const char *save_id, const ce_checkpoint_content *content)
{
    int64_t blocks = 0;
    writing w = { .writer.descriptor = -1, .file = file, .content = content };
    for (int64_t i = 0; i < file->count; i++)
        blocks += chunk_blocks(&file->chunks[i]);
    w.crcs = ce_must_alloc((size_t)blocks * sizeof *w.crcs);
    cs_status status = write_file(record, &w, path, save_id);
    ce_direct_writer_close(&w.writer);
    free(w.buffer);
    free(w.crcs);
    return status;
}
