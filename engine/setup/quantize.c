/* quantize.c - cspeed.quantization_config: which frozen weights take 4 bits. As in transformers, these are the weights of
 * all linear layers but the head and the layers that llm_int8_skip_modules names. */
#include "base/ends_with.h"
#include "base/log.h"
#include "setup/setup.h"

#include <string.h>

/* Returns true if an item of the list is the beginning or the end of the layer's name. */
static bool is_skipped(const json_t *skip, const char *weight)
{
    size_t length = strlen(weight) - strlen(".weight"), index;
    json_t *item;
    json_array_foreach (skip, index, item) {
        const char *name = json_string_value(item);
        size_t part = strlen(name);
        if (part <= length && (strncmp(weight, name, part) == 0 || strncmp(weight + length - part, name, part) == 0))
            return true;
    }
    return false;
}

static cs_status check(const ce_unit_entry *entry)
{
    int64_t rows = cs_rows(entry->param.value), columns = cs_columns(entry->param.value);
    if (entry->param.linear->layout != CS_OUT_IN)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cspeed.quantization_config with %s, because this family stores its matrices "
                       "transposed",
                       entry->full_name);
    if (columns % 2 || rows * columns % CE_FOUR_BIT_BLOCK)
        return ce_fail(
            CS_UNSUPPORTED,
            "not supported: cspeed.quantization_config with %s (%lld, %lld), because it has an odd number of "
            "columns, or no multiple of %d elements; llm_int8_skip_modules can name it",
            entry->full_name, (long long)rows, (long long)columns, CE_FOUR_BIT_BLOCK);
    return CS_OK;
}

/* Fails if one product reads two weights of which only one takes 4 bits. */
static cs_status check_parts(const cs_unit *unit, int at)
{
    const ce_unit_entry *entry = unit->entries[at], *before = at > 0 ? unit->entries[at - 1] : NULL;
    if (!before || !before->param.linear || before->param.linear != entry->param.linear ||
        before->packs == entry->packs)
        return CS_OK;
    return ce_fail(
        CS_UNSUPPORTED,
        "not supported: cspeed.quantization_config with only one of %s and %s, because both are computed in one "
        "product: llm_int8_skip_modules must name both or none",
        before->full_name, entry->full_name);
}

static cs_status mark(cs_model *model, const ce_quantization_settings *settings, int64_t *elements)
{
    for (int i = 0; i < model->count - 1; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            ce_unit_entry *entry = model->units[i]->entries[at];
            if (!entry->param.frozen || !entry->param.linear)
                continue;
            if (!is_skipped(settings->skip, entry->full_name)) {
                CE_TRY(check(entry));
                entry->packs = settings->type ? CE_FP4 : CE_NF4;
                *elements += entry->count;
            }
            CE_TRY(check_parts(model->units[i], at));
        }
    return CS_OK;
}

cs_status ce_quantize(cs_engine *engine)
{
    const ce_quantization_settings *settings = &engine->settings->quantization;
    int64_t elements = 0;
    if (!settings->on || (engine->config->reads && !engine->lora.first)) /* the numbers of the 4-bit weights are read */
        return CS_OK;
    if (!engine->lora.first)
        return ce_fail(
            CS_BAD_CONFIG,
            "the model's weights take 4 bits, and such weights cannot be trained: set cspeed.lora.r, so that "
            "adapters beside them are");
    if (engine->model->tp.size > 1)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cspeed.quantization_config with tensor parallelism, because a rank's part of a "
                       "matrix does not consist of whole blocks; ZeRO stage 3 divides the 4-bit weights over ranks");
    CE_TRY(mark(engine->model, settings, &elements));
    ce_log(CE_LOG_INFO, "4 bits: %lld elements of frozen weights are %s%s", (long long)elements,
           ce_config_four_bits[settings->type], settings->twice ? ", with double quantisation" : "");
    return CS_OK;
}
