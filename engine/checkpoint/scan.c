/* scan.c - statistics of a saved tensor and comparison of two saved tensors, computed block by block. */
#include "checkpoint/scan.h"
#include "base/must.h"
#include "base/half.h"
#include "checkpoint/blocks.h"
#include "base/files.h"
#include "checkpoint/shardfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 1 << 20 }; /* number of elements that are compared at a time */

static double value_at(const void *data, cs_dtype dtype, int64_t index)
{
    return dtype == CS_I64 ? (double)((const int64_t *)data)[index]
                           : (double)cs_element(cs_vector((void *)(uintptr_t)data, dtype, index + 1), index);
}

typedef struct {
    ce_scan scan;
    /* Sums, over the finite values, of the difference (value - origin) and of the square of this difference. `origin`
     * is the first finite value. The subtraction avoids cancellation in the variance. */
    double sum, squares;
    double origin;
    int64_t finite;
} state;

/* First pass: counts the value, and updates minimum, maximum and the sums for mean and variance. */
static void measure(state *s, double value)
{
    s->scan.count++;
    s->scan.nans += isnan(value);
    s->scan.infinite += isinf(value);
    if (!isfinite(value))
        return;
    if (s->finite++ == 0)
        s->origin = s->scan.min = s->scan.max = value;
    s->scan.min = value < s->scan.min ? value : s->scan.min;
    s->scan.max = value > s->scan.max ? value : s->scan.max;
    s->sum += value - s->origin;
    s->squares += (value - s->origin) * (value - s->origin);
}

/* Second pass: adds the value to the histogram. */
static void sort(state *s, double value)
{
    double width = s->scan.max - s->scan.min;
    if (!isfinite(value))
        return;
    int bin = width > 0 ? (int)((value - s->scan.min) / width * CE_SCAN_BINS) : 0;
    s->scan.bins[bin < CE_SCAN_BINS ? bin : CE_SCAN_BINS - 1]++;
}

static cs_status each_block(state *s, ce_block *block, char *buffer, void (*take)(state *s, double value))
{
    cs_dtype dtype = block->manifest->tensors[block->chunk->tensor].dtype;
    for (block->index = 0; block->index < ce_blocks_count(block); block->index++) {
        CE_TRY(ce_blocks_read(buffer, block));
        int64_t count = (int64_t)(ce_blocks_bytes(block) / cs_dtype_bytes(dtype));
        for (int64_t i = 0; i < count; i++)
            take(s, value_at(buffer, dtype, i));
    }
    return CS_OK;
}

static cs_status each_chunk(state *s, const ce_checkpoint_reader *reader, int64_t tensor,
                            void (*take)(state *s, double value))
{
    ce_range of_tensor = ce_chunks_of(&reader->chunks, tensor);
    CE_FREED char *buffer = ce_must_alloc(CE_SHARDFILE_BLOCK);
    cs_status status = CS_OK;
    for (int64_t i = of_tensor.from; i < of_tensor.to && status == CS_OK; i++) {
        const ce_chunk *chunk = &reader->chunks.chunks[i];
        CE_FREED char *path = ce_files_join(reader->path, reader->manifest.files[chunk->file].name);
        ce_block block = { &reader->manifest, &reader->chunks, chunk, 0, -1, path };
        status = ce_files_open(&block.descriptor, path);
        if (status == CS_OK)
            status = each_block(s, &block, buffer, take);
        if (block.descriptor >= 0)
            close(block.descriptor);
    }
    return status;
}

cs_status ce_scan_tensor(ce_scan *scan, const ce_checkpoint_reader *reader, const char *name)
{
    const ce_manifest_tensor *tensor = ce_manifest_find(&reader->manifest, name);
    state s = { 0 };
    if (!tensor)
        return ce_fail(CS_NOT_FOUND, "%s holds no tensor %s; --tensors '*' lists its names", reader->path, name);
    CE_TRY(each_chunk(&s, reader, tensor - reader->manifest.tensors, measure));
    CE_TRY(each_chunk(&s, reader, tensor - reader->manifest.tensors, sort));
    double n = s.finite ? (double)s.finite : 1;
    double variance = s.squares / n - (s.sum / n) * (s.sum / n);
    s.scan.mean = s.origin + s.sum / n;
    s.scan.deviation = variance > 0 ? sqrt(variance) : 0;
    *scan = s.scan;
    return CS_OK;
}

/* ---- two checkpoints ---- */

static void compare_window(ce_scan_difference *d, const void *one, const void *other, cs_dtype dtype, ce_range range)
{
    int64_t count = ce_range_length(range);
    if (memcmp(one, other, (size_t)count * cs_dtype_bytes(dtype)) == 0)
        return;
    for (int64_t i = 0; i < count; i++) {
        double a = value_at(one, dtype, i), b = value_at(other, dtype, i);
        if (a == b || (isnan(a) && isnan(b)))
            continue;
        double gap = fabs(a - b);
        d->max = isnan(gap) ? (double)INFINITY : fmax(d->max, gap);
        if (d->differing++ == 0) {
            d->first = range.from + i;
            d->one = a;
            d->other = b;
        }
    }
}

cs_status ce_scan_compare(ce_scan_difference *difference, ce_checkpoint_reader *one, ce_checkpoint_reader *other,
                          cs_comm *self, const char *name)
{
    const ce_manifest_tensor *tensor = ce_manifest_find(&one->manifest, name);
    const ce_manifest_tensor *twin = ce_manifest_find(&other->manifest, name);
    cs_dtype dtype = tensor->dtype == twin->dtype ? tensor->dtype : CS_F32;
    size_t bytes = WINDOW * cs_dtype_bytes(dtype);
    CE_FREED char *a = ce_must_alloc(bytes);
    CE_FREED char *b = ce_must_alloc(bytes);
    int64_t count;
    *difference = (ce_scan_difference){ .first = -1 };
    ce_boxes_count(&count, tensor->shape, tensor->dims, 1);
    for (int64_t from = 0; from < count; from += WINDOW) {
        ce_range range = { from, from + WINDOW < count ? from + WINDOW : count };
        ce_piece piece = {
            .name = name, .folder = "weights", .dtype = dtype, .dims = tensor->dims, .range = range, .data = a
        };
        memcpy(piece.shape, tensor->shape, sizeof piece.shape);
        CE_TRY(ce_checkpoint_read(one, self, &piece, 1));
        piece.data = b;
        CE_TRY(ce_checkpoint_read(other, self, &piece, 1));
        compare_window(difference, a, b, dtype, range);
    }
    return CS_OK;
}
