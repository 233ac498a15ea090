/* lora_attach.c - adds LoRA adapters to linear layers of a model, and freezes all other parameters. */
#include "base/ends_with.h"
#include "base/must.h"
#include "layer/lora.h"
#include "unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double ce_lora_scale(int64_t r, double alpha, bool rslora)
{
    return alpha / (rslora ? sqrt((double)r) : (double)r);
}

/* ---- which layers ---- */

/* Writes the last word of the name of the layer that this weight belongs to: "q_proj" for
 * "model.layers.0.self_attn.q_proj.weight". */
static void last_word(char word[64], const char *full_name)
{
    size_t length = strlen(full_name) - strlen(".weight"), from = length;
    while (from > 0 && full_name[from - 1] != '.')
        from--;
    snprintf(word, 64, "%.*s", (int)(length - from), full_name + from);
}

/* Returns true if `target` names the layer by PEFT's rule: `target` is the layer's full name, or the end of the full
 * name that follows one of its dots. */
static bool names(const char *target, const char *full_name)
{
    size_t length = strlen(full_name) - strlen(".weight"), tail = strlen(target);
    return tail <= length && strncmp(full_name + length - tail, target, tail) == 0 &&
           (tail == length || full_name[length - tail - 1] == '.');
}

static bool is_target(const json_t *targets, const char *full_name)
{
    size_t index;
    json_t *target;
    if (json_is_string(targets)) /* the only string that the configuration accepts is "all-linear" */
        return true;
    json_array_foreach (targets, index, target) {
        if (names(json_string_value(target), full_name))
            return true;
    }
    return false;
}

/* Returns true if `target` names a matrix that is not the weight of a linear layer. PEFT has no adapters for such a
 * matrix either: in transformers 5, the experts and routers are no nn.Linear. */
static bool names_other_matrix(const cs_model *model, const char *target)
{
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            const ce_unit_entry *entry = model->units[i]->entries[at];
            if (!entry->param.linear && entry->param.value.dims == 2 && names(target, entry->full_name))
                return true;
        }
    return false;
}

/* The head's logits never exist as a whole tensor (layer/entropy.c), so the head cannot have an adapter. PEFT's
 * "all-linear" excludes the head too. */
static bool is_head(const cs_model *model, const cs_unit *unit)
{
    return unit->index == model->count - 1;
}

static cs_status check_target(const cs_model *model, const char *target)
{
    bool found = false, head = strcmp(target, "lm_head") == 0;
    for (int i = 0; i < model->count && !found; i++)
        for (int at = 0; at < model->units[i]->entry_count && !found; at++) {
            const ce_unit_entry *entry = model->units[i]->entries[at];
            bool named = entry->param.linear && names(target, entry->full_name);
            found = named && !is_head(model, model->units[i]);
            head |= named && !found;
        }
    if (found)
        return CS_OK;
    if (!head && names_other_matrix(model, target))
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cspeed.lora.targets: \"%s\", because adapters are for linear layers; experts, "
                       "their routers and embeddings have none",
                       target);
    return head ? ce_fail(CS_UNSUPPORTED,
                          "not supported: cspeed.lora.targets: \"%s\", because the logits of the head are never in "
                          "memory all at once, and an adapter would need them",
                          target)
                : ce_fail(CS_BAD_CONFIG,
                          "cspeed.lora.targets: the model has no linear layer \"%s\"; give the last part of their "
                          "names, such as \"q_proj\", or \"all-linear\"",
                          target);
}

/* ---- the adapters ---- */

/* Declares a parameter of an adapter. If `columns` is 0, the parameter is a vector. */
static cs_param *declare(cs_unit *unit, const char *layer, const char *which, int64_t rows, int64_t columns,
                         cs_init init)
{
    char name[256];
    snprintf(name, sizeof name, "%s.%s", layer, which);
    cs_param *param = cs_unit_param(unit, name, rows, columns, init);
    cs_param_overwrites(param, param);
    ((ce_unit_entry *)param)->lora = true;
    unit->model->parameters += rows * (columns ? columns : 1);
    return param;
}

static cs_adapter *adapter_of(ce_lora *lora, cs_linear *linear, const ce_lora_sizes *sizes)
{
    if (linear->adapter)
        return linear->adapter;
    cs_adapter *made = linear->adapter = ce_must_alloc(sizeof *made);
    made->scale = (float)ce_lora_scale(sizes->r, sizes->alpha, sizes->rslora);
    made->rate = (float)sizes->dropout;
    made->next = lora->first;
    lora->first = made;
    return made;
}

static int64_t outputs_of(const cs_param *weight)
{
    return weight->linear->layout == CS_IN_OUT ? cs_columns(weight->value) : cs_rows(weight->value);
}

/* Cuts A and B where the layer's weight is cut. If the outputs are cut, each rank has the whole A and computes some terms
 * of its gradient. If the inputs are cut, this is so for B. A layer that is not cut computes this rank's rows. */
static void cut(const cs_linear *linear, const cs_unit *unit, const ce_cut *weight, const ce_lora_part *part)
{
    if (linear->cut == CS_CUT_OUTPUTS) {
        ce_cut_param(part->b, 0, weight->part, weight->count);
        ce_cut_partial(part->a);
        if (part->magnitude)
            ce_cut_param(part->magnitude, 0, weight->part, weight->count);
    } else if (linear->cut == CS_CUT_INPUTS) {
        ce_cut_param(part->a, 1, weight->part, weight->count);
        ce_cut_partial(part->b);
        if (part->magnitude)
            ce_cut_partial(part->magnitude);
    } else {
        ce_cut_rows(part->a, unit);
        ce_cut_rows(part->b, unit);
        if (part->magnitude)
            ce_cut_rows(part->magnitude, unit);
    }
}

/* Adds an adapter to the layer whose weight is parameter `at` of the unit. If the weight belongs to a part of a layer,
 * the part's columns in the layer's result follow the columns of the parts before it. */
static void attach(ce_lora *lora, cs_unit *unit, int at, const ce_lora_sizes *sizes)
{
    const ce_unit_entry *entry = unit->entries[at];
    cs_linear *linear = entry->param.linear;
    cs_adapter *adapter = adapter_of(lora, linear, sizes);
    const ce_cut *whole = &entry->cut;
    int64_t inputs = whole->whole[linear->layout == CS_IN_OUT ? 0 : 1];
    int64_t outputs = whole->whole[linear->layout == CS_IN_OUT ? 1 : 0];
    size_t prefix = strlen(unit->name) + (*unit->name != 0);
    char layer[200], place[220], word[64];
    snprintf(layer, sizeof layer, "%.*s", (int)(strlen(entry->full_name) - prefix - strlen(".weight")),
             entry->full_name + prefix);
    snprintf(place, sizeof place, "%s.lora", layer);
    CE_ASSERT(adapter->count < CE_LORA_PARTS);
    ce_lora_part *part = &adapter->part[adapter->count++];
    for (int i = 0; i < at; i++)
        if (unit->entries[i]->param.linear == linear)
            part->first += outputs_of(&unit->entries[i]->param);
    part->a = declare(unit, layer, "lora_A.weight", sizes->r, inputs,
                      (cs_init){ CS_UNIFORM, (float)(1 / sqrt((double)inputs)) });
    part->b = declare(unit, layer, "lora_B.weight", outputs, sizes->r, (cs_init){ CS_ZEROS, 0 });
    if (sizes->dora)
        part->magnitude = declare(unit, layer, "lora_magnitude_vector", outputs, 0, (cs_init){ CS_ONES, 0 });
    cut(linear, unit, whole, part);
    part->place = cs_residual_place(unit, place);
    lora->fan_in_fan_out |= linear->layout == CS_IN_OUT;
    if (json_is_array(sizes->targets))
        return;
    last_word(word, entry->full_name);
    for (size_t i = 0; i < json_array_size(lora->targets); i++)
        if (strcmp(json_string_value(json_array_get(lora->targets, i)), word) == 0)
            return;
    json_array_append_new(lora->targets, json_string(word));
}

/* ---- biases ---- */

static bool is_bias(const ce_unit_entry *entry)
{
    return ce_ends_with(entry->full_name, ".bias");
}

/* Returns true if the layer that this bias belongs to has an adapter. */
static bool is_adapted(const cs_model *model, const char *bias)
{
    char name[512];
    snprintf(name, sizeof name, "%.*slora_A.weight", (int)(strlen(bias) - strlen("bias")), bias);
    return ce_model_find(model, name) != NULL;
}

static void train_biases(cs_model *model, const ce_lora_sizes *sizes)
{
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            ce_unit_entry *entry = model->units[i]->entries[at];
            if (is_bias(entry) && (sizes->all_biases || (sizes->own_biases && is_adapted(model, entry->full_name))))
                entry->param.frozen = false;
        }
}

cs_status ce_lora_attach(ce_lora *lora, cs_model *model, const ce_lora_sizes *sizes)
{
    size_t index;
    json_t *target;
    lora->targets = json_is_array(sizes->targets) ? json_deep_copy(sizes->targets) : json_array();
    json_array_foreach (sizes->targets, index, target) {
        CE_TRY(check_target(model, json_string_value(target)));
    }
    for (int i = 0; i < model->count; i++) {
        cs_unit *unit = model->units[i];
        for (int at = 0, count = unit->entry_count; at < count; at++) {
            unit->entries[at]->param.frozen = true;
            if (unit->entries[at]->param.linear && !is_head(model, unit) &&
                is_target(sizes->targets, unit->entries[at]->full_name))
                attach(lora, unit, at, sizes);
        }
    }
    train_biases(model, sizes);
    return lora->first ? CS_OK : ce_fail(CS_BAD_CONFIG, "cspeed.lora: the model has no linear layer to adapt");
}

void ce_lora_close(ce_lora *lora)
{
    for (cs_adapter *at = lora->first, *next; at; at = next) {
        next = at->next;
        free(at);
    }
    json_decref(lora->targets);
    *lora = (ce_lora){ 0 };
}
