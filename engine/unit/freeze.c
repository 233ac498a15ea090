/* freeze.c - moves the frozen parameters of a model to stores: units that have values, but no gradients. */
#include "base/must.h"
#include "unit/unit.h"

#include <stdlib.h>

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
    store->entries = ce_must_alloc((size_t)unit->entry_count * sizeof *store->entries);
    model->units = ce_must_resize(model->units, (size_t)(model->total + 1) * sizeof *model->units);
    model->units[model->total++] = store;
    return store;
}

static void split(cs_model *model, cs_unit *unit)
{
    int trained = 0;
    for (int i = 0; i < unit->entry_count; i++) {
        ce_unit_entry *entry = unit->entries[i];
        if (!entry->param.frozen) {
            unit->entries[trained++] = entry;
            continue;
        }
        if (!unit->store)
            unit->store = make_store(model, unit);
        unit->store->entries[unit->store->entry_count++] = entry;
        model->trained -= ce_cut_count(&entry->cut);
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

cs_status ce_model_freeze(cs_model *model)
{
    model->trained = model->parameters;
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++)
            CE_TRY(check(model->units[i]->entries[at]));
    for (int i = 0; i < model->count; i++)
        split(model, model->units[i]);
    tell_loans(model);
    while (model->first_trained < model->count && model->units[model->first_trained]->entry_count == 0)
        model->first_trained++;
    return model->first_trained < model->count
               ? CS_OK
               : ce_fail(CS_BAD_CONFIG, "every parameter is frozen, so there is nothing to train: the groups of "
                                        "cspeed.param_groups with \"train\": false must leave at least one");
}
