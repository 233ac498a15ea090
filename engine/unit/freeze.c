/* freeze.c - moves the frozen parameters of a model to stores: units that have values, but no gradients. Those that are
 * quantised to 4 bits become bytes. */
#include "base/must.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ce_unit_entry *owner_of(const cs_gradient *gradient)
{
    return (const ce_unit_entry *)(const void *)((const char *)gradient - offsetof(ce_unit_entry, gradient));
}

/* Returns an error if a parameter cannot be frozen. A layer that does not support frozen parameters would add to a
 * gradient that does not exist. Matrices that one product uses as one matrix must be adjacent in memory, so they can
 * only be frozen together. */
static cs_status check(const ce_unit_entry *entry)
{
    const ce_unit_entry *with = entry->param.gradient ? owner_of(entry->param.gradient->with) : entry;
    if (entry->param.frozen && !entry->param.gradient)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: freezing %s, because its unit adds to the gradient itself; a parameter can be "
                       "frozen if its unit calls cs_param_overwrites for it",
                       entry->full_name);
    if (entry->param.frozen != with->param.frozen)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: freezing only one of %s and %s, because both are computed in one product: "
                       "freeze both or none",
                       with->full_name, entry->full_name);
    return CS_OK;
}

static cs_unit *make_store(cs_model *model, const cs_unit *unit)
{
    cs_unit *store = ce_must_alloc(sizeof *store);
    *store = (cs_unit){ .kind = unit->kind, .name = ce_must_copy(unit->name), .model = model, .index = model->total };
    store->frozen = true;
    model->units = ce_must_resize(model->units, (size_t)(model->total + 1) * sizeof *model->units);
    model->units[model->total++] = store;
    return store;
}

static void append_entry(cs_unit *store, ce_unit_entry *entry)
{
    store->entries = ce_must_resize(store->entries, (size_t)(store->entry_count + 1) * sizeof *store->entries);
    store->entries[store->entry_count++] = entry;
}

/* Declares the bytes of a part of a 4-bit weight, such as NAME.nf4.absmax, behind the weight's codes. */
static cs_param *declare(cs_unit *store, const ce_unit_entry *weight, const char *what, int64_t bytes)
{
    char name[256];
    size_t prefix = strlen(store->name) + (*store->name != 0);
    snprintf(name, sizeof name, "%s.%s.%s", weight->full_name + prefix, ce_four_bit_names[weight->packs], what);
    cs_param *made = cs_unit_param(store, name, bytes, 0, (cs_init){ CS_ZEROS, 0 });
    made->frozen = true;
    ((ce_unit_entry *)made)->group = weight->group;
    return made;
}

/* Gives a weight the codes of 4 bits in place of its numbers. All its arrays are multiples of four bytes long, so that
 * their fp32 numbers are aligned. */
static void pack(cs_unit *store, ce_unit_entry *entry, ce_unit_entry *before, bool twice)
{
    ce_four_bit_weight *packed = entry->param.four_bit = &entry->packed;
    int64_t rows = cs_rows(entry->param.value), columns = cs_columns(entry->param.value);
    int64_t blocks = rows * columns / CE_FOUR_BIT_BLOCK, size = (int64_t)sizeof(float);
    *packed = (ce_four_bit_weight){ .type = entry->packs, .rows = rows, .columns = columns };
    entry->param.value = entry->param.grad = cs_matrix(NULL, CS_U8, rows, columns / 2);
    entry->cut = ce_cut_whole(entry->param.value, store->model->tp);
    entry->count = rows * columns / 2;
    packed->absmax = declare(store, entry, "absmax", twice ? ce_round_up(blocks, size) : blocks * size);
    if (twice)
        packed->nested = declare(store, entry, "nested_absmax", size * (ce_divide_up(blocks, CE_FOUR_BIT_GROUP) + 1));
    if (before && before->param.linear == entry->param.linear)
        before->packed.next = &entry->param;
}

static cs_unit *store_of(cs_model *model, cs_unit *unit)
{
    if (!unit->store)
        unit->store = make_store(model, unit);
    return unit->store;
}

static void split(cs_model *model, cs_unit *unit, bool twice)
{
    ce_unit_entry *before = NULL;
    int trained = 0;
    for (int i = 0; i < unit->entry_count; i++) {
        ce_unit_entry *entry = unit->entries[i];
        if (!entry->param.frozen) {
            unit->entries[trained++] = entry;
            continue;
        }
        model->trained -= ce_cut_count(&entry->cut);
        cs_unit *store = store_of(model, unit);
        if (entry->packs)
            store = store_of(model, store);
        append_entry(store, entry);
        if (!entry->packs)
            continue;
        store->bytes = true;
        pack(store, entry, before, twice);
        before = entry;
    }
    unit->entry_count = trained;
}

static void tell_loans(cs_model *model)
{
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->shared_count; at++) {
            ce_unit_shared *shared = model->units[i]->shared[at];
            shared->param.frozen = shared->entry->param.frozen;
        }
}

cs_status ce_model_freeze(cs_model *model, bool twice)
{
    model->trained = model->parameters;
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++)
            CE_TRY(check(model->units[i]->entries[at]));
    for (int i = 0; i < model->count; i++)
        split(model, model->units[i], twice);
    tell_loans(model);
    while (model->first_trained < model->count && model->units[model->first_trained]->entry_count == 0)
        model->first_trained++;
    return model->first_trained < model->count
               ? CS_OK
               : ce_fail(CS_BAD_CONFIG, "every parameter is frozen, so there is nothing to train: the groups of "
                                        "cspeed.param_groups with \"train\": false must leave at least one");
}
