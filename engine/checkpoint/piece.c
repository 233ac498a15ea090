/* piece.c - the elements of a piece: which boxes of the tensor they are, and where they are in memory. */
#include "checkpoint/piece.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

ce_box ce_piece_part(const ce_piece *piece)
{
    return piece->part.dims > 0 ? piece->part : ce_boxes_whole(piece->shape, piece->dims);
}

int ce_piece_boxes(ce_box *boxes, const ce_piece *piece)
{
    ce_box part = ce_piece_part(piece);
    int count = ce_boxes_split(boxes, part.size, part.dims, piece->range);
    for (int i = 0; i < count; i++)
        for (int d = 0; d < part.dims; d++)
            boxes[i].offset[d] += part.offset[d];
    return count;
}

static int64_t row_of(const ce_piece *piece)
{
    return piece->part.dims > 0 ? piece->part.size[piece->part.dims - 1] : piece->shape[piece->dims - 1];
}

char *ce_piece_at(const ce_piece *piece, int64_t element, int64_t *run)
{
    int64_t row = piece->pitch ? row_of(piece) : 0;
    int64_t place = piece->pitch ? element / row * piece->pitch + element % row : element - piece->range.from;
    if (run)
        *run = piece->pitch ? row - element % row : piece->range.to - element;
    return (char *)piece->data + place * (int64_t)cs_dtype_bytes(piece->dtype);
}

/* Copies elements of a piece with a pitch that is in host memory. */
static void gather(char *to, const ce_piece *piece, ce_range elements)
{
    int64_t size = (int64_t)cs_dtype_bytes(piece->dtype);
    for (int64_t at = elements.from, run; at < elements.to; at += run) {
        const char *from = ce_piece_at(piece, at, &run);
        run = run < elements.to - at ? run : elements.to - at;
        memcpy(to + (at - elements.from) * size, from, (size_t)(run * size));
    }
}

/* Copies elements of a piece with a pitch that is in device memory. Many short rows are copied faster together with the
 * elements between them, so some rows with these elements are copied to the host first. */
static void gather_from_device(char *to, const ce_piece *piece, ce_range elements,
                               const ce_checkpoint_device_copy *device_copy)
{
    enum { SPAN = 4 << 20 };
    int64_t size = (int64_t)cs_dtype_bytes(piece->dtype), row = row_of(piece), rows = SPAN / (piece->pitch * size);
    CE_FREED char *span = ce_must_alloc((size_t)((rows * piece->pitch + row) * size));
    for (int64_t at = elements.from, next; at < elements.to; at = next) {
        next = (at / row + rows + 1) * row;
        next = next < elements.to ? next : elements.to;
        const char *first = ce_piece_at(piece, at, NULL), *last = ce_piece_at(piece, next - 1, NULL);
        device_copy->fetch(device_copy->argument, span + at % row * size, first, (size_t)(last + size - first));
        ce_piece host = *piece;
        host.data = span;
        gather(to + (at - elements.from) * size, &host, (ce_range){ at % row, next - at / row * row });
    }
}

void ce_piece_fetch(void *to, const ce_piece *piece, ce_range elements, const ce_checkpoint_device_copy *device_copy)
{
    size_t bytes = (size_t)ce_range_length(elements) * cs_dtype_bytes(piece->dtype);
    if (bytes == 0)
        return;
    if (piece->pitch && device_copy)
        gather_from_device(to, piece, elements, device_copy);
    else if (piece->pitch)
        gather(to, piece, elements);
    else if (device_copy)
        device_copy->fetch(device_copy->argument, to, ce_piece_at(piece, elements.from, NULL), bytes);
    else
        memcpy(to, ce_piece_at(piece, elements.from, NULL), bytes);
}
