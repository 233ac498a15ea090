/* shard.c - gather await release reduce update publish, and opening: what each place makes of each verb (zero.h has the
 * table).
 *
 * While the engine measures (zero->comm is NULL) nothing is fetched, sent or allocated; pools count. */
#include "zero/zero.h"
#include "base/must.h"

#include <stdlib.h>

struct cs_shard {
    const cs_zero *zero;
    cs_unit       *unit;
    cs_pool       *values_pool, *grads_pool;
    int64_t        padded;
    cs_range       part;   /* of the row this rank owns                            */
    void          *home;   /* compute dtype: the whole row, or this rank's part    */
    float         *sum;    /* reduced gradient: the whole row, or the part         */
    float         *master; /* by the optimizer's place; inside home in fp32       */
    float         *slots[CS_OPTIM_SLOTS];
    int            users; /* of the gathered whole                                */
    cs_row        *value_row, *grad_row;
    cs_event       gathered;
    float         *reducing; /* the row that reduce_part works on */
    cs_micro       micro;    /* and of which micro-batch          */
    cs_event       reduced;
};

static bool measuring(const cs_shard *shard)
{
    return shard->zero->comm == NULL;
}

static cs_stream *stream(const cs_shard *shard, cs_stream_role role)
{
    return cs_device_stream(shard->zero->device, role);
}

static int64_t optim_count(const cs_shard *shard)
{
    return cs_stage_share(shard->zero, shard->zero->stage.optim, shard->padded);
}

/* The row's element at which master and slots begin. */
static int64_t optim_from(const cs_shard *shard)
{
    return shard->zero->stage.optim == CS_SHARDED ? shard->part.from : 0;
}

static char *home_at(const cs_shard *shard, int64_t element)
{
    int64_t from = shard->zero->stage.params == CS_SHARDED ? shard->part.from : 0;
    return (char *)shard->home + (size_t)(element - from) * cs_dtype_bytes(shard->zero->dtype);
}

static float *sum_at(const cs_shard *shard, int64_t element)
{
    return shard->sum + (shard->zero->stage.grads == CS_SHARDED ? element - shard->part.from : element);
}

/* What collectives touch lies in comm's memory, so that they work in place; the rest is the device's own. */
static void take_memory(cs_shard *shard)
{
    const cs_zero *zero  = shard->zero;
    int64_t        home  = cs_stage_share(zero, zero->stage.params, shard->padded);
    int64_t        sum   = cs_stage_share(zero, zero->stage.grads, shard->padded);
    size_t         optim = (size_t)optim_count(shard) * sizeof(float);
    shard->home          = cs_comm_alloc(zero->comm, (size_t)home * cs_dtype_bytes(zero->dtype));
    shard->sum           = cs_comm_alloc(zero->comm, (size_t)sum * sizeof(float));
    shard->master        = zero->dtype == CS_F32 ? (float *)(void *)home_at(shard, optim_from(shard))
                                                 : cs_device_alloc(zero->device, optim);
    for (int i = 0; i < zero->optimizer.slots; i++)
        shard->slots[i] = cs_device_alloc(zero->device, optim);
}

cs_status cs_shard_open(cs_shard **shard, const cs_zero *zero, cs_unit *unit, cs_pool *values, cs_pool *grads)
{
    *shard = calloc(1, sizeof **shard);
    if (!*shard)
        return cs_fail(CS_NO_MEMORY, "out of memory for a shard");
    (*shard)->zero        = zero;
    (*shard)->unit        = unit;
    (*shard)->values_pool = values;
    (*shard)->grads_pool  = grads;
    (*shard)->padded      = cs_stage_padded(zero, unit->length);
    (*shard)->part        = cs_stage_part(zero, (*shard)->padded);
    if (measuring(*shard))
        (*shard)->home = (*shard)->sum = (void *)((uintptr_t)1 << 44); /* not to be touched */
    else
        take_memory(*shard);
    return CS_OK;
}

void cs_shard_close(cs_shard *shard)
{
    if (!shard)
        return;
    if (!measuring(shard)) {
        if (shard->zero->dtype != CS_F32)
            cs_device_free(shard->zero->device, shard->master);
        for (int i = 0; i < shard->zero->optimizer.slots; i++)
            cs_device_free(shard->zero->device, shard->slots[i]);
    }
    free(shard);
}

/* ---- parameters ---- */

static void fetch(void *argument)
{
    cs_shard *shard = argument;
    cs_comm_all_gather(shard->zero->comm, cs_pool_data(shard->value_row), shard->home, cs_range_length(shard->part),
                       shard->zero->dtype);
}

void cs_shard_gather(cs_shard *shard)
{
    if (shard->users++ > 0 || shard->zero->stage.params == CS_REPLICATED)
        return;
    CS_ASSERT(!shard->value_row);
    shard->value_row = cs_pool_borrow(shard->values_pool, shard->padded);
    if (measuring(shard))
        return;
    cs_event last_use = cs_pool_after(shard->value_row);
    if (last_use.stream)
        cs_stream_wait(stream(shard, CS_COMM), last_use);
    cs_stream_call(stream(shard, CS_COMM), fetch, shard);
    shard->gathered = cs_stream_record(stream(shard, CS_COMM));
}

void cs_shard_await(cs_shard *shard)
{
    CS_ASSERT(shard->users > 0);
    void *whole = shard->value_row ? cs_pool_data(shard->value_row) : shard->home;
    if (shard->value_row && !measuring(shard))
        cs_stream_wait(stream(shard, CS_COMPUTE), shard->gathered);
    cs_unit_attach_values(shard->unit, whole, shard->zero->dtype);
}

void cs_shard_release(cs_shard *shard)
{
    CS_ASSERT(shard->users > 0);
    if (--shard->users > 0)
        return;
    cs_unit_attach_values(shard->unit, NULL, shard->zero->dtype);
    if (!shard->value_row)
        return;
    cs_pool_return(shard->values_pool, shard->value_row, cs_stream_record(stream(shard, CS_COMPUTE)));
    shard->value_row = NULL;
}

/* ---- gradients ---- */

void cs_shard_grads(cs_shard *shard, cs_micro micro)
{
    if (shard->grad_row)
        return; /* lent: a borrower's backward opened it already */
    float *whole = shard->sum;
    bool   clear = micro == CS_FIRST_MICRO_BATCH;
    if (shard->zero->stage.grads == CS_SHARDED) {
        shard->grad_row = cs_pool_borrow(shard->grads_pool, shard->padded);
        whole           = cs_pool_data(shard->grad_row);
        clear           = true;
        if (!measuring(shard) && cs_pool_after(shard->grad_row).stream)
            cs_stream_wait(stream(shard, CS_COMPUTE), cs_pool_after(shard->grad_row));
    } else if (shard->unit->entries && shard->unit->entries[0]->param.grad.data) {
        return;
    }
    cs_unit_attach_grads(shard->unit, whole);
    if (clear && !measuring(shard))
        cs_op_fill(stream(shard, CS_COMPUTE), cs_vector(whole, CS_F32, shard->padded), 0);
}

static void reduce_part(void *argument)
{
    cs_shard *shard = argument;
    float    *whole = shard->reducing;
    int64_t   count = cs_range_length(shard->part);
    float    *into  = shard->micro == CS_FIRST_MICRO_BATCH ? shard->sum : whole + shard->part.from;
    cs_comm_reduce_scatter(shard->zero->comm, into, whole, count, CS_F32, CS_SUM);
    if (shard->micro == CS_LATER_MICRO_BATCH)
        cs_state_add(stream(shard, CS_COMM), shard->sum, into, count);
}

void cs_shard_reduce(cs_shard *shard, cs_micro micro)
{
    cs_unit_attach_grads(shard->unit, NULL);
    if (shard->zero->stage.grads == CS_REPLICATED)
        return;
    if (!measuring(shard)) {
        if (shard->reduced.stream) /* the micro-batch before: its job is told by the same fields */
            cs_stream_wait(stream(shard, CS_COMPUTE), shard->reduced);
        shard->reducing = cs_pool_data(shard->grad_row);
        shard->micro    = micro;
        cs_stream_wait(stream(shard, CS_COMM), cs_stream_record(stream(shard, CS_COMPUTE)));
        cs_stream_call(stream(shard, CS_COMM), reduce_part, shard);
        shard->reduced = cs_stream_record(stream(shard, CS_COMM));
    }
    cs_pool_return(shard->grads_pool, shard->grad_row, shard->reduced);
    shard->grad_row = NULL;
}

static void reduce_whole(void *argument)
{
    cs_shard *shard = argument;
    cs_comm  *comm  = shard->zero->comm;
    if (shard->zero->stage.optim == CS_SHARDED)
        cs_comm_reduce_scatter(comm, shard->sum + shard->part.from, shard->sum, cs_range_length(shard->part), CS_F32,
                               CS_SUM);
    else
        cs_comm_all_reduce(comm, shard->sum, shard->padded, CS_F32, CS_SUM);
}

void cs_shard_finish(cs_shard *shard)
{
    if (shard->zero->stage.grads == CS_SHARDED)
        return;
    cs_stream_wait(stream(shard, CS_COMM), cs_stream_record(stream(shard, CS_COMPUTE)));
    cs_stream_call(stream(shard, CS_COMM), reduce_whole, shard);
}

/* ---- optimizer ---- */

void cs_shard_sum_squares(cs_shard *shard, cs_exact *sum, double unscale)
{
    cs_state_sum_squares(stream(shard, CS_COMPUTE), sum, sum_at(shard, shard->part.from), cs_range_length(shard->part),
                         unscale);
}

/* Elements `range` of the row, all of one parameter. */
static void update_range(cs_shard *shard, cs_range range, cs_hyper hyper)
{
    const cs_zero *zero   = shard->zero;
    int64_t        offset = range.from - optim_from(shard);
    cs_state_span  span   = {
           .master   = shard->master + offset,
           .gradient = sum_at(shard, range.from),
           .publish  = zero->dtype == CS_F32 ? NULL : home_at(shard, range.from),
           .dtype    = zero->dtype,
           .count    = cs_range_length(range),
    };
    for (int i = 0; i < zero->optimizer.slots; i++)
        span.slots[i] = shard->slots[i] + offset;
    cs_state_update(stream(shard, CS_COMPUTE), &zero->optimizer, hyper, span);
}

void cs_shard_update(cs_shard *shard, cs_hyper hyper)
{
    cs_range mine  = { optim_from(shard), optim_from(shard) + optim_count(shard) };
    float    decay = hyper.decay;
    for (int i = 0; i < shard->unit->entry_count; i++) {
        cs_unit_entry *entry = shard->unit->entries[i];
        cs_range       range = cs_range_overlap(mine, (cs_range){ entry->offset, entry->offset + entry->count });
        hyper.decay          = entry->param.decay ? decay : 0;
        if (cs_range_length(range) > 0)
            update_range(shard, range, hyper);
    }
}

static void spread_values(void *argument)
{
    cs_shard *shard = argument;
    cs_comm_all_gather(shard->zero->comm, shard->home, home_at(shard, shard->part.from), cs_range_length(shard->part),
                       shard->zero->dtype);
}

/* The update itself wrote this rank's values in the compute dtype; the others' follow here. */
void cs_shard_publish(cs_shard *shard)
{
    if (shard->zero->stage.params == CS_REPLICATED && shard->zero->stage.optim == CS_SHARDED)
        cs_stream_call(stream(shard, CS_COMM), spread_values, shard);
}

/* ---- first values, checkpoints ---- */

int cs_shard_pieces(cs_shard *shard, cs_shard_piece *pieces)
{
    int count = 0;
    for (int i = 0; i < shard->unit->entry_count; i++) {
        cs_unit_entry *entry = shard->unit->entries[i];
        cs_range       range = cs_range_overlap(shard->part, (cs_range){ entry->offset, entry->offset + entry->count });
        if (cs_range_length(range) == 0)
            continue;
        int64_t        offset = range.from - optim_from(shard);
        cs_shard_piece piece  = { entry,
                                  { range.from - entry->offset, range.to - entry->offset },
                                  shard->master + offset,
                                  sum_at(shard, range.from),
                                  { 0 } };
        for (int slot = 0; slot < shard->zero->optimizer.slots; slot++)
            piece.slots[slot] = shard->slots[slot] + offset;
        pieces[count++] = piece;
    }
    return count;
}

void cs_shard_init(cs_shard *shard, uint64_t seed)
{
    cs_shard_piece *pieces = malloc((size_t)shard->unit->entry_count * sizeof *pieces + 1);
    if (!pieces)
        cs_fatal(CS_NO_MEMORY, "out of memory for a unit's first values");
    int count = cs_shard_pieces(shard, pieces);
    for (int i = 0; i < count; i++) {
        cs_unit_entry *entry = pieces[i].entry;
        cs_state_init(stream(shard, CS_COMPUTE), pieces[i].master, entry->param.init,
                      cs_rng_key(seed, entry->full_name), pieces[i].range.from, cs_range_length(pieces[i].range));
    }
    free(pieces);
    cs_shard_spread(shard);
}

void cs_shard_forget(cs_shard *shard)
{
    for (int i = 0; i < shard->zero->optimizer.slots; i++)
        cs_op_fill(stream(shard, CS_COMPUTE), cs_vector(shard->slots[i], CS_F32, optim_count(shard)), 0);
}

static void spread_row(cs_shard *shard, float *row)
{
    cs_comm_all_gather(shard->zero->comm, row, row + shard->part.from, cs_range_length(shard->part), CS_F32);
}

void cs_shard_spread(cs_shard *shard)
{
    const cs_zero *zero = shard->zero;
    if (zero->stage.optim == CS_REPLICATED) {
        spread_row(shard, shard->master);
        for (int i = 0; i < zero->optimizer.slots; i++)
            spread_row(shard, shard->slots[i]);
    }
    if (zero->dtype != CS_F32)
        cs_op_cast(stream(shard, CS_COMPUTE),
                   cs_vector(home_at(shard, optim_from(shard)), zero->dtype, optim_count(shard)),
                   cs_vector(shard->master, CS_F32, optim_count(shard)));
    if (zero->stage.params == CS_REPLICATED && zero->stage.optim == CS_SHARDED)
        spread_values(shard);
}
