/* average.c - cspeed.ema_decay: an exponential moving average of the trained parameters,
 *
 *     average = decay * average + (1 - decay) * parameter
 *
 * after each update that changes parameters; it begins as a copy of the parameters. A rank keeps the averages of those
 * elements that it saves, in fp32, so they are sharded at every stage. The rule of SGD computes them: its gradient is
 * -parameter, and its weight decay +average. */
#include "saving/saving.h"
#include "base/must.h"

struct ce_average {
    ce_shard_piece *piece;
    int64_t count, done; /* done: number of updates that the averages contain */
    void *memory;        /* in device memory: a ce_state_range for each piece, then the averages */
    float *first;        /* the averages of the first piece; those of the next piece follow */
    bool begun;          /* the averages have values */
};

static int64_t table_bytes(int64_t pieces)
{
    return ce_round_up(pieces * (int64_t)sizeof(ce_state_range), 64);
}

size_t ce_average_bytes(const ce_zero *zero, const cs_model *model)
{
    int64_t pieces = 0, elements = 0;
    for (int i = 0; i < model->count; i++) {
        const cs_unit *unit = model->units[i];
        ce_range own = ce_stage_own(zero, ce_stage_padded(zero, unit->length));
        for (int at = 0; at < unit->entry_count; at++) {
            ce_unit_entry *entry = unit->entries[at];
            ce_shard_piece divided[CE_PIECES_EACH];
            ce_range local = { own.from - entry->offset, own.to - entry->offset };
            int count = ce_shard_divide(divided, entry, ce_range_overlap(local, (ce_range){ 0, entry->count }));
            for (int k = 0; k < count; k++) {
                pieces += !divided[k].copy;
                elements += divided[k].copy ? 0 : ce_shard_span(&divided[k]);
            }
        }
    }
    return (size_t)(table_bytes(pieces) + elements * (int64_t)sizeof(float));
}

static void list_pieces(cs_engine *engine, ce_average *average)
{
    int64_t capacity = 0;
    for (int i = 0; i < engine->model->count; i++) {
        CE_FREED ce_shard_piece *some = ce_must_alloc(ce_shard_pieces_room(engine->shards[i]));
        int count = ce_shard_pieces(engine->shards[i], some);
        for (int at = 0; at < count; at++) {
            CE_MUST_HOLD(average->piece, capacity, average->count + 1);
            average->piece[average->count++] = some[at];
        }
    }
}

/* Writes the table of ranges, of which each has all elements of a piece. */
static void write_table(cs_engine *engine, const ce_average *average)
{
    CE_FREED ce_state_range *table = ce_must_alloc((size_t)average->count * sizeof *table + 1);
    cs_stream *stream = ce_device_stream(engine->device, CE_COMPUTE);
    for (int64_t i = 0; i < average->count; i++)
        table[i] = (ce_state_range){ .to = ce_shard_span(&average->piece[i]), .decays = 1 };
    ce_stream_copy(stream, average->memory, table, (size_t)average->count * sizeof *table);
    ce_stream_sync(stream);
}

ce_average *ce_average_open(cs_engine *engine)
{
    if (engine->settings->ema_decay <= 0 || engine->config->reads)
        return NULL;
    ce_average *average = ce_must_alloc(sizeof *average);
    list_pieces(engine, average);
    average->memory = ce_device_alloc(engine->device, ce_average_bytes(&engine->zero, engine->model));
    average->first = (float *)(void *)((char *)average->memory + table_bytes(average->count));
    write_table(engine, average);
    return average;
}

void ce_average_close(cs_engine *engine)
{
    ce_average *average = engine->saving->average;
    if (!average)
        return;
    ce_device_free(engine->device, average->memory);
    free(average->piece);
    free(average);
}

int64_t ce_average_pieces(const ce_average *average)
{
    return average ? average->count : 0;
}

const ce_shard_piece *ce_average_piece(const ce_average *average, int64_t index, void **data)
{
    float *at = average->first;
    for (int64_t i = 0; i < index; i++)
        at += ce_shard_span(&average->piece[i]);
    *data = at;
    return &average->piece[index];
}

/* Adds the parameters to the averages; with a `rate` of 1 the averages become the parameters. */
static void add(cs_engine *engine, const ce_average *average, double rate)
{
    const ce_optim_settings settings = { .kind = CE_OPTIM_SGD, .weight_decay = 1 };
    const ce_optimizer rule = ce_optim_find(&settings);
    cs_stream *stream = ce_device_stream(engine->device, CE_COMPUTE);
    const ce_state_range *table = average->memory;
    float *at = average->first;
    for (int64_t i = 0; i < average->count; i++) {
        int64_t count = ce_shard_span(&average->piece[i]);
        ce_state_rows rows = { .master = cs_vector(at, CS_F32, count),
                               .gradient = cs_vector(average->piece[i].master, average->piece[i].dtype, count),
                               .ranges = { table + i, 1, 0, ce_state_tiles((ce_range){ 0, count }) } };
        if (rate < 1)
            ce_state_update(stream, &rule, ce_optim_hyper(&settings, rate, 1, -1), &rows);
        else
            ce_state_convert(stream, rows.master, rows.gradient, 1);
        at += count;
    }
}

void ce_average_take(cs_engine *engine)
{
    ce_average *average = engine->saving->average;
    if (!average)
        return;
    ce_step_settle(engine);
    if (!average->begun)
        add(engine, average, 1);
    else if (engine->updates > average->done)
        add(engine, average, 1 - engine->settings->ema_decay);
    average->begun = true;
    average->done = engine->updates;
}

void ce_average_loaded(cs_engine *engine, bool begun)
{
    if (!engine->saving->average)
        return;
    engine->saving->average->begun = begun;
    engine->saving->average->done = engine->updates;
}
