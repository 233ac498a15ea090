/* write_plan.c - the plan of what a rank writes: the rank's pieces are divided into boxes (boxes.h), and the boxes are
 * distributed to files. */
#include "checkpoint/write_plan.h"
#include "checkpoint/safetensors.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

const char *const ce_write_plan_folders[CE_WRITE_PLAN_FOLDERS] = { "weights", "optim" };

int ce_write_plan_folder(const char *folder)
{
    for (int i = 0; i < CE_WRITE_PLAN_FOLDERS; i++)
        if (folder && strcmp(folder, ce_write_plan_folders[i]) == 0)
            return i;
    return -1;
}

cs_status ce_write_plan_check_name(const char *name)
{
    json_t *text = name ? json_string(name) : NULL;
    json_decref(text);
    if (!text || !name[0] || strlen(name) > CE_SAFETENSORS_MAX_NAME || strcmp(name, "__metadata__") == 0)
        return ce_fail(CS_BAD_CONFIG,
                       "checkpoint: \"%.200s\" is not a valid name of a tensor: a name is UTF-8, has 1 to %d bytes, "
                       "and is not __metadata__",
                       name ? name : "", CE_SAFETENSORS_MAX_NAME);
    return CS_OK;
}

/* Checks that the piece's part is in the tensor, and that its pitch fits the part. */
static cs_status check_part(const ce_piece *piece)
{
    const ce_box *part = &piece->part;
    bool fits = part->dims == 0 || part->dims == piece->dims;
    for (int i = 0; i < part->dims && fits; i++)
        fits = part->offset[i] >= 0 && part->size[i] >= 0 && part->offset[i] <= piece->shape[i] - part->size[i];
    if (!fits)
        return ce_fail(CS_BAD_CONFIG, "checkpoint: tensor %s: a part of it is outside the tensor", piece->name);
    if (piece->pitch == 0)
        return CS_OK;
    ce_box whole = ce_piece_part(piece);
    if (piece->dims == 0 || piece->pitch < whole.size[piece->dims - 1] ||
        ce_range_length(piece->range) != ce_boxes_volume(&whole))
        return ce_fail(CS_BAD_CONFIG, "checkpoint: tensor %s: a part with rows %lld elements apart is not complete",
                       piece->name, (long long)piece->pitch);
    return CS_OK;
}

static cs_status check_piece(const ce_piece *piece)
{
    int64_t count;
    CE_TRY(ce_write_plan_check_name(piece->name));
    if (ce_write_plan_folder(piece->folder) < 0)
        return ce_fail(CS_BAD_CONFIG,
                       "checkpoint: tensor %s: \"%s\" is not a folder of a checkpoint; the folders are weights and "
                       "optim",
                       piece->name, piece->folder ? piece->folder : "");
    if (piece->dims < 0 || piece->dims > CS_MAX_DIMS)
        return ce_fail(CS_BAD_CONFIG, "checkpoint: tensor %s: 0 to %d dimensions, not %d", piece->name, CS_MAX_DIMS,
                       piece->dims);
    for (int i = 0; i < piece->dims; i++)
        if (piece->shape[i] < 0)
            return ce_fail(CS_BAD_CONFIG, "checkpoint: tensor %s: a dimension of %lld", piece->name,
                           (long long)piece->shape[i]);
    if (!ce_boxes_count(&count, piece->shape, piece->dims, (int64_t)cs_dtype_bytes(piece->dtype)))
        return ce_fail(CS_BAD_CONFIG, "checkpoint: tensor %s: more bytes than a file can have", piece->name);
    CE_TRY(check_part(piece));
    ce_box part = ce_piece_part(piece);
    count = ce_boxes_volume(&part);
    ce_range range = piece->range;
    if (range.from < 0 || range.to < range.from || range.to > count || (!piece->data && range.to > range.from))
        return ce_fail(CS_BAD_CONFIG, "checkpoint: tensor %s: elements %lld to %lld of %lld%s", piece->name,
                       (long long)range.from, (long long)range.to, (long long)count,
                       piece->data ? "" : ", without data");
    return CS_OK;
}

cs_status ce_write_plan_check(const ce_piece *pieces, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        CE_TRY(check_piece(&pieces[i]));
    return CS_OK;
}

static int by_tensor(const void *one, const void *other)
{
    const ce_write_plan_chunk *a = one, *b = other;
    int names = strcmp(a->piece->name, b->piece->name);
    if (a->folder != b->folder || names != 0)
        return a->folder != b->folder ? a->folder - b->folder : names;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    if (a->piece != b->piece)
        return a->piece > b->piece ? 1 : -1;
    return (a->elements.from > b->elements.from) - (a->elements.from < b->elements.from);
}

static int by_file(const void *one, const void *other)
{
    const ce_write_plan_chunk *a = one, *b = other;
    size_t size_a = cs_dtype_bytes(a->piece->dtype), size_b = cs_dtype_bytes(b->piece->dtype);
    if (a->folder != b->folder || a->file != b->file)
        return a->folder != b->folder ? a->folder - b->folder : a->file - b->file;
    if (size_a != size_b)
        return size_a > size_b ? -1 : 1;
    return strcmp(a->piece->name, b->piece->name);
}

static void add_piece(ce_write_plan *plan, const ce_piece *piece)
{
    ce_box boxes[CE_MAX_BOXES];
    int64_t from = piece->range.from;
    int count = ce_piece_boxes(boxes, piece);
    for (int i = 0; i < count; i++) {
        ce_write_plan_chunk chunk = { .piece = piece, .box = boxes[i], .folder = ce_write_plan_folder(piece->folder) };
        chunk.count = ce_boxes_volume(&boxes[i]);
        chunk.elements = (ce_range){ from, from + chunk.count };
        from = chunk.elements.to;
        plan->chunks[plan->chunk_count++] = chunk;
    }
}

static void add_empty(ce_write_plan *plan, const ce_piece *piece)
{
    ce_write_plan_chunk chunk = { .piece = piece,
                                  .box.dims = piece->dims,
                                  .folder = ce_write_plan_folder(piece->folder) };
    memcpy(chunk.box.size, piece->shape, sizeof chunk.box.size);
    plan->chunks[plan->chunk_count++] = chunk;
}

static void deal(ce_write_plan *plan)
{
    qsort(plan->chunks, (size_t)plan->chunk_count, sizeof *plan->chunks, by_tensor);
    for (int64_t i = 1; i < plan->chunk_count; i++) {
        const ce_write_plan_chunk *before = &plan->chunks[i - 1];
        if (strcmp(before->piece->name, plan->chunks[i].piece->name) == 0)
            plan->chunks[i].file = before->file + 1;
    }
    qsort(plan->chunks, (size_t)plan->chunk_count, sizeof *plan->chunks, by_file);
}

static void list_files(ce_write_plan *plan)
{
    for (int64_t i = 0; i < plan->chunk_count; i++) {
        const ce_write_plan_chunk *chunk = &plan->chunks[i];
        if (i == 0 || chunk->folder != chunk[-1].folder || chunk->file != chunk[-1].file) {
            plan->files[plan->file_count++] = (ce_write_plan_file){ .chunks = chunk, .folder = chunk->folder };
            plan->files_in[chunk->folder]++;
        }
        ce_write_plan_file *file = &plan->files[plan->file_count - 1];
        int64_t bytes = chunk->count * (int64_t)cs_dtype_bytes(chunk->piece->dtype);
        file->count++;
        file->data_bytes += bytes;
        plan->data_bytes += bytes;
    }
}

void ce_write_plan_open(ce_write_plan *plan, const ce_piece *pieces, int64_t count, const ce_piece *empty,
                        int64_t empty_count)
{
    size_t max = (size_t)(count * CE_MAX_BOXES + empty_count);
    *plan = (ce_write_plan){ 0 };
    plan->chunks = ce_must_alloc(max * sizeof *plan->chunks);
    for (int64_t i = 0; i < count; i++)
        add_piece(plan, &pieces[i]);
    for (int64_t i = 0; i < empty_count; i++)
        add_empty(plan, &empty[i]);
    plan->files = ce_must_alloc((size_t)plan->chunk_count * sizeof *plan->files);
    deal(plan);
    list_files(plan);
}

void ce_write_plan_close(ce_write_plan *plan)
{
    free(plan->chunks);
    free(plan->files);
    *plan = (ce_write_plan){ 0 };
}
