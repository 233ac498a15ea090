/* pool.c - a pool of row buffers that units borrow in turn. */
#include "zero/zero.h"
#include "base/must.h"

#include <stdlib.h>

struct cs_row {
    int64_t length;
    void *data;
    bool out;
    cs_event after; /* done when the last use is over; stream NULL: never used */
};

struct cs_pool {
    size_t element_bytes;
    cs_row **rows; /* each is allocated separately, because borrowers keep the pointers */
    int count;
    bool settled;
};

cs_status cs_pool_open(cs_pool **pool, size_t element_bytes)
{
    *pool = calloc(1, sizeof **pool);
    if (!*pool)
        return cs_fail(CS_NO_MEMORY, "out of memory for a pool");
    (*pool)->element_bytes = element_bytes;
    return CS_OK;
}

void cs_pool_close(cs_pool *pool)
{
    if (!pool)
        return;
    for (int i = 0; i < pool->count; i++)
        free(pool->rows[i]);
    free(pool->rows);
    free(pool);
}

static cs_row *add(cs_pool *pool, int64_t length)
{
    cs_row *row = calloc(1, sizeof *row);
    cs_row **rows = realloc(pool->rows, (size_t)(pool->count + 1) * sizeof *rows);
    if (!row || !rows)
        cs_fatal(CS_NO_MEMORY, "out of memory for a pool's list of rows");
    row->length = length;
    row->data = (void *)((uintptr_t)1 << 45); /* an address that must not be accessed before cs_pool_settle */
    pool->rows = rows;
    pool->rows[pool->count++] = row;
    return row;
}

cs_row *cs_pool_borrow(cs_pool *pool, int64_t length)
{
    cs_row *row = NULL;
    for (int i = 0; i < pool->count && !row; i++)
        if (!pool->rows[i]->out && pool->rows[i]->length == length)
            row = pool->rows[i];
    if (!row) {
        CS_ASSERT(!pool->settled);
        row = add(pool, length);
    }
    row->out = true;
    return row;
}

void *cs_pool_data(cs_row *row)
{
    return row->data;
}

cs_event cs_pool_after(const cs_row *row)
{
    return row->after;
}

void cs_pool_return(cs_pool *pool, cs_row *row, cs_event after)
{
    (void)pool;
    CS_ASSERT(row->out);
    row->out = false;
    row->after = after;
}

size_t cs_pool_bytes(const cs_pool *pool)
{
    size_t bytes = 0;
    for (int i = 0; i < pool->count; i++)
        bytes += (size_t)pool->rows[i]->length * pool->element_bytes;
    return bytes;
}

void cs_pool_settle(cs_pool *pool, cs_comm *comm)
{
    CS_ASSERT(!pool->settled);
    for (int i = 0; i < pool->count; i++) {
        CS_ASSERT(!pool->rows[i]->out);
        pool->rows[i]->data = cs_comm_alloc(comm, (size_t)pool->rows[i]->length * pool->element_bytes);
        pool->rows[i]->after = (cs_event){ 0 };
    }
    pool->settled = true;
}
