/* write_plan.c - what a rank writes: its pieces cut into boxes, and the boxes dealt to files. */
#include "checkpoint/write_plan.h"
#include "checkpoint/collective_status.h"
#include "checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

const char *const cs_outline_folders[CS_OUTLINE_FOLDERS] = { "weights", "optim" };

int cs_outline_folder(const char *folder)
{
    for (int i = 0; i < CS_OUTLINE_FOLDERS; i++)
        if (folder && strcmp(folder, cs_outline_folders[i]) == 0)
            return i;
    return -1;
}

static cs_status check_name(const char *name)
{
    json_t *text = name ? json_string(name) : NULL;
    json_decref(text);
    if (!text || !name[0] || strlen(name) > CS_SAFETENSORS_MAX_NAME || strcmp(name, "__metadata__") == 0)
        return cs_fail(CS_BAD_CONFIG,
                       "checkpoint: \"%.200s\" cannot name a tensor: a name is UTF-8, not empty, at most %d bytes, "
                       "and not __metadata__",
                       name ? name : "", CS_SAFETENSORS_MAX_NAME);
    return CS_OK;
}

static cs_status check_piece(const cs_piece *piece)
{
    int64_t count;
    CS_TRY(check_name(piece->name));
    if (cs_outline_folder(piece->folder) < 0)
        return cs_fail(CS_BAD_CONFIG,
                       "checkpoint: tensor %s: \"%s\" is no folder of a checkpoint; weights and optim are", piece->name,
                       piece->folder ? piece->folder : "");
    if (piece->dims < 0 || piece->dims > CS_MAX_DIMS)
        return cs_fail(CS_BAD_CONFIG, "checkpoint: tensor %s: 0 to %d dimensions, not %d", piece->name, CS_MAX_DIMS,
                       piece->dims);
    for (int i = 0; i < piece->dims; i++)
        if (piece->shape[i] < 0)
            return cs_fail(CS_BAD_CONFIG, "checkpoint: tensor %s: a dimension of %lld", piece->name,
                           (long long)piece->shape[i]);
    if (!cs_boxes_count(&count, piece->shape, piece->dims, (int64_t)cs_dtype_bytes(piece->dtype)))
        return cs_fail(CS_BAD_CONFIG, "checkpoint: tensor %s: more bytes than a file can have", piece->name);
    cs_range range = piece->range;
    if (range.from < 0 || range.to < range.from || range.to > count || (!piece->data && range.to > range.from))
        return cs_fail(CS_BAD_CONFIG, "checkpoint: tensor %s: elements %lld to %lld of %lld%s", piece->name,
                       (long long)range.from, (long long)range.to, (long long)count,
                       piece->data ? "" : ", without data");
    return CS_OK;
}

cs_status cs_outline_check(const cs_piece *pieces, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        CS_TRY(check_piece(&pieces[i]));
    return CS_OK;
}

static int by_tensor(const void *one, const void *other)
{
    const cs_outline_chunk *a = one, *b = other;
    int names = strcmp(a->piece->name, b->piece->name);
    if (a->folder != b->folder || names != 0)
        return a->folder != b->folder ? a->folder - b->folder : names;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return (a->data > b->data) - (a->data < b->data);
}

static int by_file(const void *one, const void *other)
{
    const cs_outline_chunk *a = one, *b = other;
    size_t size_a = cs_dtype_bytes(a->piece->dtype), size_b = cs_dtype_bytes(b->piece->dtype);
    if (a->folder != b->folder || a->file != b->file)
        return a->folder != b->folder ? a->folder - b->folder : a->file - b->file;
    if (size_a != size_b)
        return size_a > size_b ? -1 : 1;
    return strcmp(a->piece->name, b->piece->name);
}

static void add_piece(cs_outline *outline, const cs_piece *piece)
{
    cs_box boxes[CS_MAX_BOXES];
    int64_t bytes = (int64_t)cs_dtype_bytes(piece->dtype), done = 0;
    int count = cs_boxes_split(boxes, piece->shape, piece->dims, piece->range);
    for (int i = 0; i < count; i++) {
        cs_outline_chunk chunk = { .piece = piece, .box = boxes[i], .folder = cs_outline_folder(piece->folder) };
        chunk.data = (const char *)piece->data + done * bytes;
        chunk.count = cs_boxes_volume(&boxes[i]);
        done += chunk.count;
        outline->chunks[outline->chunk_count++] = chunk;
    }
}

static void add_empty(cs_outline *outline, const cs_piece *piece)
{
    cs_outline_chunk chunk = { .piece = piece, .box.dims = piece->dims, .folder = cs_outline_folder(piece->folder) };
    memcpy(chunk.box.size, piece->shape, sizeof chunk.box.size);
    outline->chunks[outline->chunk_count++] = chunk;
}

static void deal(cs_outline *outline)
{
    qsort(outline->chunks, (size_t)outline->chunk_count, sizeof *outline->chunks, by_tensor);
    for (int64_t i = 1; i < outline->chunk_count; i++) {
        const cs_outline_chunk *before = &outline->chunks[i - 1];
        if (strcmp(before->piece->name, outline->chunks[i].piece->name) == 0)
            outline->chunks[i].file = before->file + 1;
    }
    qsort(outline->chunks, (size_t)outline->chunk_count, sizeof *outline->chunks, by_file);
}

static void list_files(cs_outline *outline)
{
    for (int64_t i = 0; i < outline->chunk_count; i++) {
        const cs_outline_chunk *chunk = &outline->chunks[i];
        if (i == 0 || chunk->folder != chunk[-1].folder || chunk->file != chunk[-1].file) {
            outline->files[outline->file_count++] = (cs_outline_file){ .chunks = chunk, .folder = chunk->folder };
            outline->files_in[chunk->folder]++;
        }
        cs_outline_file *file = &outline->files[outline->file_count - 1];
        int64_t bytes = chunk->count * (int64_t)cs_dtype_bytes(chunk->piece->dtype);
        file->count++;
        file->data_bytes += bytes;
        outline->data_bytes += bytes;
    }
}

void cs_outline_open(cs_outline *outline, const cs_piece *pieces, int64_t count, const cs_piece *empty,
                     int64_t empty_count)
{
    size_t max = (size_t)(count * CS_MAX_BOXES + empty_count);
    *outline = (cs_outline){ 0 };
    outline->chunks = cs_agree_memory(max * sizeof *outline->chunks);
    for (int64_t i = 0; i < count; i++)
        add_piece(outline, &pieces[i]);
    for (int64_t i = 0; i < empty_count; i++)
        add_empty(outline, &empty[i]);
    outline->files = cs_agree_memory((size_t)outline->chunk_count * sizeof *outline->files);
    deal(outline);
    list_files(outline);
}

void cs_outline_close(cs_outline *outline)
{
    free(outline->chunks);
    free(outline->files);
    *outline = (cs_outline){ 0 };
}
