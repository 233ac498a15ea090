/* embed.c - token and position embedding. The work of the gradient is split between threads by columns, so that the
 * rows of one token are added in order. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"
#include "device/need.h"

typedef struct {
    cs_tensor table, positions, y; /* y is the output of forward, and in backward the gradient of that output */
    cs_tensor tokens, starts;
    int64_t first; /* the token that is row 0 of the table */
    /* in backward: this row of the table does not get the rows of its token; a negative number: every row does */
    int64_t padding;
} embed_job;

enum { MIN_ROWS = 8, MIN_COLUMNS = 64 };

/* Returns the row of the table for the token at `row`, or -1 if the token is a row of another rank's table. */
static int64_t entry_at(const embed_job *all, int64_t row)
{
    int64_t token = ((const int32_t *)all->tokens.data)[row], entry = token - all->first;
    return entry >= 0 && entry < cs_rows(all->table) ? entry : -1;
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
    int64_t width = cs_columns(all->y), entry = entry_at(all, row);
    float sum[CE_CHUNK], wide[CE_CHUNK];
    if (entry < 0) {
        memset(ce_elements_at(all->y, row * width + from), 0, (size_t)count * cs_dtype_bytes(all->y.dtype));
        return;
    }
    ce_elements_widen(sum, ce_elements_at(all->table, entry * width + from), all->table.dtype, count);
    if (all->positions.data)
        ce_elements_add(sum, ce_elements_read(all->positions, position_of(all, row) * width + from, count, wide),
                        count);
    ce_elements_write(all->y, row * width + from, count, sum);
}

/* Checks that every token is a row of a whole table. */
static embed_job make_job(cs_tensor table, int64_t first, cs_tensor tokens, cs_tensor starts)
{
    bool whole = first == CS_WHOLE_TABLE;
    ce_need_below("token", tokens, false, whole ? cs_rows(table) : (int64_t)INT32_MAX + 1);
    return (embed_job){ .table = table, .tokens = tokens, .starts = starts, .first = whole ? 0 : first };
}

void ce_cpu_embed(cs_device *device, cs_tensor y, cs_tensor tokens, cs_tensor table, int64_t first, cs_tensor positions,
                  cs_tensor starts)
{
    embed_job all = make_job(table, first, tokens, starts);
    all.y = y;
    all.positions = positions;
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
        int64_t entry = entry_at(all, row);
        if (entry >= 0 && entry != all->padding)
            ce_elements_add(table + entry * width + from, dy, count);
        if (positions)
            ce_elements_add(positions + position_of(all, row) * width + from, dy, count);
    }
}

void ce_cpu_embed_grad(cs_device *device, cs_tensor dtable, int64_t first, cs_tensor dpositions, cs_tensor dy,
                       cs_tensor tokens, cs_tensor starts, int64_t padding)
{
    embed_job all = make_job(dtable, first, tokens, starts);
    all.y = dy;
    all.positions = dpositions;
    all.padding = padding - all.first;
    ce_cpu_walk_chunks(device, cs_columns(dy), MIN_COLUMNS, embed_grad_chunk, &all);
}
