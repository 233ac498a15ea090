/* source.c - the functions that all sources of tensors share. */
#include "interchange/source.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

int64_t ce_source_elements(const ce_source_tensor *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        count *= tensor->shape[i];
    return count;
}

int64_t ce_source_find(const ce_source *source, const char *name)
{
    for (int64_t i = 0; i < source->count; i++)
        if (strcmp(source->tensors[i].name, name) == 0)
            return i;
    return -1;
}

/* Reads a box that has some columns of a matrix. As many rows as the buffer has room for are read at once, with the
 * elements between them. A row of the tensor that is longer than half of the buffer is read by itself. */
static cs_status read_columns(ce_source *source, int64_t tensor, const ce_box *box, char *to, cs_dtype dtype)
{
    int64_t size = (int64_t)cs_dtype_bytes(dtype), width = source->tensors[tensor].shape[1], row = box->size[1];
    int64_t max = CE_SOURCE_BUFFER / size / width;
    CE_FREED char *buffer = max > 1 ? ce_must_alloc(CE_SOURCE_BUFFER) : NULL;
    for (int64_t at = 0, rows; at < box->size[0]; at += rows) {
        int64_t first = (box->offset[0] + at) * width + box->offset[1];
        rows = !buffer ? 1 : box->size[0] - at < max ? box->size[0] - at : max;
        ce_range span = { first, first + (rows - 1) * width + row };
        CE_TRY(source->read(source, tensor, span, rows > 1 ? buffer : to, dtype));
        for (int64_t i = 0; i < rows && rows > 1; i++)
            memcpy(to + i * row * size, buffer + i * width * size, (size_t)(row * size));
        to += rows * row * size;
    }
    return CS_OK;
}

cs_status ce_source_read_box(ce_source *source, int64_t tensor, const ce_box *box, ce_range range, void *to,
                             cs_dtype dtype)
{
    const int64_t *shape = source->tensors[tensor].shape;
    ce_box boxes[CE_MAX_BOXES];
    int count = ce_boxes_split(boxes, box->size, box->dims, range);
    int64_t first = ce_boxes_place(box, shape, 0);
    char *next = to;
    if (ce_boxes_run(box, shape) == ce_boxes_volume(box)) /* the box is a range of the tensor */
        return source->read(source, tensor, (ce_range){ first + range.from, first + range.to }, to, dtype);
    for (int i = 0; i < count; i++) {
        boxes[i].offset[0] += box->offset[0];
        boxes[i].offset[1] += box->offset[1];
        CE_TRY(read_columns(source, tensor, &boxes[i], next, dtype));
        next += ce_boxes_volume(&boxes[i]) * (int64_t)cs_dtype_bytes(dtype);
    }
    return CS_OK;
}

void ce_source_close(ce_source *source)
{
    if (source->close)
        source->close(source);
    free(source->tensors);
    *source = (ce_source){ 0 };
}
