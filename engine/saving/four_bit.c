/* four_bit.c - sets the 4-bit weights of a unit: quantises the numbers that a model's folder has while it reads them, so
 * that no rank ever holds a whole model in numbers, or copies the bytes of a folder that is quantised already.
 *
 * A rank reads a weight if it holds bytes of it. The codes of a block depend on the block alone. The quantised absmax
 * depend on all blocks of the weight, so a rank that holds some of their bytes reads the whole weight. What is written
 * therefore depends neither on the number of ranks nor on the ZeRO stage. */
#include "base/four_bit.h"
#include "base/log.h"
#include "base/must.h"
#include "interchange/four_bit.h"
#include "saving/saving.h"

#include <string.h>

enum { WINDOW = 1 << 20 }; /* elements that are read at once */

/* The bytes of one weight that this rank holds. The piece of an array is NULL if the rank holds none of its bytes. */
typedef struct {
    cs_engine *engine;
    ce_source *source;
    int64_t tensor;
    const ce_four_bit_weight *weight;
    const ce_shard_piece *piece[CE_FOUR_BIT_ARRAYS];
} load;

/* Copies those of the bytes `range` of an array that this rank holds. */
static void put(const load *l, ce_four_bit_array array, const void *bytes, ce_range range)
{
    const ce_shard_piece *piece = l->piece[array];
    ce_range both = ce_range_overlap(piece ? piece->range : (ce_range){ 0, 0 }, range);
    cs_stream *stream = ce_device_stream(l->engine->device, CE_COMPUTE);
    if (ce_range_length(both) == 0)
        return;
    ce_stream_copy(stream, (char *)piece->master + (both.from - piece->range.from),
                   (const char *)bytes + (both.from - range.from), (size_t)ce_range_length(both));
    ce_stream_sync(stream);
}

/* Reads the elements `range`, which are whole blocks, and writes their codes and absmax. */
static cs_status encode(const load *l, ce_range range, float *numbers, uint8_t *codes, float *absmax)
{
    CE_TRY(l->source->read(l->source, l->tensor, range, numbers, CS_F32));
    for (int64_t at = 0; at < ce_range_length(range); at += CE_FOUR_BIT_BLOCK)
        absmax[(range.from + at) / CE_FOUR_BIT_BLOCK] =
            ce_four_bit_encode(codes + at / 2, numbers + at, CE_FOUR_BIT_BLOCK, l->weight->type);
    put(l, CE_FOUR_BIT_CODES, codes, (ce_range){ range.from / 2, range.to / 2 });
    return CS_OK;
}

static void put_absmax(const load *l, const float *absmax, int64_t blocks)
{
    int64_t groups = ce_divide_up(blocks, CE_FOUR_BIT_GROUP), size = (int64_t)sizeof(float);
    if (!l->weight->nested) {
        put(l, CE_FOUR_BIT_ABSMAX, absmax, (ce_range){ 0, blocks * size });
        return;
    }
    CE_FREED uint8_t *codes = ce_must_alloc((size_t)ce_round_up(blocks, size));
    CE_FREED float *nested = ce_must_alloc((size_t)((groups + 1) * size));
    ce_four_bit_encode_absmax(codes, nested, absmax, blocks);
    put(l, CE_FOUR_BIT_ABSMAX, codes, (ce_range){ 0, ce_round_up(blocks, size) });
    put(l, CE_FOUR_BIT_NESTED, nested, (ce_range){ 0, (groups + 1) * size });
}

static cs_status quantise(const load *l)
{
    int64_t count = l->weight->rows * l->weight->columns, blocks = count / CE_FOUR_BIT_BLOCK;
    bool whole = l->piece[CE_FOUR_BIT_ABSMAX] || l->piece[CE_FOUR_BIT_NESTED];
    ce_range codes_held = whole ? (ce_range){ 0, count / 2 } : l->piece[CE_FOUR_BIT_CODES]->range;
    ce_range held = { 2 * codes_held.from / CE_FOUR_BIT_BLOCK * CE_FOUR_BIT_BLOCK,
                      ce_round_up(2 * codes_held.to, CE_FOUR_BIT_BLOCK) };
    CE_FREED float *absmax = ce_must_alloc((size_t)blocks * sizeof *absmax);
    CE_FREED float *numbers = ce_must_alloc(WINDOW * sizeof *numbers);
    CE_FREED uint8_t *codes = ce_must_alloc(WINDOW / 2);
    for (int64_t at = held.from; at < held.to; at += WINDOW)
        CE_TRY(encode(l, (ce_range){ at, at + WINDOW < held.to ? at + WINDOW : held.to }, numbers, codes, absmax));
    if (whole)
        put_absmax(l, absmax, blocks);
    return CS_OK;
}

/* Copies the bytes of a weight that the source has in 4 bits. */
static cs_status copy(const load *l, const ce_four_bit_facts *facts)
{
    const ce_four_bit_weight *weight = l->weight;
    if (facts->type != weight->type || facts->twice != (weight->nested != NULL))
        return ce_fail(
            CS_BAD_CONFIG,
            "%s is quantised to %s%s, and quantization_config says %s%s: the folder's own settings are needed",
            l->source->tensors[l->tensor].name, ce_four_bit_names[facts->type],
            facts->twice ? " with double quantisation" : "", ce_four_bit_names[weight->type],
            weight->nested ? " with double quantisation" : "");
    for (int i = 0; i < CE_FOUR_BIT_ARRAYS; i++) {
        if (!l->piece[i])
            continue;
        ce_range range = l->piece[i]->range;
        CE_FREED char *bytes = ce_must_alloc((size_t)ce_range_length(range));
        CE_TRY(ce_four_bit_read(l->source, l->tensor, (ce_four_bit_array)i, range, bytes));
        put(l, (ce_four_bit_array)i, bytes, range);
    }
    return CS_OK;
}

static cs_status load_weight(load *l, const ce_unit_entry *entry, const ce_shard_piece *pieces, int count)
{
    const ce_four_bit_weight *weight = l->weight = entry->param.four_bit;
    const cs_param *arrays[CE_FOUR_BIT_ARRAYS] = { &entry->param, weight->absmax, weight->nested };
    bool any = false;
    for (int i = 0; i < CE_FOUR_BIT_ARRAYS; i++) {
        l->piece[i] = NULL;
        for (int at = 0; at < count; at++)
            if (&pieces[at].entry->param == arrays[i])
                l->piece[i] = &pieces[at];
        any |= l->piece[i] != NULL;
    }
    if (!any)
        return CS_OK;
    l->tensor = ce_source_find(l->source, entry->full_name);
    if (l->tensor < 0)
        return ce_fail(CS_BAD_FILE, "tensor %s is missing", entry->full_name);
    const ce_four_bit_facts *facts = ce_four_bit_of(l->source, l->tensor);
    return facts ? copy(l, facts) : quantise(l);
}

cs_status ce_four_bit_load(cs_engine *engine, struct ce_source *source, int i)
{
    const cs_unit *unit = ce_shard_unit(engine->shards[i]);
    CE_FREED ce_shard_piece *pieces = ce_must_alloc(ce_shard_pieces_room(engine->shards[i]));
    int count = ce_shard_held_pieces(engine->shards[i], pieces);
    load l = { .engine = engine, .source = source };
    for (int at = 0; at < unit->entry_count; at++)
        if (unit->entries[at]->param.four_bit)
            CE_TRY(load_weight(&l, unit->entries[at], pieces, count));
    return CS_OK;
}

/* ---- a model's folder ---- */

cs_status ce_four_bit_take(cs_engine *engine, json_t *root, const char *folder)
{
    const json_t *given = json_object_get(root, "quantization_config");
    const char *type = json_string_value(json_object_get(given, "bnb_4bit_quant_type"));
    if (!ce_four_bit_is_described(root))
        return CS_OK;
    ce_quantization_settings settings = { .on = true,
                                          .type = !type || strcmp(type, "fp4") == 0,
                                          .twice = json_is_true(json_object_get(given, "bnb_4bit_use_double_quant")),
                                          .skip = json_object_get(given, "llm_int8_skip_modules") };
    settings.skip = json_is_array(settings.skip) ? settings.skip : NULL;
    ce_config_set_quantization(engine->config, &settings);
    engine->config->settings.quantization.skip =
        ce_json_find(engine->config->doc, "cspeed.quantization_config.llm_int8_skip_modules");
    json_object_del(root, "quantization_config");
    ce_log(CE_LOG_INFO, "the weights in %s take 4 bits: its quantization_config is used", folder);
    return CS_OK;
}
