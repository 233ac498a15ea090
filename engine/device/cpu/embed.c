/* embed.c - token and position embedding. The work of the gradient is split between threads by columns, so that the
 * rows of one token are added in order. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"
#include "base/must.h"

typedef struct {
    cs_tensor table, positions, y; /* y is the output of forward, and in backward the gradient of that output */
    cs_tensor tokens, starts;
    /* in backward, the rows of the token `padding` are not added to the table; -1: rows of all tokens are added */
    int64_t padding;
} embed_job;

enum { MIN_ROWS = 8, MIN_COLUMNS = 64 };

static int64_t token_at(const embed_job *all, int64_t row)
{
    int64_t token = ((const int32_t *)all->tokens.data)[row];
    CE_ASSERT(token >= 0 && token < cs_rows(all->table));
    return token;
}

/* Returns the row's position in its document if `starts` is present, otherwise its position in its sample. */
static int64_t position_of(const embed_job *all, int64_t row)
{
    int64_t position = row % cs_columns(all->tokens);
    return all->starts.data ? position - ((const int32_t *)all->starts.data)[row] : position;
}

static void embed_chunk(const void *argument, int64_t row, int64_t from, int64_t count)
{
    const embed_job *all = argument;
    int64_t width = cs_columns(all->y);
    float sum[CE_CHUNK], wide[CE_CHUNK];
    ce_elements_widen(sum, ce_elements_at(all->table, token_at(all, row) * width + from), all->table.dtype, count);
    if (all->positions.data)
        ce_elements_add(sum, ce_elements_read(all->positions, position_of(all, row) * width + from, count, wide),
                        count);
    ce_elements_write(all->y, row * width + from, count, sum);
}

void ce_cpu_embed(cs_device *device, cs_tensor y, cs_tensor tokens, cs_tensor table, cs_tensor positions,
                  cs_tensor starts)
{
    embed_job all = { .table = table, .positions = positions, .y = y, .tokens = tokens, .starts = starts };
    ce_cpu_walk_rows(device, cs_rows(y), cs_columns(y), MIN_ROWS, embed_chunk, &all);
}

/* Adds all rows of the columns [from, from + count). */
static void embed_grad_chunk(const void *argument, int64_t from, int64_t count)
{
    const embed_job *all = argument;
    int64_t width = cs_columns(all->y);
    float *table = all->table.data, *positions = all->positions.data, wide[CE_CHUNK];
    for (int64_t row = 0; row < cs_rows(all->y); row++) {
        const float *dy = ce_elements_read(all->y, row * width + from, count, wide);
        int64_t token = token_at(all, row);
        if (token != all->padding)
            ce_elements_add(table + token * width + from, dy, count);
        if (positions)
            ce_elements_add(positions + position_of(all, row) * width + from, dy, count);
    }
}

void ce_cpu_embed_grad(cs_device *device, cs_tensor dtable, cs_tensor dpositions, cs_tensor dy, cs_tensor tokens,
                       cs_tensor starts, int64_t padding)
{
    embed_job all = {
        .padding = padding, .table = dtable, .positions = dpositions, .y = dy, .tokens = tokens, .starts = starts
    };
    ce_cpu_walk_chunks(device, cs_columns(dy), MIN_COLUMNS, embed_grad_chunk, &all);
}
