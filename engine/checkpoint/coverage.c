/* coverage.c - checks that the pieces of all ranks cover each tensor exactly once, and builds the manifest's table of
 * tensors. */
#include "checkpoint/save.h"
#include "comm/collective_status.h"
#include "checkpoint/boxes.h"
#include "checkpoint/write_plan.h"
#include "checkpoint/safetensors.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

/* Describes a piece as the JSON list that is sent to rank 0: [name, folder, dtype, shape, from, to]. */
static json_t *describe(const ce_piece *piece)
{
    return json_pack("[s i i o I I]", piece->name, ce_write_plan_folder(piece->folder), (int)piece->dtype,
                     ce_safetensors_numbers(piece->shape, piece->dims), (json_int_t)piece->range.from,
                     (json_int_t)piece->range.to);
}

static char *describe_all(const ce_piece *pieces, int64_t count)
{
    json_auto_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(list, describe(&pieces[i]));
    char *text = json_dumps(list, JSON_COMPACT);
    return text;
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
    for (int i = 0; i < piece.dims; i++)
        piece.shape[i] = json_integer_value(json_array_get(shape, (size_t)i));
    return piece;
}

static int by_place(const void *one, const void *other)
{
    const ce_piece *a = one, *b = other;
    int names = strcmp(a->name, b->name);
    if (names != 0 || a->range.from != b->range.from)
        return names != 0 ? names : a->range.from < b->range.from ? -1 : 1;
    return (a->range.to > b->range.to) - (a->range.to < b->range.to);
}

static bool alike(const ce_piece *a, const ce_piece *b)
{
    return a->dtype == b->dtype && a->dims == b->dims && strcmp(a->folder, b->folder) == 0 &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0;
}

/* Checks that the pieces of one tensor, which are sorted by position, have the same type, shape and folder and cover
 * each element exactly once. */
static cs_status check_tensor(const ce_piece *pieces, int64_t count, int64_t elements)
{
    int64_t end = 0;
    for (int64_t i = 0; i < count; i++) {
        const ce_piece *piece = &pieces[i];
        if (!alike(piece, pieces))
            return ce_fail(CS_BAD_CONFIG,
                           "checkpoint: tensor %s has different types, shapes or folders on different ranks",
                           piece->name);
        if (ce_range_length(piece->range) == 0)
            continue;
        if (piece->range.from != end)
            return ce_fail(CS_BAD_CONFIG, "checkpoint: elements %lld to %lld of tensor %s are %s",
                           (long long)(piece->range.from < end ? piece->range.from : end),
                           (long long)(piece->range.from < end ? end : piece->range.from), piece->name,
                           piece->range.from < end ? "written twice" : "written by no rank");
        end = piece->range.to;
    }
    if (end != elements)
        return ce_fail(CS_BAD_CONFIG, "checkpoint: elements %lld to %lld of tensor %s are written by no rank",
                       (long long)end, (long long)elements, pieces->name);
    return CS_OK;
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
    qsort(pieces, (size_t)count, sizeof *pieces, by_place);
    for (int64_t i = 0, next; i < count; i = next) {
        int64_t elements;
        for (next = i + 1; next < count && strcmp(pieces[next].name, pieces[i].name) == 0;)
            next++;
        ce_boxes_count(&elements, pieces[i].shape, pieces[i].dims, 1);
        CE_TRY(check_tensor(&pieces[i], next - i, elements));
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
