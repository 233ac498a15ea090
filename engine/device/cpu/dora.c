/* dora.c - DoRA: the norms of adapted weights, and the scaling of columns of a result by magnitude / norm. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include <math.h>

enum { LINES = 16, RUN = 256, MIN_OUTPUTS = 16, MIN_ROWS = 8, MIN_COLUMNS = 64 };

/* ---- norms ---- */

/* A tile of the matrix W + scale B A: up to LINES rows and RUN columns of the matrix as W is stored (dora->layout). */
typedef struct {
    int64_t row, column, rows, columns;
    float value[LINES][RUN];
} weight_tile;

static float element(cs_tensor x, int64_t index)
{
    float wide;
    return *ce_elements_read(x, index, 1, &wide);
}

/* Returns the elements that inner index r contributes to the tile's columns: elements of A's row r if the tile's
 * columns are inputs, elements of B's column r if they are outputs. */
static const float *run_of(const cs_dora *dora, const weight_tile *tile, int64_t r, float *wide)
{
    int64_t rank = cs_rows(dora->a), inputs = cs_columns(dora->a);
    if (dora->layout == CS_OUT_IN)
        return ce_elements_read(dora->a, r * inputs + tile->column, tile->columns, wide);
    for (int64_t i = 0; i < tile->columns; i++)
        wide[i] = element(dora->b, (tile->column + i) * rank + r);
    return wide;
}

static void fill_tile(const cs_dora *dora, weight_tile *tile)
{
    int64_t rank = cs_rows(dora->a), inputs = cs_columns(dora->a), width = cs_columns(dora->weight);
    float wide[RUN];
    for (int64_t i = 0; i < tile->rows; i++) {
        int64_t at = (tile->row + i) * width + tile->column;
        const float *w = ce_elements_read(dora->weight, at, tile->columns, wide);
        for (int64_t j = 0; j < tile->columns; j++)
            tile->value[i][j] = w[j];
    }
    for (int64_t r = 0; r < rank; r++) {
        const float *run = run_of(dora, tile, r, wide);
        for (int64_t i = 0; i < tile->rows; i++) {
            int64_t row = tile->row + i;
            float factor = dora->scale * (dora->layout == CS_OUT_IN ? element(dora->b, row * rank + r)
                                                                    : element(dora->a, r * inputs + row));
            for (int64_t j = 0; j < tile->columns; j++)
                tile->value[i][j] += factor * run[j];
        }
    }
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

typedef struct {
    const cs_dora *dora;
    float *norms;
} norms_job;

/* Computes the norms if the outputs are rows of the weight. */
static void norms_of_rows(const norms_job *job, ce_range range)
{
    int64_t inputs = cs_columns(job->dora->weight);
    for (int64_t row = range.from; row < range.to; row += LINES) {
        weight_tile tile = { .row = row, .rows = min(LINES, range.to - row) };
        float sum[LINES] = { 0 };
        for (tile.column = 0; tile.column < inputs; tile.column += RUN) {
            tile.columns = min(RUN, inputs - tile.column);
            fill_tile(job->dora, &tile);
            for (int64_t i = 0; i < tile.rows; i++)
                sum[i] += ce_elements_dot(tile.value[i], tile.value[i], tile.columns);
        }
        for (int64_t i = 0; i < tile.rows; i++)
            job->norms[row + i] = sqrtf(sum[i]);
    }
}

/* Computes the norms if the outputs are columns of the weight. */
static void norms_of_columns(const norms_job *job, ce_range range)
{
    int64_t inputs = cs_rows(job->dora->weight);
    for (int64_t column = range.from; column < range.to; column += RUN) {
        weight_tile tile = { .column = column, .columns = min(RUN, range.to - column) };
        float sum[RUN] = { 0 };
        for (tile.row = 0; tile.row < inputs; tile.row += LINES) {
            tile.rows = min(LINES, inputs - tile.row);
            fill_tile(job->dora, &tile);
            for (int64_t i = 0; i < tile.rows; i++)
                for (int64_t j = 0; j < tile.columns; j++)
                    sum[j] += tile.value[i][j] * tile.value[i][j];
        }
        for (int64_t j = 0; j < tile.columns; j++)
            job->norms[column + j] = sqrtf(sum[j]);
    }
}

static void norms_part(void *argument, ce_range range, int part)
{
    (void)part;
    const norms_job *job = argument;
    if (job->dora->layout == CS_OUT_IN)
        norms_of_rows(job, range);
    else
        norms_of_columns(job, range);
}

void ce_cpu_dora_norms(cs_device *device, cs_tensor norms, const cs_dora *dora)
{
    ce_cpu_walk(device, cs_count(norms), MIN_OUTPUTS, norms_part, &(norms_job){ dora, norms.data });
}

void ce_cpu_join_norms(cs_device *device, cs_tensor norms, cs_tensor x)
{
    const float *part = x.data;
    float *norm = norms.data;
    int64_t columns = cs_count(norms);
    (void)device; /* there are as few elements as a layer has outputs */
    for (int64_t i = 0; i < columns; i++) {
        float sum = 0;
        for (int64_t row = 0; row < cs_rows(x); row++)
            sum += part[row * columns + i] * part[row * columns + i];
        norm[i] = sqrtf(sum);
    }
}

/* ---- the scaled columns ---- */

typedef struct {
    cs_tensor y, z, dmagnitude;
    const float *norms;
    const cs_dora *dora;
} columns_job;

static void forward_chunk(const void *argument, int64_t row, int64_t at, int64_t count)
{
    const columns_job *job = argument;
    const cs_dora *dora = job->dora;
    float wide_y[CE_CHUNK], wide_z[CE_CHUNK], wide_m[CE_CHUNK], wide_b[CE_CHUNK], out[CE_CHUNK], sum[CE_CHUNK];
    int64_t narrow = row * cs_columns(job->z) + at, wide = row * cs_columns(job->y) + dora->first + at;
    const float *y = ce_elements_read(job->y, wide, count, wide_y);
    const float *z = ce_elements_read(job->z, narrow, count, wide_z);
    const float *magnitude = ce_elements_read(dora->magnitude, at, count, wide_m), *norms = job->norms + at;
    const float *bias = dora->bias.data ? ce_elements_read(dora->bias, at, count, wide_b) : NULL;
    for (int64_t i = 0; i < count; i++) {
        float base = bias ? bias[i] : 0;
        sum[i] = y[i] - base + dora->scale * z[i];
        out[i] = base + magnitude[i] / norms[i] * sum[i];
    }
    ce_elements_write(job->z, narrow, count, sum);
    ce_elements_write(job->y, wide, count, out);
}

void ce_cpu_dora(cs_device *device, cs_tensor y, cs_tensor z, cs_tensor norms, const cs_dora *dora)
{
    columns_job job = { .y = y, .z = z, .norms = norms.data, .dora = dora };
    ce_cpu_walk_rows(device, cs_rows(z), cs_columns(z), MIN_ROWS, forward_chunk, &job);
}

/* Computes all rows of the columns [at, at + count). The work is divided by columns, so that every sum over rows has the
 * same order for any number of threads. */
static void backward_chunk(const void *argument, int64_t at, int64_t count)
{
    const columns_job *job = argument;
    const cs_dora *dora = job->dora;
    float wide_y[CE_CHUNK], wide_z[CE_CHUNK], wide_m[CE_CHUNK], out[CE_CHUNK], sum[CE_CHUNK];
    float *gradient = (float *)job->dmagnitude.data + at;
    const float *magnitude = ce_elements_read(dora->magnitude, at, count, wide_m), *norms = job->norms + at;
    for (int64_t i = 0; i < count; i++)
        sum[i] = 0;
    for (int64_t row = 0; row < cs_rows(job->z); row++) {
        int64_t wide = row * cs_columns(job->y) + dora->first + at;
        const float *dy = ce_elements_read(job->y, wide, count, wide_y);
        const float *z = ce_elements_read(job->z, row * cs_columns(job->z) + at, count, wide_z);
        for (int64_t i = 0; i < count; i++) {
            sum[i] += dy[i] * z[i];
            out[i] = magnitude[i] / norms[i] * dy[i];
        }
        ce_elements_write(job->y, wide, count, out);
    }
    for (int64_t i = 0; i < count; i++)
        gradient[i] = (job->dmagnitude.overwrite ? 0 : gradient[i]) + sum[i] / norms[i];
}

void ce_cpu_dora_grad(cs_device *device, cs_tensor dy, cs_tensor dmagnitude, cs_tensor z, cs_tensor norms,
                      const cs_dora *dora)
{
    columns_job job = { .y = dy, .z = z, .dmagnitude = dmagnitude, .norms = norms.data, .dora = dora };
    ce_cpu_walk_chunks(device, cs_columns(z), MIN_COLUMNS, backward_chunk, &job);
}
