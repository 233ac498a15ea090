/* model.c - a model: the list of its units. */
#include "unit/unit.h"
#include "base/misuse.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

cs_status cs_model_new(cs_model **model, int64_t width)
{
    CE_GIVEN(model);
    *model = NULL;
    if (width < 1)
        return ce_fail(CS_BAD_CONFIG, "a model's width must be at least 1, not %lld", (long long)width);
    *model = ce_must_alloc(sizeof **model);
    (*model)->width = width;
    (*model)->tp = (ce_cut_group){ .size = 1 };
    return CS_OK;
}

void ce_model_divide(cs_model *model, ce_cut_group group)
{
    CE_ASSERT(model->count == 0);
    model->tp = group;
}

void ce_model_copy(cs_model *model, ce_cut_group group)
{
    for (int i = 0; i < model->total; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            ce_unit_entry *entry = model->units[i]->entries[at];
            entry->cut = ce_cut_whole(entry->param.value, group);
        }
}

void cs_model_floats(cs_model *model, int64_t inputs, int64_t targets)
{
    CE_GIVEN(model);
    if (inputs < 1 || targets < 1)
        ce_misuse(__func__, "%lld inputs and %lld targets are not possible: at least 1 of each is needed",
                  (long long)inputs, (long long)targets);
    model->inputs = inputs;
    model->targets = targets;
}

void cs_model_classifies(cs_model *model, int64_t inputs)
{
    cs_model_floats(model, inputs, 1);
    model->target_dtype = CS_I32;
}

cs_unit *cs_model_add(cs_model *model, const cs_kind *kind, const char *name, const void *sizes)
{
    CE_GIVEN(model, kind, name);
    if (!kind->declare || !kind->name)
        ce_misuse(__func__, "unit %s: name and declare of its kind must not be NULL", name);
    cs_unit *unit = ce_must_alloc(sizeof *unit);
    unit->kind = kind;
    unit->name = ce_must_copy(name);
    unit->model = model;
    unit->index = model->count;
    model->units = ce_must_resize(model->units, (size_t)(model->count + 1) * sizeof *model->units);
    model->units[model->count++] = unit;
    model->total = model->count;
    ce_misuse_enter(ce_unit_label(unit), "declare");
    kind->declare(unit, sizes);
    ce_misuse_enter(NULL, NULL);
    for (int i = 0; i < unit->entry_count; i++)
        model->parameters += ce_cut_count(&unit->entries[i]->cut);
    return unit;
}

bool ce_unit_are_adjacent(const ce_unit_entry *a, const ce_unit_entry *b)
{
    return a->param.gradient && b->param.gradient && a->param.gradient->with == b->param.gradient->with;
}

static void lay_out(cs_unit *unit, int64_t multiple, int64_t align)
{
    unit->length = 0;
    for (int i = 0; i < unit->entry_count; i++) {
        ce_unit_entry *entry = unit->entries[i];
        int64_t rows = cs_rows(entry->param.value);
        entry->param.held = entry->param.padded ? ce_round_up(rows, multiple) : rows;
        bool joined = i > 0 && ce_unit_are_adjacent(unit->entries[i - 1], entry);
        entry->offset = joined ? unit->length : ce_round_up(unit->length, align);
        unit->length = ce_unit_gap(entry).to;
    }
}

void ce_model_lay_out(cs_model *model, int64_t multiple, int64_t align)
{
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->shared_count; at++) {
            ce_unit_shared *shared = model->units[i]->shared[at];
            shared->entry->param.padded |= shared->param.padded;
        }
    for (int i = 0; i < model->total; i++)
        lay_out(model->units[i], multiple, model->units[i]->frozen ? 1 : align);
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->shared_count; at++) {
            ce_unit_shared *shared = model->units[i]->shared[at];
            shared->param.held = shared->entry->param.held;
        }
}

int64_t ce_load_add(cs_model *model, int64_t experts, int64_t idle, float coefficient)
{
    ce_load *load = &model->load;
    CE_ASSERT(load->layers == 0 || (load->experts == experts));
    load->experts = experts;
    load->coefficient = coefficient;
    load->idle += idle;
    return load->layers++;
}

size_t ce_load_bytes(const ce_load *load)
{
    size_t cells = (size_t)(load->layers * load->experts);
    return cells * sizeof *load->tokens + cells * sizeof *load->probabilities +
           (size_t)load->experts * sizeof *load->dprobabilities;
}

void ce_load_place(ce_load *load, void *memory)
{
    int64_t cells = load->layers * load->experts;
    load->tokens = memory;
    load->probabilities = (float *)(load->tokens + cells);
    load->dprobabilities = load->probabilities + cells;
}

const char *ce_model_first(const cs_model *model)
{
    const cs_unit *unit = model->units[0];
    while (unit->store)
        unit = unit->store;
    return unit->entries[0]->full_name;
}

const ce_unit_entry *ce_model_locate(const cs_model *model, const char *full_name, int *unit)
{
    for (int i = 0; i < model->total; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++)
            if (strcmp(model->units[i]->entries[at]->full_name, full_name) == 0) {
                *unit = i;
                return model->units[i]->entries[at];
            }
    return NULL;
}

const ce_unit_entry *ce_model_find(const cs_model *model, const char *full_name)
{
    int unit;
    return ce_model_locate(model, full_name, &unit);
}

void cs_model_free(cs_model *model)
{
    if (!model)
        return;
    ce_misuse_enter(NULL, NULL); /* a hook that left a unit by longjmp has left its name, which is freed here */
    for (int i = 0; i < model->total; i++)
        ce_unit_free(model->units[i]);
    free(model->units);
    free(model);
}
