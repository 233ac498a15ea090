/* coverage.c - checks that the pieces of all ranks cover each tensor exactly once, and builds the manifest's table of
 * tensors. */
#include "checkpoint/save.h"
#include "comm/collective_status.h"
#include "checkpoint/write_plan.h"
#include "checkpoint/safetensors.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

/* Describes a piece as the JSON list that is sent to rank 0: [name, folder, dtype, shape, from, to], and, if the piece's
 * part is not the whole tensor, its offset and size. */
static json_t *describe(const ce_piece *piece)
{
    const ce_box *part = &piece->part;
    json_t *row = json_pack("[s i i o I I]", piece->name, ce_write_plan_folder(piece->folder), (int)piece->dtype,
                            ce_safetensors_numbers(piece->shape, piece->dims), (json_int_t)piece->range.from,
                            (json_int_t)piece->range.to);
    if (part->dims > 0 && memcmp(part->size, piece->shape, (size_t)part->dims * sizeof *part->size) != 0) {
        json_array_append_new(row, ce_safetensors_numbers(part->offset, part->dims));
        json_array_append_new(row, ce_safetensors_numbers(part->size, part->dims));
    }
    return row;
}

static char *describe_all(const ce_piece *pieces, int64_t count)
{
    json_auto_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(list, describe(&pieces[i]));
    char *text = json_dumps(list, JSON_COMPACT);
    return text;
}

static void read_numbers(int64_t *numbers, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        numbers[i] = json_integer_value(json_array_get(list, i));
}

/* The inverse of describe(): makes a piece from the JSON list `row`. The name is borrowed from `row`. */
static ce_piece read_row(const json_t *row)
{
    const json_t *shape = json_array_get(row, 3);
    ce_piece piece = { .name = json_string_value(json_array_get(row, 0)), .dims = (int32_t)json_array_size(shape) };
    piece.folder = ce_write_plan_folders[json_integer_value(json_array_get(row, 1))];
    piece.dtype = (cs_dtype)json_integer_value(json_array_get(row, 2));
    piece.range.from = json_integer_value(json_array_get(row, 4));
    piece.range.to = json_integer_value(json_array_get(row, 5));
    read_numbers(piece.shape, shape);
    piece.part.dims = (int32_t)json_array_size(json_array_get(row, 6));
    read_numbers(piece.part.offset, json_array_get(row, 6));
    read_numbers(piece.part.size, json_array_get(row, 7));
    return piece;
}

static int by_name(const void *one, const void *other)
{
    return strcmp(((const ce_piece *)one)->name, ((const ce_piece *)other)->name);
}

static bool alike(const ce_piece *a, const ce_piece *b)
{
    return a->dtype == b->dtype && a->dims == b->dims && strcmp(a->folder, b->folder) == 0 &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0;
}

/* Checks that the pieces of one tensor have the same type, shape and folder and cover each element exactly once. */
static cs_status check_tensor(const ce_piece *pieces, int64_t count)
{
    CE_FREED ce_box *boxes = ce_must_alloc((size_t)count * CE_MAX_BOXES * sizeof *boxes);
    int64_t used = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!alike(&pieces[i], pieces))
            return ce_fail(CS_BAD_CONFIG,
                           "checkpoint: tensor %s has different types, shapes or folders on different ranks",
                           pieces->name);
        used += ce_piece_boxes(boxes + used, &pieces[i]);
    }
    ce_boxes_fault fault = ce_boxes_cover(boxes, used, pieces->shape, pieces->dims);
    if (ce_range_length(fault.elements) == 0)
        return CS_OK;
    return ce_fail(CS_BAD_CONFIG, "checkpoint: elements %lld to %lld of tensor %s are written %s",
                   (long long)fault.elements.from, (long long)fault.elements.to, pieces->name,
                   fault.twice ? "twice" : "by no rank");
}

static void add_tensor(ce_coverage *coverage, const ce_piece *piece, int64_t elements)
{
    json_object_set_new(coverage->tensors, piece->name,
                        json_pack("{s:s, s:o, s:s}", "dtype", ce_safetensors_name(piece->dtype), "shape",
                                  ce_safetensors_numbers(piece->shape, piece->dims), "folder", piece->folder));
    if (elements > 0)
        return;
    ce_piece *empty = &coverage->empty[coverage->empty_count++];
    *empty = *piece;
    empty->name = json_object_iter_key(json_object_iter_at(coverage->tensors, piece->name));
}

static cs_status check_all(ce_coverage *coverage, ce_piece *pieces, int64_t count)
{
    qsort(pieces, (size_t)count, sizeof *pieces, by_name);
    for (int64_t i = 0, next; i < count; i = next) {
        int64_t elements;
        for (next = i + 1; next < count && strcmp(pieces[next].name, pieces[i].name) == 0;)
            next++;
        ce_boxes_count(&elements, pieces[i].shape, pieces[i].dims, 1);
        CE_TRY(check_tensor(&pieces[i], next - i));
        add_tensor(coverage, &pieces[i], elements);
    }
    return CS_OK;
}

/* Checks the pieces of all ranks, on rank 0. `text` is the concatenation of one JSON list for each rank. */
static cs_status check_lists(ce_coverage *coverage, const char *text, const int64_t *sizes, int ranks)
{
    json_auto_t *rows = json_array();
    for (int i = 0; i < ranks; text += sizes[i++]) {
        json_auto_t *list = json_loadb(text, (size_t)sizes[i], 0, NULL);
        json_array_extend(rows, list);
    }
    size_t count = json_array_size(rows);
    CE_FREED ce_piece *pieces = ce_must_alloc(count * sizeof *pieces);
    for (size_t i = 0; i < count; i++)
        pieces[i] = read_row(json_array_get(rows, i));
    coverage->tensors = json_object();
    coverage->empty = ce_must_alloc(count * sizeof *coverage->empty);
    return check_all(coverage, pieces, (int64_t)count);
}

cs_status ce_coverage_open(ce_coverage *coverage, cs_comm *comm, const ce_piece *pieces, int64_t count)
{
    int ranks = cs_comm_size(comm);
    CE_FREED int64_t *sizes = ce_must_alloc((size_t)ranks * sizeof *sizes);
    CE_FREED char *mine = describe_all(pieces, count);
    CE_FREED char *all = ce_collective_gather(comm, sizes, mine, strlen(mine));
    cs_status status = CS_OK;
    *coverage = (ce_coverage){ 0 };
    if (all)
        status = check_lists(coverage, all, sizes, ranks);
    return ce_collective_status(comm, status);
}

void ce_coverage_close(ce_coverage *coverage)
{
    json_decref(coverage->tensors);
    free(coverage->empty);
    *coverage = (ce_coverage){ 0 };
}
