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
    void          *home;   /* compute dtype: the whole row, or this rank's part      */
    void          *sum;    /* reduced gradient: the whole row, or the part           */
    void          *master; /* by the optimizer's place; inside home if of one type   */
    void          *slots[CS_OPTIM_SLOTS];
    float         *norms;  /* whole, one parameter of a norm behind the other; NULL: home has them */
    int            users; /* of the gathered whole                                */
    cs_row        *value_row, *grad_row;
    cs_event       gathered;
    void          *reducing; /* the row that reduce_part works on */
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

static void *at(void *row, cs_dtype dtype, int64_t element)
{
    return (char *)row + (size_t)element * cs_dtype_bytes(dtype);
}

static void *home_at(const cs_shard *shard, int64_t element)
{
    int64_t from = shard->zero->stage.params == CS_SHARDED ? shard->part.from : 0;
    return at(shard->home, shard->zero->precision.values, element - from);
}

static void *sum_at(const cs_shard *shard, int64_t element)
{
    int64_t from = shard->zero->stage.grads == CS_SHARDED ? shard->part.from : 0;
    return at(shard->sum, shard->zero->precision.sums, element - from);
}

static void *master_at(const cs_shard *shard, int64_t element)
{
    return at(shard->master, shard->zero->precision.masters, element - optim_from(shard));
}

static cs_range optim_range(const cs_shard *shard)
{
    return (cs_range){ optim_from(shard), optim_from(shard) + optim_count(shard) };
}

static void *slot_at(const cs_shard *shard, int slot, int64_t element)
{
    cs_range before = { optim_from(shard), element };
    return at(shard->slots[slot], shard->zero->precision.slots,
              cs_stage_slot_share(shard->zero, shard->unit, before, slot));
}

static int64_t slot_count(const cs_shard *shard, int slot)
{
    return cs_stage_slot_share(shard->zero, shard->unit, optim_range(shard), slot);
}

static const cs_optimizer *optimizer_of(const cs_shard *shard, const cs_unit_entry *entry)
{
    return &shard->zero->groups->group[entry->group].optimizer;
}

/* This rank's elements of a parameter, in the row. */
static cs_range own_of(const cs_shard *shard, const cs_unit_entry *entry)
{
    return cs_range_overlap(optim_range(shard), (cs_range){ entry->offset, entry->offset + entry->count });
}

/* Backward adds to the sum itself; else to a row of the pool, which is then reduced or added. */
static bool sums_in_place(const cs_shard *shard)
{
    return shard->zero->stage.grads == CS_REPLICATED && shard->zero->precision.sums == CS_F32;
}

/* What collectives touch lies in comm's memory, so that they work in place; the rest is the device's own. */
static void take_memory(cs_shard *shard)
{
    const cs_zero *zero  = shard->zero;
    cs_precision   types = zero->precision;
    int64_t        home  = cs_stage_share(zero, zero->stage.params, shard->padded);
    int64_t        sum   = cs_stage_share(zero, zero->stage.grads, shard->padded);
    size_t         optim = (size_t)optim_count(shard), norms = (size_t)cs_stage_norms(zero, shard->unit);
    shard->home          = cs_comm_alloc(zero->comm, (size_t)home * cs_dtype_bytes(types.values));
    shard->sum           = cs_comm_alloc(zero->comm, (size_t)sum * cs_dtype_bytes(types.sums));
    if (norms)
        shard->norms = cs_comm_alloc(zero->comm, norms * sizeof(float));
    shard->master = cs_stage_one_copy(zero) ? home_at(shard, optim_from(shard))
                                            : cs_device_alloc(zero->device, optim * cs_dtype_bytes(types.masters));
    for (int i = 0; i < zero->optimizer.slots; i++)
        shard->slots[i] = cs_device_alloc(zero->device, (size_t)slot_count(shard, i) * cs_dtype_bytes(types.slots));
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
        (*shard)->home = (*shard)->sum = (*shard)->norms = (void *)((uintptr_t)1 << 44); /* not to be touched */
    else
        take_memory(*shard);
    return CS_OK;
}

void cs_shard_close(cs_shard *shard)
{
    if (!shard)
        return;
    if (!measuring(shard)) {
        if (!cs_stage_one_copy(shard->zero))
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
                       shard->zero->precision.values);
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

/* Points the unit's parameters into the whole row, those of norms into their own; NULL: away. */
static void attach_values(cs_shard *shard, void *whole)
{
    int64_t place = 0;
    cs_unit_attach_values(shard->unit, whole, shard->zero->precision.values);
    for (int i = 0; shard->zero->precision.wide_norms && i < shard->unit->entry_count; i++) {
        cs_unit_entry *entry = shard->unit->entries[i];
        if (!entry->param.norm)
            continue;
        entry->param.value.data  = whole ? shard->norms + place : NULL;
        entry->param.value.dtype = CS_F32;
        place += entry->count;
    }
}

void cs_shard_await(cs_shard *shard)
{
    CS_ASSERT(shard->users > 0);
    void *whole = shard->value_row ? cs_pool_data(shard->value_row) : shard->home;
    if (shard->value_row && !measuring(shard))
        cs_stream_wait(stream(shard, CS_COMPUTE), shard->gathered);
    attach_values(shard, whole);
}

void cs_shard_release(cs_shard *shard)
{
    CS_ASSERT(shard->users > 0);
    if (--shard->users > 0)
        return;
    attach_values(shard, NULL);
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
    if (!sums_in_place(shard)) {
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

/* The first micro-batch's gradient sets the sum, a later one's is added. */
static void put(cs_shard *shard, cs_tensor sum, cs_tensor gradient)
{
    if (shard->micro == CS_FIRST_MICRO_BATCH)
        cs_state_convert(stream(shard, CS_COMM), sum, gradient, 1);
    else
        cs_state_add(stream(shard, CS_COMM), sum, gradient);
}

/* An fp32 row takes another type where it lies, times what gradients are multiplied by before they travel. */
static void pack(cs_shard *shard, void *row, cs_dtype dtype)
{
    float before = shard->zero->before;
    if (dtype != CS_F32 || before != 1)
        cs_state_convert(stream(shard, CS_COMM), cs_vector(row, dtype, shard->padded),
                         cs_vector(row, CS_F32, shard->padded), before);
}

static void keep_whole(void *argument)
{
    cs_shard *shard = argument;
    pack(shard, shard->reducing, CS_F32);
    put(shard, cs_vector(shard->sum, shard->zero->precision.sums, shard->padded),
        cs_vector(shard->reducing, CS_F32, shard->padded));
}

static void reduce_part(void *argument)
{
    cs_shard    *shard    = argument;
    cs_precision types    = shard->zero->precision;
    int64_t      count    = cs_range_length(shard->part);
    bool         straight = shard->micro == CS_FIRST_MICRO_BATCH && types.wire == types.sums;
    void        *own      = at(shard->reducing, types.wire, shard->part.from);
    pack(shard, shard->reducing, types.wire);
    cs_comm_reduce_scatter(shard->zero->comm, straight ? shard->sum : own, shard->reducing, count, types.wire, CS_SUM);
    if (!straight)
        put(shard, cs_vector(shard->sum, types.sums, count), cs_vector(own, types.wire, count));
}

void cs_shard_reduce(cs_shard *shard, cs_micro micro)
{
    cs_unit_attach_grads(shard->unit, NULL);
    if (sums_in_place(shard))
        return;
    if (!measuring(shard)) {
        if (shard->reduced.stream) /* the micro-batch before: its job is told by the same fields */
            cs_stream_wait(stream(shard, CS_COMPUTE), shard->reduced);
        shard->reducing = cs_pool_data(shard->grad_row);
        shard->micro    = micro;
        cs_stream_wait(stream(shard, CS_COMM), cs_stream_record(stream(shard, CS_COMPUTE)));
        cs_stream_call(stream(shard, CS_COMM), shard->zero->stage.grads == CS_SHARDED ? reduce_part : keep_whole,
                       shard);
        shard->reduced = cs_stream_record(stream(shard, CS_COMM));
    }
    cs_pool_return(shard->grads_pool, shard->grad_row, shard->reduced);
    shard->grad_row = NULL;
}

static void reduce_whole(void *argument)
{
    cs_shard    *shard   = argument;
    cs_comm     *comm    = shard->zero->comm;
    cs_precision types   = shard->zero->precision;
    bool         sharded = shard->zero->stage.optim == CS_SHARDED;
    cs_range     mine    = sharded ? shard->part : (cs_range){ 0, shard->padded };
    int64_t      count   = cs_range_length(mine);
    void        *own     = at(shard->sum, types.wire, mine.from);
    if (sums_in_place(shard))
        pack(shard, shard->sum, types.wire);
    if (sharded)
        cs_comm_reduce_scatter(comm, own, shard->sum, count, types.wire, CS_SUM);
    else
        cs_comm_all_reduce(comm, shard->sum, count, types.wire, CS_SUM);
    if (types.wire != types.sums)
        cs_state_convert(stream(shard, CS_COMM), cs_vector(at(shard->sum, types.sums, mine.from), types.sums, count),
                         cs_vector(own, types.wire, count), 1);
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
    cs_tensor own = cs_vector(sum_at(shard, shard->part.from), shard->zero->precision.sums, cs_range_length(shard->part));
    cs_state_sum_squares(stream(shard, CS_COMPUTE), sum, own, 0, unscale);
}

static void update_narrow(cs_shard *shard, cs_range range, const cs_optimizer *optimizer, cs_hyper hyper)
{
    const cs_zero  *zero  = shard->zero;
    cs_precision    types = zero->precision;
    int64_t         count = cs_range_length(range);
    cs_state_narrow state = { .master   = cs_vector(master_at(shard, range.from), types.masters, count),
                              .gradient = cs_vector(sum_at(shard, range.from), types.sums, count) };
    for (int i = 0; i < optimizer->slots; i++)
        state.slots[i] = cs_vector(slot_at(shard, i, range.from), types.slots, count);
    if (!cs_stage_one_copy(zero))
        state.publish = cs_vector(home_at(shard, range.from), types.values, count);
    cs_state_update_narrow(stream(shard, CS_COMPUTE), optimizer, hyper, &state);
}

/* Elements `range` of the row, all of one parameter. */
static void update_range(cs_shard *shard, cs_range range, const cs_optimizer *optimizer, cs_hyper hyper)
{
    const cs_zero *zero  = shard->zero;
    cs_precision   types = zero->precision;
    if (types.masters != CS_F32 || types.slots != CS_F32 || types.sums != CS_F32) {
        update_narrow(shard, range, optimizer, hyper);
        return;
    }
    cs_state_span span = {
        .master   = master_at(shard, range.from),
        .gradient = sum_at(shard, range.from),
        .publish  = cs_stage_one_copy(zero) || optimizer->directs ? NULL : home_at(shard, range.from),
        .dtype    = types.values,
        .count    = cs_range_length(range),
    };
    for (int i = 0; i < optimizer->slots; i++)
        span.slots[i] = slot_at(shard, i, range.from);
    cs_state_update(stream(shard, CS_COMPUTE), optimizer, hyper, span);
}

/* This rank's elements of the norms, as fp32; others' are zero bits until they are spread. */
static void take_norms(cs_shard *shard)
{
    cs_range mine  = { optim_from(shard), optim_from(shard) + optim_count(shard) };
    int64_t  place = 0;
    if (!shard->norms)
        return;
    cs_op_fill(stream(shard, CS_COMPUTE), cs_vector(shard->norms, CS_F32, cs_stage_norms(shard->zero, shard->unit)), 0);
    for (int i = 0; i < shard->unit->entry_count; i++) {
        cs_unit_entry *entry = shard->unit->entries[i];
        cs_range       range = cs_range_overlap(mine, (cs_range){ entry->offset, entry->offset + entry->count });
        int64_t        count = cs_range_length(range);
        if (!entry->param.norm)
            continue;
        if (count > 0)
            cs_op_cast(stream(shard, CS_COMPUTE),
                       cs_vector(shard->norms + place + (range.from - entry->offset), CS_F32, count),
                       cs_vector(master_at(shard, range.from), shard->zero->precision.masters, count));
        place += entry->count;
    }
}

const cs_unit *cs_shard_unit(const cs_shard *shard)
{
    return shard->unit;
}

void cs_shard_move(cs_shard *shard, int entry, const cs_optimizer *optimizer, cs_hyper hyper)
{
    cs_range range = own_of(shard, shard->unit->entries[entry]);
    if (cs_range_length(range) > 0)
        update_range(shard, range, optimizer, hyper);
}

void cs_shard_norms(cs_shard *shard, int entry, cs_exact sums[2])
{
    const cs_unit_entry *from  = shard->unit->entries[entry];
    cs_precision         types = shard->zero->precision;
    cs_range range = cs_range_overlap(shard->part, (cs_range){ from->offset, from->offset + from->count });
    int64_t  count = cs_range_length(range), lead = range.from % CS_ZERO_ALIGN;
    if (count == 0)
        return;
    cs_state_sum_squares(stream(shard, CS_COMPUTE), &sums[0],
                         cs_vector(master_at(shard, range.from), types.masters, count), lead, 1);
    cs_state_sum_squares(stream(shard, CS_COMPUTE), &sums[1], cs_vector(sum_at(shard, range.from), types.sums, count),
                         lead, 1);
}

static void collect(void *argument)
{
    cs_shard *shard = argument;
    cs_comm_all_gather(shard->zero->comm, shard->reducing, sum_at(shard, shard->part.from),
                       cs_range_length(shard->part), CS_F32);
}

/* Where gradients are replicated the sum is a whole row itself, of which this rank's part is good. */
float *cs_shard_collect(cs_shard *shard)
{
    shard->reducing = shard->sum;
    if (shard->zero->stage.grads == CS_SHARDED) {
        shard->grad_row = cs_pool_borrow(shard->grads_pool, shard->padded);
        shard->reducing = cs_pool_data(shard->grad_row);
        if (cs_pool_after(shard->grad_row).stream)
            cs_stream_wait(stream(shard, CS_COMM), cs_pool_after(shard->grad_row));
    }
    if (shard->zero->stage.optim == CS_SHARDED) {
        cs_stream_wait(stream(shard, CS_COMM), cs_stream_record(stream(shard, CS_COMPUTE)));
        cs_stream_call(stream(shard, CS_COMM), collect, shard);
        cs_stream_wait(stream(shard, CS_COMPUTE), cs_stream_record(stream(shard, CS_COMM)));
    }
    return shard->reducing;
}

static void distribute(void *argument)
{
    cs_shard *shard = argument;
    cs_comm  *comm  = shard->zero->comm;
    if (shard->zero->stage.optim == CS_SHARDED)
        cs_comm_reduce_scatter(comm, sum_at(shard, shard->part.from), shard->reducing, cs_range_length(shard->part),
                               CS_F32, CS_SUM);
    else
        cs_comm_all_reduce(comm, shard->reducing, shard->padded, CS_F32, CS_SUM);
}

void cs_shard_distribute(cs_shard *shard)
{
    cs_stream_wait(stream(shard, CS_COMM), cs_stream_record(stream(shard, CS_COMPUTE)));
    cs_stream_call(stream(shard, CS_COMM), distribute, shard);
    cs_event done = cs_stream_record(stream(shard, CS_COMM));
    cs_stream_wait(stream(shard, CS_COMPUTE), done);
    if (shard->grad_row)
        cs_pool_return(shard->grads_pool, shard->grad_row, done);
    shard->grad_row = NULL;
}

static void spread_values(void *argument)
{
    cs_shard *shard = argument;
    cs_comm_all_gather(shard->zero->comm, shard->home, home_at(shard, shard->part.from), cs_range_length(shard->part),
                       shard->zero->precision.values);
}

/* An element has one owner, and the others' zero bits leave its own as they are. */
static void spread_norms(void *argument)
{
    cs_shard *shard = argument;
    cs_comm_all_reduce(shard->zero->comm, shard->norms, cs_stage_norms(shard->zero, shard->unit), CS_I32, CS_SUM);
}

/* The update itself wrote this rank's values in the compute dtype; the others' follow here. */
void cs_shard_publish(cs_shard *shard)
{
    take_norms(shard);
    cs_stream_wait(stream(shard, CS_COMM), cs_stream_record(stream(shard, CS_COMPUTE)));
    if (shard->zero->stage.params == CS_REPLICATED && shard->zero->stage.optim == CS_SHARDED)
        cs_stream_call(stream(shard, CS_COMM), spread_values, shard);
    if (shard->norms && shard->zero->stage.optim == CS_SHARDED)
        cs_stream_call(stream(shard, CS_COMM), spread_norms, shard);
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
        cs_shard_piece piece = { entry,
                                 { range.from - entry->offset, range.to - entry->offset },
                                 master_at(shard, range.from),
                                 sum_at(shard, range.from),
                                 { 0 } };
        for (int slot = 0; slot < optimizer_of(shard, entry)->slots; slot++)
            piece.slots[slot] = slot_at(shard, slot, range.from);
        pieces[count++] = piece;
    }
    return count;
}

/* To what they are before the first step; memory that is new is zero already. */
static void set_slots(cs_shard *shard, bool new)
{
    for (int i = 0; i < shard->unit->entry_count; i++) {
        const cs_unit_entry *entry     = shard->unit->entries[i];
        const cs_optimizer  *optimizer = optimizer_of(shard, entry);
        cs_range             range     = own_of(shard, entry);
        for (int slot = 0; slot < optimizer->slots && !(new && optimizer->first_value == 0); slot++)
            cs_op_fill(
                stream(shard, CS_COMPUTE),
                cs_vector(slot_at(shard, slot, range.from), shard->zero->precision.slots, cs_range_length(range)),
                optimizer->first_value);
    }
}

void cs_shard_init(cs_shard *shard, uint64_t seed)
{
    cs_shard_piece *pieces = malloc((size_t)shard->unit->entry_count * sizeof *pieces + 1);
    if (!pieces)
        cs_fatal(CS_NO_MEMORY, "out of memory for a unit's first values");
    int count = cs_shard_pieces(shard, pieces);
    for (int i = 0; i < count; i++) {
        cs_unit_entry *entry = pieces[i].entry;
        int64_t        items = cs_range_length(pieces[i].range);
        bool           wide  = shard->zero->precision.masters == CS_F32;
        float *values = wide ? pieces[i].master : cs_device_alloc(shard->zero->device, (size_t)items * sizeof(float));
        cs_state_init(stream(shard, CS_COMPUTE), values, entry->param.init, cs_rng_key(seed, entry->full_name),
                      pieces[i].range.from, items);
        if (wide)
            continue;
        cs_op_cast(stream(shard, CS_COMPUTE), cs_vector(pieces[i].master, shard->zero->precision.masters, items),
                   cs_vector(values, CS_F32, items));
        cs_device_free(shard->zero->device, values);
    }
    free(pieces);
    set_slots(shard, true);
    cs_shard_spread(shard);
}

void cs_shard_forget(cs_shard *shard)
{
    set_slots(shard, false);
}

static void spread_row(cs_shard *shard, void *row, cs_dtype dtype)
{
    cs_comm_all_gather(shard->zero->comm, row, at(row, dtype, shard->part.from), cs_range_length(shard->part), dtype);
}

/* Slots that some parameters lack have parts of unequal length: what they hold takes its place in a whole row
 * meanwhile. */
static void spread_slot(cs_shard *shard, int slot)
{
    cs_dtype dtype = shard->zero->precision.slots;
    if (slot_count(shard, slot) == shard->padded) {
        spread_row(shard, shard->slots[slot], dtype);
        return;
    }
    void *row = cs_device_alloc(shard->zero->device, (size_t)shard->padded * cs_dtype_bytes(dtype));
    for (int back = 0; back < 2; back++) {
        for (int i = 0; i < shard->unit->entry_count; i++) {
            const cs_unit_entry *entry = shard->unit->entries[i];
            if (slot >= optimizer_of(shard, entry)->slots)
                continue;
            cs_tensor own  = cs_vector(slot_at(shard, slot, entry->offset), dtype, entry->count);
            cs_tensor seat = cs_vector(at(row, dtype, entry->offset), dtype, entry->count);
            cs_op_cast(stream(shard, CS_COMPUTE), back ? own : seat, back ? seat : own);
        }
        if (!back)
            spread_row(shard, row, dtype);
    }
    cs_device_free(shard->zero->device, row);
}

void cs_shard_spread(cs_shard *shard)
{
    const cs_zero *zero = shard->zero;
    if (zero->stage.optim == CS_REPLICATED) {
        spread_row(shard, shard->master, zero->precision.masters);
        for (int i = 0; i < zero->optimizer.slots; i++)
            spread_slot(shard, i);
    }
    if (!cs_stage_one_copy(zero))
        cs_op_cast(stream(shard, CS_COMPUTE),
                   cs_vector(home_at(shard, optim_from(shard)), zero->precision.values, optim_count(shard)),
                   cs_vector(shard->master, zero->precision.masters, optim_count(shard)));
    if (zero->stage.params == CS_REPLICATED && zero->stage.optim == CS_SHARDED)
        spread_values(shard);
    take_norms(shard);
    if (shard->norms && zero->stage.optim == CS_SHARDED)
        spread_norms(shard);
}
