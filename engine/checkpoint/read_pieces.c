/* read_pieces.c - loads state: fills pieces from the chunks of the checkpoint that intersect them. A piece is any range
 * of a tensor, in the memory of this rank. A chunk is one box of a tensor, in a file.
 *
 * The intersection of a chunk and a piece is a range of the chunk's elements; copying this range is one transfer.
 * Transfers are sorted by file and position. A block that any transfer needs is read from its first byte to its last,
 * because its checksum covers all of it. The block is read in windows that stay in the processor's cache between
 * checksum and copy, so that data cross the memory bus once. */
#include "base/must.h"
#include "base/crc.h"
#include "base/plural.h"
#include "base/progress.h"
#include "comm/collective_status.h"
#include "checkpoint/blocks.h"
#include "checkpoint/convert.h"
#include "base/files.h"
#include "checkpoint/write_plan.h"
#include "checkpoint/reader.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shardfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const ce_chunk *chunk;
    const ce_piece *piece;
    ce_range cut; /* the range of the chunk's elements that is copied */
} transfer;

/* Bytes of a window, and number of windows in a block. */
enum { WINDOW = 1 << 18, WINDOWS = CE_SHARDFILE_BLOCK / WINDOW };

typedef struct {
    const ce_checkpoint_reader *reader;
    transfer *transfers;
    int64_t count;
    bool verify;
    ce_block block; /* the block that is being read; its member `chunk` is NULL if there is none */
    int64_t window; /* the window of the block that is in `buffer`; -1 if none is */
    uint32_t crc;   /* CRC32C of the block from its beginning to the end of `window` */
    char *buffer;
    char *converted; /* staging buffer for pieces in device memory; NULL if all pieces are in host memory */
    int64_t file;    /* index of the open file; -1 if none is open */
    int descriptor;
    char *path;
    ce_progress progress;
} piece_reader;

/* ---- checking the names ---- */

static bool same_shape(const ce_manifest_tensor *tensor, const ce_piece *piece)
{
    return tensor->dims == piece->dims &&
           memcmp(tensor->shape, piece->shape, (size_t)piece->dims * sizeof *piece->shape) == 0;
}

static void write_shape(char text[128], const int64_t *shape, int dims)
{
    int used = snprintf(text, 128, "[");
    for (int i = 0; i < dims; i++)
        used += snprintf(text + used, (size_t)(128 - used), "%s%lld", i ? ", " : "", (long long)shape[i]);
    snprintf(text + used, (size_t)(128 - used), "]");
}

/* Writes a line to `faults` if the piece cannot be read from this checkpoint. If `loose` is true, the checkpoint may
 * lack the piece's tensor, and nothing is written then. */
static void find_fault(FILE *faults, const ce_manifest *manifest, const ce_piece *piece, bool loose)
{
    const ce_manifest_tensor *tensor = ce_manifest_find(manifest, piece->name);
    char wanted[128], saved[128];
    if (!tensor) {
        if (!loose)
            fprintf(faults, "%s is missing\n", piece->name);
    } else if (!same_shape(tensor, piece)) {
        write_shape(wanted, piece->shape, piece->dims);
        write_shape(saved, tensor->shape, tensor->dims);
        fprintf(faults, "%s is %s in the checkpoint and %s in this model\n", piece->name, saved, wanted);
    } else if (!ce_convert_can(piece->dtype, tensor->dtype)) {
        fprintf(faults, "%s is %s in the checkpoint and %s in this model\n", piece->name,
                ce_safetensors_name(tensor->dtype), ce_safetensors_name(piece->dtype));
    }
}

/* Writes a line to `faults` for each tensor of the checkpoint of which no rank reads a piece. A folder of which no rank
 * reads any piece is not examined. The call is collective. */
static void find_unexpected(FILE *faults, const ce_checkpoint_reader *reader, cs_comm *comm, const ce_piece *pieces,
                            int64_t count)
{
    const ce_manifest *manifest = &reader->manifest;
    int64_t length = manifest->tensor_count + CE_WRITE_PLAN_FOLDERS;
    uint8_t *asked = ce_must_alloc((size_t)length), *folders = asked + manifest->tensor_count;
    for (int64_t i = 0; i < count; i++) {
        const ce_manifest_tensor *tensor = ce_manifest_find(manifest, pieces[i].name);
        if (tensor)
            asked[tensor - manifest->tensors] = 1;
        folders[ce_write_plan_folder(pieces[i].folder)] = 1;
    }
    cs_comm_all_reduce(comm, asked, length, CS_U8, CS_MAX);
    for (int64_t i = 0; i < manifest->tensor_count; i++)
        if (!asked[i] && folders[manifest->tensors[i].folder])
            fprintf(faults, "%s is in the checkpoint and not in this model\n", manifest->tensors[i].name);
    free(asked);
}

/* Fails with a message that has the first error line and the number of other distinct lines. Several ranks report the
 * same line, and one wrong size of the model gives hundreds of lines. */
static cs_status report(const char *path, const char *lines)
{
    json_auto_t *seen = json_object();
    size_t first = strcspn(lines, "\n");
    for (const char *line = lines; *line;) {
        char key[CE_SAFETENSORS_MAX_NAME + 512];
        size_t length = strcspn(line, "\n");
        snprintf(key, sizeof key, "%.*s", (int)length, line);
        json_object_set_new(seen, key, json_null());
        line += length + 1;
    }
    size_t others = json_object_size(seen) - 1;
    if (others == 0)
        return ce_fail(CS_BAD_FILE, "%s does not fit this model: %.*s", path, (int)first, lines);
    return ce_fail(CS_BAD_FILE, "%s does not fit this model: %.*s, and %zu more tensor%s differ%s", path, (int)first,
                   lines, others, ce_plural((int64_t)others), others > 1 ? "" : "s");
}

static cs_status check_names(const ce_checkpoint_reader *reader, cs_comm *comm, const ce_piece *pieces, int64_t count)
{
    CE_FREED char *mine = NULL;
    size_t length = 0;
    FILE *faults = open_memstream(&mine, &length);
    cs_status status = CS_OK;
    for (int64_t i = 0; i < count; i++)
        find_fault(faults, &reader->manifest, &pieces[i], reader->reading.names == CE_NAMES_LOOSE);
    if (reader->reading.names == CE_NAMES_ALL)
        find_unexpected(faults, reader, comm, pieces, count);
    fclose(faults);
    CE_FREED int64_t *sizes = ce_must_alloc((size_t)cs_comm_size(comm) * sizeof *sizes);
    CE_FREED char *all = ce_collective_gather(comm, sizes, mine, length);
    if (all && all[0])
        status = report(reader->path, all);
    return ce_collective_status(comm, status);
}

/* ---- listing the transfers ---- */

static int by_file(const void *one, const void *other)
{
    const transfer *a = one, *b = other;
    if (a->chunk->file != b->chunk->file)
        return a->chunk->file < b->chunk->file ? -1 : 1;
    if (a->chunk->offset != b->chunk->offset)
        return a->chunk->offset < b->chunk->offset ? -1 : 1;
    return (a->cut.from > b->cut.from) - (a->cut.from < b->cut.from);
}

static void add_transfer(piece_reader *r, int64_t *capacity, transfer next)
{
    CE_MUST_HOLD(r->transfers, *capacity, r->count + 1);
    r->transfers[r->count++] = next;
}

static void list_transfers(piece_reader *r, const ce_piece *pieces, int64_t count)
{
    const ce_manifest *manifest = &r->reader->manifest;
    int64_t capacity = 0;
    for (int64_t i = 0; i < count; i++) {
        const ce_piece *piece = &pieces[i];
        if (ce_range_length(piece->range) == 0 || !ce_manifest_find(manifest, piece->name))
            continue;
        ce_range of_tensor =
            ce_chunks_of(&r->reader->chunks, ce_manifest_find(manifest, piece->name) - manifest->tensors);
        for (int64_t c = of_tensor.from; c < of_tensor.to; c++) {
            const ce_chunk *chunk = &r->reader->chunks.chunks[c];
            ce_range cut = ce_boxes_cut(&chunk->box, piece->shape, piece->range);
            if (ce_range_length(cut) > 0)
                add_transfer(r, &capacity, (transfer){ chunk, piece, cut });
        }
    }
    if (r->count > 1)
        qsort(r->transfers, (size_t)r->count, sizeof *r->transfers, by_file);
}

/* ---- copying ---- */

static cs_status read_window(piece_reader *r)
{
    size_t from = (size_t)++r->window * WINDOW, left = ce_blocks_bytes(&r->block) - from;
    size_t bytes = left < WINDOW ? left : WINDOW;
    CE_TRY(ce_blocks_read_part(r->buffer, &r->block, from, bytes));
    r->crc = r->verify ? ce_crc32c(r->crc, r->buffer, bytes) : 0;
    return CS_OK;
}

static cs_status end_block(piece_reader *r)
{
    if (r->block.chunk && r->verify) {
        while ((size_t)(r->window + 1) * WINDOW < ce_blocks_bytes(&r->block))
            CE_TRY(read_window(r));
        CE_TRY(ce_blocks_verify(&r->block, r->crc));
    }
    r->block.chunk = NULL;
    return CS_OK;
}

static cs_status open_file(piece_reader *r, int64_t file)
{
    if (r->file == file)
        return CS_OK;
    CE_TRY(end_block(r));
    if (r->descriptor >= 0)
        close(r->descriptor);
    free(r->path);
    r->file = file;
    r->path = ce_files_join(r->reader->path, r->reader->manifest.files[file].name);
    return ce_files_open(&r->descriptor, r->path);
}

/* Reads the chunk's block number `index` up to the end of window number `window`. The buffer then contains this window.
 * Without verification the windows before `window` are not read. */
static cs_status load_window(piece_reader *r, const ce_chunk *chunk, int64_t index, int64_t window)
{
    const ce_checkpoint_reader *reader = r->reader;
    if (r->block.chunk != chunk || r->block.index != index || window < r->window) {
        CE_TRY(end_block(r));
        r->block = (ce_block){ &reader->manifest, &reader->chunks, chunk, index, r->descriptor, r->path };
        r->window = -1;
        r->crc = 0;
    }
    if (!r->verify && r->window < window)
        r->window = window - 1;
    while (r->window < window)
        CE_TRY(read_window(r));
    return CS_OK;
}

static void store_elements(const piece_reader *r, void *to, cs_dtype dtype, const void *from, cs_dtype stored,
                           int64_t count)
{
    const ce_checkpoint_device_copy *device_copy = r->reader->reading.device_copy;
    ce_convert_elements(device_copy ? r->converted : to, dtype, from, stored, count);
    if (device_copy)
        device_copy->send(device_copy->argument, to, r->converted, (size_t)count * cs_dtype_bytes(dtype));
}

/* Copies the given elements of the chunk from the buffer to the piece. Elements that are consecutive in the chunk and
 * also in the piece are copied together. The buffer begins with the chunk's element number `first`. */
static void copy_out(const piece_reader *r, const transfer *t, ce_range elements, int64_t first, cs_dtype stored)
{
    const ce_piece *piece = t->piece;
    int64_t run = ce_boxes_run(&t->chunk->box, piece->shape);
    size_t size = cs_dtype_bytes(stored);
    for (int64_t at = elements.from, next; at < elements.to; at = next) {
        next = (at / run + 1) * run < elements.to ? (at / run + 1) * run : elements.to;
        int64_t place = ce_boxes_place(&t->chunk->box, piece->shape, at) - piece->range.from;
        store_elements(r, (char *)piece->data + (size_t)place * cs_dtype_bytes(piece->dtype), piece->dtype,
                       r->buffer + (size_t)(at - first) * size, stored, next - at);
    }
}

static cs_status copy_transfer(piece_reader *r, const transfer *t)
{
    cs_dtype stored = r->reader->manifest.tensors[t->chunk->tensor].dtype;
    int64_t length = WINDOW / (int64_t)cs_dtype_bytes(stored);
    CE_TRY(open_file(r, t->chunk->file));
    for (int64_t window = t->cut.from / length; window * length < t->cut.to; window++) {
        ce_range inside = { window * length, (window + 1) * length };
        CE_TRY(load_window(r, t->chunk, window / WINDOWS, window % WINDOWS));
        ce_range wanted = ce_range_overlap(t->cut, inside);
        copy_out(r, t, wanted, inside.from, stored);
        ce_progress_add(&r->progress, ce_range_length(wanted) * (int64_t)cs_dtype_bytes(stored));
    }
    return CS_OK;
}

static int64_t bytes_of(const piece_reader *r, const transfer *t)
{
    return ce_range_length(t->cut) * (int64_t)cs_dtype_bytes(r->reader->manifest.tensors[t->chunk->tensor].dtype);
}

static cs_status copy_transfers(piece_reader *r)
{
    cs_status status = CS_OK;
    int64_t bytes = 0;
    for (int64_t i = 0; i < r->count; i++)
        bytes += bytes_of(r, &r->transfers[i]);
    ce_progress_begin(&r->progress, "loading", NULL, bytes);
    for (int64_t i = 0; i < r->count && status == CS_OK; i++)
        status = copy_transfer(r, &r->transfers[i]);
    ce_progress_end(&r->progress);
    return status == CS_OK ? end_block(r) : status;
}

cs_status ce_checkpoint_read(ce_checkpoint_reader *reader, cs_comm *comm, const ce_piece *pieces, int64_t piece_count)
{
    piece_reader r = {
        .reader = reader, .verify = reader->reading.verify != CE_VERIFY_OFF, .file = -1, .descriptor = -1
    };
    CE_TRY(ce_collective_status(comm, ce_write_plan_check(pieces, piece_count)));
    CE_TRY(check_names(reader, comm, pieces, piece_count));
    r.buffer = ce_must_alloc(WINDOW);
    /* The buffer has twice the bytes of a window, because 16-bit elements of the file may become 32-bit elements in
     * memory. */
    r.converted = reader->reading.device_copy ? ce_must_alloc(2 * WINDOW) : NULL;
    list_transfers(&r, pieces, piece_count);
    cs_status status = copy_transfers(&r);
    if (r.descriptor >= 0)
        close(r.descriptor);
    free(r.path);
    free(r.transfers);
    free(r.converted);
    free(r.buffer);
    reader->damage = ce_collective_status(comm, status);
    return reader->damage;
}
