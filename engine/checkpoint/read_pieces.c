/* read_pieces.c - loads state: fills pieces from the chunks of the checkpoint that intersect them. A piece is any range
 * of the elements of a box of a tensor, in the memory of this rank. A chunk is one box of a tensor, in a file.
 *
 * A block that contains elements of any piece is read from its first byte to its last, because its checksum covers all of
 * it. The block is read in windows that stay in the processor's cache between checksum and copy, so that data cross the
 * memory bus once. The intersection of a chunk and a piece is a range of the elements of a box; copying those of these
 * elements that are in one window is one transfer. Transfers are sorted by file and position, so each window is read
 * once, however many pieces have elements of it. */
#include "base/must.h"
#include "base/crc.h"
#include "base/plural.h"
#include "base/progress.h"
#include "comm/collective_status.h"
#include "checkpoint/blocks.h"
#include "checkpoint/convert.h"
#include "base/files.h"
#include "checkpoint/piece.h"
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
    int64_t window;  /* number of the window, counted from the beginning of the chunk */
    ce_range common; /* the elements that are copied, as elements of the box that chunk and piece have in common */
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
    /* Staging buffer for pieces in device memory; NULL if all pieces are in host memory. It has `staged` bytes, whose
     * place in device memory is `staged_for`. */
    char *converted, *staged_for;
    size_t staged;
    int64_t file; /* index of the open file; -1 if none is open */
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
    if (a->window != b->window)
        return a->window < b->window ? -1 : 1;
    return (a->piece > b->piece) - (a->piece < b->piece);
}

static cs_dtype stored_type(const piece_reader *r, const ce_chunk *chunk)
{
    return r->reader->manifest.tensors[chunk->tensor].dtype;
}

/* The elements that a chunk and a piece have in common: a box, relative to the chunk and to the piece's part. */
typedef struct {
    ce_box part, in_chunk, in_part;
} meeting;

static bool meets(meeting *m, const ce_chunk *chunk, const ce_piece *piece)
{
    ce_box both;
    m->part = ce_piece_part(piece);
    if (!ce_boxes_meet(&both, &chunk->box, &m->part))
        return false;
    m->in_chunk = ce_boxes_within(&both, &chunk->box);
    m->in_part = ce_boxes_within(&both, &m->part);
    return true;
}

/* Lists one transfer for each window of the chunk that has elements of the piece. */
static void add_transfers(piece_reader *r, int64_t *capacity, const ce_chunk *chunk, const ce_piece *piece)
{
    int64_t length = WINDOW / (int64_t)cs_dtype_bytes(stored_type(r, chunk));
    meeting m;
    if (!meets(&m, chunk, piece))
        return;
    ce_range wanted = ce_boxes_cut(&m.in_part, m.part.size, piece->range);
    for (int64_t at = wanted.from, next; at < wanted.to; at = next) {
        int64_t window = ce_boxes_place(&m.in_chunk, chunk->box.size, at) / length;
        ce_range inside = { window * length, (window + 1) * length };
        next = ce_boxes_cut(&m.in_chunk, chunk->box.size, inside).to;
        next = next < wanted.to ? next : wanted.to;
        CE_MUST_HOLD(r->transfers, *capacity, r->count + 1);
        r->transfers[r->count++] = (transfer){ chunk, piece, window, { at, next } };
    }
}

static void list_transfers(piece_reader *r, const ce_piece *pieces, int64_t count)
{
    const ce_manifest *manifest = &r->reader->manifest;
    int64_t capacity = 0;
    for (int64_t i = 0; i < count; i++) {
        const ce_manifest_tensor *tensor = ce_manifest_find(manifest, pieces[i].name);
        if (ce_range_length(pieces[i].range) == 0 || !tensor)
            continue;
        ce_range of_tensor = ce_chunks_of(&r->reader->chunks, tensor - manifest->tensors);
        for (int64_t c = of_tensor.from; c < of_tensor.to; c++)
            add_transfers(r, &capacity, &r->reader->chunks.chunks[c], &pieces[i]);
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

/* Sends the staged elements to device memory. */
static void send_staged(piece_reader *r)
{
    const ce_checkpoint_device_copy *device_copy = r->reader->reading.device_copy;
    if (r->staged > 0)
        device_copy->send(device_copy->argument, r->staged_for, r->converted, r->staged);
    r->staged = 0;
}

/* Stores elements in host memory at `to`, or stages them for device memory at `to`. Elements that are adjacent in device
 * memory are sent together. */
static void store_elements(piece_reader *r, char *to, cs_dtype dtype, const void *from, cs_dtype stored, int64_t count)
{
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    if (r->converted && to != r->staged_for + r->staged)
        send_staged(r);
    if (r->staged == 0)
        r->staged_for = to;
    ce_convert_elements(r->converted ? r->converted + r->staged : to, dtype, from, stored, count);
    r->staged += r->converted ? bytes : 0;
}

/* Copies the elements of a transfer from the buffer, which has the transfer's window, to the piece. Elements that are
 * consecutive in the chunk and also in the piece's memory are copied together. */
static void copy_out(piece_reader *r, const transfer *t)
{
    const ce_piece *piece = t->piece;
    cs_dtype stored = stored_type(r, t->chunk);
    int64_t first = t->window * (WINDOW / (int64_t)cs_dtype_bytes(stored));
    meeting m;
    meets(&m, t->chunk, piece);
    int64_t in_chunk = ce_boxes_run(&m.in_chunk, t->chunk->box.size), in_part = ce_boxes_run(&m.in_part, m.part.size);
    int64_t run = in_chunk < in_part ? in_chunk : in_part;
    for (int64_t at = t->common.from, next; at < t->common.to; at = next) {
        int64_t contiguous;
        char *to = ce_piece_at(piece, ce_boxes_place(&m.in_part, m.part.size, at), &contiguous);
        next = (at / run + 1) * run;
        next = next - at < contiguous ? next : at + contiguous;
        next = next < t->common.to ? next : t->common.to;
        int64_t place = ce_boxes_place(&m.in_chunk, t->chunk->box.size, at) - first;
        store_elements(r, to, piece->dtype, r->buffer + (size_t)place * cs_dtype_bytes(stored), stored, next - at);
    }
    send_staged(r);
}

static int64_t bytes_of(const piece_reader *r, const transfer *t)
{
    return ce_range_length(t->common) * (int64_t)cs_dtype_bytes(stored_type(r, t->chunk));
}

static cs_status copy_transfer(piece_reader *r, const transfer *t)
{
    CE_TRY(open_file(r, t->chunk->file));
    CE_TRY(load_window(r, t->chunk, t->window / WINDOWS, t->window % WINDOWS));
    copy_out(r, t);
    ce_progress_add(&r->progress, bytes_of(r, t));
    return CS_OK;
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
