/* rearrange.c - transposed matrices, and the neighbourhoods of the pixels of images (im2col). */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"
#include "device/patches.h"

enum { MIN_PIXELS = 16, TILE = 16 };

static inline void copy_item(char *to, const char *from, int64_t bytes)
{
    if (bytes == 4)
        memcpy(to, from, 4);
    else if (bytes == 2)
        memcpy(to, from, 2);
    else
        memcpy(to, from, (size_t)bytes);
}

/* ---- transposition: y[b][c][r] = x[b][r][c], where an item has `bytes` bytes ---- */

typedef struct {
    const char *from;
    char *to;
    int64_t rows, columns, bytes;
} transpose_job;

/* Copies TILE columns of x at a time, so that the lines of x and of y stay in the first-level cache. */
static void transpose_strips(void *argument, ce_range range, int part)
{
    (void)part;
    const transpose_job *all = argument;
    int64_t strips = ce_divide_up(all->columns, TILE), bytes = all->bytes;
    for (int64_t strip = range.from; strip < range.to; strip++) {
        int64_t first = strip % strips * TILE, matrix = strip / strips * all->rows * all->columns;
        int64_t last = first + TILE < all->columns ? first + TILE : all->columns;
        for (int64_t row = 0; row < all->rows; row++)
            for (int64_t column = first; column < last; column++)
                copy_item(all->to + (matrix + column * all->rows + row) * bytes,
                          all->from + (matrix + row * all->columns + column) * bytes, bytes);
    }
}

void ce_cpu_transpose(cs_device *device, cs_tensor y, cs_tensor x, int64_t batch, int64_t rows, int64_t columns)
{
    int64_t items = batch * rows * columns, bytes = (int64_t)cs_dtype_bytes(x.dtype);
    if (items > 0)
        ce_cpu_walk(device, batch * ce_divide_up(columns, TILE), 1, transpose_strips,
                    &(transpose_job){ x.data, y.data, rows, columns, cs_count(x) / items * bytes });
}

/* ---- neighbourhoods ---- */

typedef struct {
    cs_tensor columns, image;
    cs_patches shape;
} patches_job;

/* Writes the rows of `columns`: for each place of the kernel the channels of a pixel, or zeros beyond the edge. */
static void patches_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const patches_job *all = argument;
    const cs_patches *shape = &all->shape;
    int64_t item = shape->channels * (int64_t)cs_dtype_bytes(all->image.dtype), places = shape->kernel[1];
    char *to = (char *)all->columns.data + range.from * shape->kernel[0] * places * item;
    for (int64_t row = range.from; row < range.to; row++) {
        int64_t left = row % shape->outputs[1] * shape->stride[1] - shape->padding[1];
        int64_t line = row / shape->outputs[1], sample = line / shape->outputs[0];
        int64_t top = line % shape->outputs[0] * shape->stride[0] - shape->padding[0];
        for (int64_t place = 0; place < shape->kernel[0] * places; place++, to += item) {
            int64_t y = top + place / places * shape->dilation[0], x = left + place % places * shape->dilation[1];
            if (y >= 0 && y < shape->size[0] && x >= 0 && x < shape->size[1])
                copy_item(to, (char *)all->image.data + ((sample * shape->size[0] + y) * shape->size[1] + x) * item,
                          item);
            else
                memset(to, 0, (size_t)item);
        }
    }
}

void ce_cpu_patches(cs_device *device, cs_tensor columns, cs_tensor image, const cs_patches *shape)
{
    ce_cpu_walk(device, cs_rows(columns), MIN_PIXELS, patches_rows, &(patches_job){ columns, image, *shape });
}

/* Adds to `sum` the given channels of all neighbourhoods that have copied the pixel in row y and column x of the sample. */
static void add_readers(float *sum, const patches_job *all, int64_t sample, const int64_t pixel[2], ce_range channels)
{
    const cs_patches *shape = &all->shape;
    float wide[CE_CHUNK];
    for (int64_t place = 0; place < shape->kernel[0] * shape->kernel[1]; place++) {
        int64_t y = ce_patches_reader(shape, 0, pixel[0], place / shape->kernel[1]);
        int64_t x = ce_patches_reader(shape, 1, pixel[1], place % shape->kernel[1]);
        if (y < 0 || x < 0)
            continue;
        int64_t row = (sample * shape->outputs[0] + y) * shape->outputs[1] + x;
        int64_t at = row * cs_columns(all->columns) + place * shape->channels + channels.from;
        ce_elements_add(sum, ce_elements_read(all->columns, at, ce_range_length(channels), wide),
                        ce_range_length(channels));
    }
}

static void patches_grad_pixels(void *argument, ce_range range, int part)
{
    (void)part;
    const patches_job *all = argument;
    int64_t width = all->shape.size[1], pixels = all->shape.size[0] * width, channels = all->shape.channels;
    for (int64_t pixel = range.from; pixel < range.to; pixel++)
        for (int64_t at = 0; at < channels; at += CE_CHUNK) {
            int64_t count = ce_elements_chunk(at, channels);
            float sum[CE_CHUNK];
            memset(sum, 0, (size_t)count * sizeof *sum);
            add_readers(sum, all, pixel / pixels, (int64_t[]){ pixel % pixels / width, pixel % width },
                        (ce_range){ at, at + count });
            ce_elements_write(all->image, pixel * channels + at, count, sum);
        }
}

void ce_cpu_patches_grad(cs_device *device, cs_tensor dimage, cs_tensor dcolumns, const cs_patches *shape)
{
    ce_cpu_walk(device, cs_count(dimage) / shape->channels, MIN_PIXELS, patches_grad_pixels,
                &(patches_job){ dcolumns, dimage, *shape });
}
