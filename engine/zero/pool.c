/* pool.c - a pool of row buffers (buffers for all elements of a unit) that units borrow in turn. */
#include "zero/zero.h"
#include "base/must.h"

#include <stdlib.h>

struct ce_row {
    int64_t length;
    void *data;
    bool out;
    /* the event that is complete when the last use of the row is over; after.stream is NULL if the row was never
     * used */
    ce_event after;
};

struct ce_pool {
    size_t element_bytes;
    /* each row is allocated separately, because borrowers keep pointers to rows while this array grows */
    ce_row **rows;
    int count;
    bool settled;
};

ce_pool *ce_pool_open(size_t element_bytes)
{
    ce_pool *pool = ce_must_alloc(sizeof *pool);
    pool->element_bytes = element_bytes;
    return pool;
}

void ce_pool_close(ce_pool *pool)
{
    if (!pool)
        return;
    for (int i = 0; i < pool->count; i++)
        free(pool->rows[i]);
    free(pool->rows);
    free(pool);
}

static ce_row *add(ce_pool *pool, int64_t length)
{
    ce_row *row = ce_must_alloc(sizeof *row);
    ce_row **rows = ce_must_resize(pool->rows, (size_t)(pool->count + 1) * sizeof *rows);
    row->length = length;
    row->data = (void *)((uintptr_t)1 << 45); /* a placeholder; the row must not be accessed before ce_pool_settle */
    pool->rows = rows;
    pool->rows[pool->count++] = row;
    return row;
}

ce_row *ce_pool_borrow(ce_pool *pool, int64_t length)
{
    ce_row *row = NULL;
    for (int i = 0; i < pool->count && !row; i++)
        if (!pool->rows[i]->out && pool->rows[i]->length == length)
            row = pool->rows[i];
    if (!row) {
        CE_ASSERT(!pool->settled);
        row = add(pool, length);
    }
    row->out = true;
    return row;
}

void *ce_pool_data(ce_row *row)
{
    return row->data;
}

ce_event ce_pool_after(const ce_row *row)
{
    return row->after;
}

void ce_pool_return(ce_pool *pool, ce_row *row, ce_event after)
{
    (void)pool;
    CE_ASSERT(row->out);
    row->out = false;
    row->after = after;
}

size_t ce_pool_bytes(const ce_pool *pool)
{
    size_t bytes = 0;
    for (int i = 0; i < pool->count; i++)
        bytes += (size_t)pool->rows[i]->length * pool->element_bytes;
    return bytes;
}

void ce_pool_settle(ce_pool *pool, cs_comm *comm)
{
    CE_ASSERT(!pool->settled);
    for (int i = 0; i < pool->count; i++) {
        CE_ASSERT(!pool->rows[i]->out);
        pool->rows[i]->data = cs_comm_alloc(comm, (size_t)pool->rows[i]->length * pool->element_bytes);
        pool->rows[i]->after = (ce_event){ 0 };
    }
    pool->settled = true;
}
