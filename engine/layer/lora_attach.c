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

/* ---- names ---- */

/* Writes the last word of the name of the layer that this weight belongs to: "q_proj" for
 * "model.layers.0.self_attn.q_proj.weight". */
static void last_word(char word[64], const char *full_name)
{
    size_t length = strlen(full_name) - strlen(".weight"), from = length;
    while (from > 0 && full_name[from - 1] != '.')
        from--;
    snprintf(word, 64, "%.*s", (int)(length - from), full_name + from);
}

/* The head's logits never exist as a whole tensor, so the head cannot have an adapter. */
static bool is_head(const cs_model *model, const cs_unit *unit)
{
    return unit->index == model->count - 1;
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

static void note_word(json_t *words, const char *full_name)
{
    char word[64];
    size_t index;
    json_t *other;
    last_word(word, full_name);
    json_array_foreach (words, index, other) {
        if (strcmp(json_string_value(other), word) == 0)
            return;
    }
    json_array_append_new(words, json_string(word));
}

/* Adds an adapter of rank r to the layer whose weight is parameter `at` of the unit. If the weight belongs to a part of a
 * layer, the part's columns in the layer's result follow the columns of the parts before it. */
static void attach(ce_lora *lora, cs_unit *unit, int at, const ce_lora_sizes *sizes, int64_t r, double alpha)
{
    const ce_unit_entry *entry = unit->entries[at];
    cs_linear *linear = entry->param.linear;
    cs_adapter *adapter = adapter_of(lora, linear, sizes);
    const ce_cut *whole = &entry->cut;
    int64_t inputs = whole->whole[linear->layout == CS_IN_OUT ? 0 : 1];
    int64_t outputs = whole->whole[linear->layout == CS_IN_OUT ? 1 : 0];
    size_t prefix = strlen(unit->name) + (*unit->name != 0);
    char layer[200], place[220];
    snprintf(layer, sizeof layer, "%.*s", (int)(strlen(entry->full_name) - prefix - strlen(".weight")),
             entry->full_name + prefix);
    snprintf(place, sizeof place, "%s.lora", layer);
    CE_ASSERT(adapter->count < CE_LORA_PARTS);
    ce_lora_part *part = &adapter->part[adapter->count++];
    for (int i = 0; i < at; i++)
        if (unit->entries[i]->param.linear == linear)
            part->first += outputs_of(&unit->entries[i]->param);
    part->scale = (float)ce_lora_scale(r, alpha, sizes->rslora);
    cs_init uniform = { CS_UNIFORM, (float)(1 / sqrt((double)inputs)) }, normal = { CS_NORMAL, (float)(1 / (double)r) };
    part->a = declare(unit, layer, "lora_A.weight", r, inputs, sizes->gaussian ? normal : uniform);
    part->b = declare(unit, layer, "lora_B.weight", outputs, r, (cs_init){ CS_ZEROS, 0 });
    if (sizes->dora)
        part->magnitude = declare(unit, layer, "lora_magnitude_vector", outputs, 0, (cs_init){ CS_ONES, 0 });
    cut(linear, unit, whole, part);
    part->place = cs_residual_place(unit, place);
    lora->fan_in_fan_out |= linear->layout == CS_IN_OUT;
    note_word(lora->words, entry->full_name);
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

/* Returns true if the weight is that of a layer that gets an adapter. */
static bool is_chosen(const ce_unit_entry *entry, const ce_lora_sizes *sizes, int64_t *r, double *alpha)
{
    if (!entry->param.linear)
        return false;
    CE_FREED char *layer = ce_must_copy_part(entry->full_name, strlen(entry->full_name) - strlen(".weight"));
    return sizes->choose(sizes->from, layer, r, alpha);
}

cs_status ce_lora_attach(ce_lora *lora, cs_model *model, const ce_lora_sizes *sizes)
{
    int64_t r;
    double alpha;
    lora->words = json_array();
    for (int i = 0; i < model->count; i++) {
        cs_unit *unit = model->units[i];
        for (int at = 0, count = unit->entry_count; at < count; at++) {
            unit->entries[at]->param.frozen = true;
            if (!is_head(model, unit) && is_chosen(unit->entries[at], sizes, &r, &alpha))
                attach(lora, unit, at, sizes, r, alpha);
        }
    }
    train_biases(model, sizes);
    return lora->first ? CS_OK : ce_fail(CS_BAD_CONFIG, "cspeed.lora: no linear layer of the model gets an adapter");
}

void ce_lora_close(ce_lora *lora)
{
    for (cs_adapter *at = lora->first, *next; at; at = next) {
        next = at->next;
        free(at);
    }
    json_decref(lora->words);
    *lora = (ce_lora){ 0 };
}
