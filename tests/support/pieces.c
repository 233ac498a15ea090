/* pieces.c - this rank's part of parameters, optimizer slots and gradients in host memory, for any device. */
#include "pieces.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 32 };

static char *memory; /* the copies in host memory */
static size_t used, capacity;

static void *copy_of(cs_engine *engine, const void *from, size_t bytes)
{
    if (!from)
        return NULL;
    ck_assert_uint_le(used + bytes, capacity);
    void *copy = memory + used;
    ce_stream_fetch(ce_device_stream(engine->device, CE_COMPUTE), copy, from, bytes);
    used += (bytes + 7) / 8 * 8;
    return copy;
}

static size_t bytes_of(const ce_shard_piece *piece, cs_dtype dtype)
{
    return (size_t)ce_shard_span(piece) * cs_dtype_bytes(dtype);
}

static int take(cs_engine *engine, int number, ce_shard_piece *pieces, bool copies)
{
    ce_precision types = engine->zero.precision;
    int count = (copies ? ce_shard_held_pieces : ce_shard_pieces)(engine->shards[number], pieces);
    ce_walk_settle(engine);
    if (!ce_device_has_own_memory(engine->device))
        return count;
    free(memory);
    used = capacity = 0;
    for (int at = 0; at < count; at++)
        capacity += (2 + 2 * CE_OPTIM_SLOTS) * (bytes_of(&pieces[at], CS_F32) + 8);
    memory = malloc(capacity + 1);
    ck_assert_ptr_nonnull(memory);
    for (int at = 0; at < count; at++) {
        ce_shard_piece *piece = &pieces[at];
        piece->master = copy_of(engine, piece->master, bytes_of(piece, types.masters));
        piece->gradient = copy_of(engine, piece->gradient, bytes_of(piece, types.sums));
        for (int slot = 0; slot < CE_OPTIM_SLOTS; slot++) {
            int64_t scales = ce_divide_up(ce_shard_span(piece), CE_OPTIM_BLOCK);
            piece->slots[slot] = copy_of(engine, piece->slots[slot], bytes_of(piece, piece->slot_dtype));
            piece->scales[slot] = copy_of(engine, piece->scales[slot], (size_t)scales * sizeof(float));
        }
    }
    return count;
}

int pieces_take(cs_engine *engine, int number, ce_shard_piece *pieces)
{
    return take(engine, number, pieces, false);
}

int64_t pieces_whole(const ce_shard_piece *piece, int64_t at)
{
    return ce_boxes_place(&piece->part, piece->entry->cut.whole, at);
}

int64_t pieces_index(const ce_shard_piece *piece, int64_t at)
{
    int64_t row = piece->part.size[piece->part.dims - 1];
    return piece->pitch ? at / row * piece->pitch + at % row : at - piece->range.from;
}

void pieces_put(cs_engine *engine, int number, const ce_shard_piece *pieces, int count)
{
    cs_stream *stream = ce_device_stream(engine->device, CE_COMPUTE);
    ce_shard_piece own[PIECES];
    int owned = ce_shard_held_pieces(engine->shards[number], own);
    for (int at = 0; at < owned; at++)
        for (int given = 0; given < count; given++)
            if (pieces[given].entry == own[at].entry && pieces[given].place == own[at].place &&
                pieces[given].master != own[at].master)
                ce_stream_copy(stream, own[at].master, pieces[given].master,
                               bytes_of(&own[at], engine->zero.precision.masters));
    ce_stream_sync(stream);
    ce_shard_spread(engine->shards[number]);
}

void pieces_set_all(cs_engine *engine, const float *(*value_of)(const ce_unit_entry *entry, const void *argument),
                    const void *argument)
{
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[PIECES];
        int count = take(engine, i, pieces, true);
        for (int p = 0; p < count; p++) {
            const float *values = value_of(pieces[p].entry, argument);
            for (int64_t at = pieces[p].range.from; at < pieces[p].range.to; at++)
                ((float *)pieces[p].master)[pieces_index(&pieces[p], at)] = values[pieces_whole(&pieces[p], at)];
        }
        pieces_put(engine, i, pieces, count);
    }
}
