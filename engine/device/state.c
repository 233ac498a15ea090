/* state.c - operations on flat state: the arguments are checked here, then the device's function is called. */
#include "device/table.h"
#include "base/must.h"

void ce_state_sum_squares(cs_stream *stream, ce_exact *sum, cs_tensor g, int64_t lead, double unscale)
{
    CE_ASSERT(g.dtype <= CS_F16 && lead >= 0 && lead < 64);
    if (stream->device->table->sum_squares)
        stream->device->table->sum_squares(stream, sum, g, lead, unscale);
}

void ce_state_sum(cs_stream *stream, ce_exact *sum, const float *values, int64_t count)
{
    CE_ASSERT(count >= 0);
    if (stream->device->table->sum)
        stream->device->table->sum(stream, sum, values, count);
}

void ce_state_add_counts(cs_stream *stream, int64_t *sums, const int32_t *counts, int64_t count)
{
    if (stream->device->table->add_counts && count > 0)
        stream->device->table->add_counts(stream, sums, counts, count);
}

void ce_state_judge(cs_stream *stream, ce_verdict *verdict, const ce_step_sums *words, const ce_step_terms *terms)
{
    if (stream->device->table->judge)
        stream->device->table->judge(stream, verdict, words, terms);
}

void ce_state_seed(cs_stream *stream, cs_tensor dy, const double *scale, double divisor)
{
    CE_ASSERT(dy.dtype <= CS_F16 && divisor > 0);
    if (stream->device->table->seed)
        stream->device->table->seed(stream, dy, scale, divisor);
}

void ce_state_preference(cs_stream *stream, const ce_preference_rows *rows)
{
    int64_t pairs = cs_columns(rows->facts), targets = cs_count(rows->targets);
    CE_ASSERT(rows->facts.dtype == CS_F32 && cs_rows(rows->facts) == CE_PREFERENCE_FACTS);
    CE_ASSERT(rows->targets.dtype == CS_I32 && cs_rows(rows->targets) == CE_ANSWERS * pairs);
    CE_ASSERT(rows->losses.dtype == CS_F32 && cs_count(rows->losses) == targets);
    CE_ASSERT(!rows->references.data || cs_count(rows->references) == CE_ANSWERS * pairs);
    CE_ASSERT(!rows->weights.data || cs_count(rows->weights) == targets);
    if (stream->device->table->preference)
        stream->device->table->preference(stream, rows);
}

void ce_state_add(cs_stream *stream, cs_tensor into, cs_tensor from)
{
    CE_ASSERT(into.dtype <= CS_F16 && from.dtype <= CS_F16 && cs_count(into) == cs_count(from));
    if (stream->device->table->add)
        stream->device->table->add(stream, into, into, from);
}

void ce_state_convert(cs_stream *stream, cs_tensor to, cs_tensor from, float factor)
{
    CE_ASSERT(to.dtype <= CS_F16 && from.dtype <= CS_F16 && cs_count(to) == cs_count(from));
    CE_ASSERT(to.data != from.data || cs_dtype_bytes(to.dtype) == cs_dtype_bytes(from.dtype));
    if (stream->device->table->convert)
        stream->device->table->convert(stream, to, from, factor);
}

int64_t ce_state_tiles(ce_range elements)
{
    if (ce_range_length(elements) == 0)
        return 0;
    return ce_divide_up(elements.to, CE_STATE_TILE) - elements.from / CE_STATE_TILE;
}

void ce_state_update(cs_stream *stream, const ce_optimizer *optimizer, ce_hyper hyper, const ce_state_rows *rows)
{
    CE_ASSERT(cs_count(rows->master) == cs_count(rows->gradient) && rows->ranges.count >= 0);
    CE_ASSERT(rows->ranges.tiles >= 0 && rows->ranges.tiles <= INT32_MAX);
    for (int slot = 0; slot < optimizer->slots; slot++)
        CE_ASSERT(rows->slots[slot].data || rows->ranges.tiles == 0);
    if (stream->device->table->update && rows->ranges.tiles > 0)
        stream->device->table->update(stream, optimizer, hyper, rows);
}

void ce_state_init(cs_stream *stream, float *out, cs_init init, uint64_t key, ce_state_places places, int64_t count)
{
    CE_ASSERT(count >= 0 && places.from >= 0 && places.run >= 0);
    CE_ASSERT(places.run == 0 || places.stride >= places.run);
    if (stream->device->table->init)
        stream->device->table->init(stream, out, init, key, places, count);
}
