/* unit.c - units: the declaration of parameters, the sharing of parameters with other units, and the positions of
 * parameters in a unit's row. */
#include "unit/unit.h"
#include "base/misuse.h"
#include "base/must.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *append(void *list, int count, void *item)
{
    void **longer = ce_must_resize(list, (size_t)(count + 1) * sizeof *longer);
    longer[count] = item;
    return longer;
}

void *cs_unit_self(cs_unit *unit, size_t bytes)
{
    CE_GIVEN(unit);
    if (!unit->self) {
        unit->self = ce_must_alloc(bytes);
        unit->self_bytes = bytes;
    }
    if (bytes != unit->self_bytes)
        ce_misuse(__func__,
                  "unit %s asks for %zu bytes, and the first call has asked for %zu: all calls for a unit must ask for "
                  "the same size",
                  unit->name, bytes, unit->self_bytes);
    return unit->self;
}

static char *join(const char *prefix, const char *name)
{
    return ce_must_print("%s%s%s", prefix, prefix[0] ? "." : "", name);
}

static const int64_t MAX_ELEMENTS = (int64_t)1 << 48; /* no memory has more, and sums of bytes do not overflow */

/* Ends the process if a parameter cannot have this shape or these first values. */
static void check_param(const char *name, int64_t rows, int64_t columns, cs_init init)
{
    bool random = init.how == CS_NORMAL || init.how == CS_UNIFORM;
    if (rows < 1 || columns < 0 || rows > MAX_ELEMENTS / (columns ? columns : 1))
        ce_misuse(NULL,
                  "parameter %s: it cannot have %lld rows and %lld columns: at least 1 row, 0 columns for a vector, "
                  "and at most %lld elements",
                  name, (long long)rows, (long long)columns, (long long)MAX_ELEMENTS);
    if ((unsigned)init.how > CS_UNIFORM)
        ce_misuse(NULL, "parameter %s: init.how is %d: CS_ZEROS, CS_ONES, CS_NORMAL and CS_UNIFORM are possible", name,
                  (int)init.how);
    if (random && !(isfinite(init.std) && init.std >= 0))
        ce_misuse(NULL, "parameter %s: init.std is %g: a finite number of at least 0 is needed", name,
                  (double)init.std);
}

cs_param *cs_unit_param(cs_unit *unit, const char *name, int64_t rows, int64_t columns, cs_init init)
{
    CE_GIVEN(unit, name);
    ce_unit_entry *entry = ce_must_alloc(sizeof *entry);
    entry->full_name = join(unit->name, name);
    check_param(entry->full_name, rows, columns, init);
    entry->offset = unit->length;
    entry->count = columns ? rows * columns : rows;
    entry->param.name = entry->full_name;
    entry->param.init = init;
    entry->param.decay = columns != 0; /* weight decay applies to matrices, not to norms and biases */
    entry->param.value = columns ? cs_matrix(NULL, CS_F32, rows, columns) : cs_vector(NULL, CS_F32, rows);
    entry->param.grad = entry->param.value;
    entry->param.held = cs_rows(entry->param.value);
    entry->cut = ce_cut_whole(entry->param.value, unit->model->tp);
    unit->entries = append(unit->entries, unit->entry_count++, entry);
    unit->length += entry->count;
    return &entry->param;
}

static ce_unit_entry *find(cs_unit *unit, const char *name)
{
    CE_FREED char *full = join(unit->name, name);
    ce_unit_entry *found = NULL;
    for (int i = 0; i < unit->entry_count; i++)
        if (strcmp(unit->entries[i]->full_name, full) == 0)
            found = unit->entries[i];
    if (!found)
        ce_misuse("cs_unit_share", "there is no parameter %s", full);
    return found;
}

cs_param *cs_unit_share(cs_unit *unit, cs_unit *owner, const char *name)
{
    /* The owner must come before the unit that shares its parameter in the list. Backward goes through the list from the end, so the
     * owner's gradient is complete when backward reaches the owner. */
    CE_GIVEN(unit, owner, name);
    if (owner->index >= unit->index)
        ce_misuse(__func__, "unit %s does not come before this unit in the model", owner->name);
    ce_unit_shared *shared = ce_must_alloc(sizeof *shared);
    shared->owner = owner;
    shared->entry = find(owner, name);
    shared->param = shared->entry->param;
    unit->shared = append(unit->shared, unit->shared_count++, shared);
    for (int i = 0; i < unit->owner_count; i++)
        if (unit->owners[i] == owner)
            return &shared->param;
    if (unit->owner_count == CE_UNIT_OWNERS)
        ce_misuse(__func__, "a unit shares parameters of at most %d units", CE_UNIT_OWNERS);
    unit->owners[unit->owner_count++] = owner;
    return &shared->param;
}

ce_range ce_unit_gap(const ce_unit_entry *entry)
{
    int64_t end = entry->offset + entry->count, rows = entry->param.held - cs_rows(entry->param.value);
    return (ce_range){ end, end + rows * cs_columns(entry->param.value) };
}

void ce_unit_attach_values(cs_unit *unit, void *row, cs_dtype dtype)
{
    for (int i = 0; i < unit->entry_count; i++) {
        ce_unit_entry *entry = unit->entries[i];
        size_t bytes = (size_t)entry->offset * cs_dtype_bytes(dtype);
        entry->param.value.data = row ? (char *)row + bytes : NULL;
        entry->param.value.dtype = dtype;
    }
}

void ce_unit_attach_grads(cs_unit *unit, float *row)
{
    for (int i = 0; i < unit->entry_count; i++) {
        ce_unit_entry *entry = unit->entries[i];
        float *grad = row ? row + entry->offset : NULL;
        entry->gradient.data = grad;
        entry->param.grad.data = entry->param.gradient ? NULL : grad;
    }
}

bool ce_unit_has_grads(const cs_unit *unit)
{
    return unit->entry_count > 0 && unit->entries[0]->gradient.data;
}

ce_cut_group ce_cut_group_of(const cs_unit *unit)
{
    return unit->model->tp;
}

void ce_cut_param(cs_param *param, int dim, const ce_cut_part *parts, int count)
{
    ce_unit_entry *entry = (ce_unit_entry *)param;
    int64_t held = 0;
    entry->cut.dim = dim;
    entry->cut.count = count;
    for (int i = 0; i < count; i++) {
        entry->cut.part[i] = parts[i];
        entry->cut.partial |= parts[i].copies > 1;
        held += parts[i].count;
    }
    param->value.shape[dim] = param->grad.shape[dim] = held;
    entry->count = cs_count(param->value);
    param->held = cs_rows(param->value);
}

void ce_cut_partial(cs_param *param)
{
    ((ce_unit_entry *)param)->cut.partial = true;
}

void ce_cut_rows(cs_param *param, const cs_unit *unit)
{
    if (unit->model->tp.rows)
        ce_cut_partial(param);
}

void cs_param_overwrites(cs_param *param, cs_param *with)
{
    CE_GIVEN(param, with);
    param->gradient = &((ce_unit_entry *)param)->gradient;
    param->gradient->with = &((ce_unit_entry *)with)->gradient;
}

cs_tensor cs_param_gradient(cs_param *param)
{
    CE_GIVEN(param);
    cs_tensor grad = param->grad;
    if (param->gradient && param->gradient->data) {
        grad.data = param->gradient->data;
        grad.overwrite = param->gradient->with->unwritten;
        param->gradient->with->unwritten = false;
    }
    return grad;
}

void ce_unit_set_unwritten(cs_unit *unit, bool unwritten)
{
    for (int i = 0; i < unit->entry_count; i++)
        if (unit->entries[i]->param.gradient)
            unit->entries[i]->param.gradient->with->unwritten = unwritten;
}

bool ce_unit_is_unwritten(const ce_unit_entry *entry)
{
    return entry->param.gradient && entry->param.gradient->with->unwritten;
}

void ce_unit_refresh_shared(cs_unit *unit)
{
    for (int i = 0; i < unit->shared_count; i++) {
        unit->shared[i]->param.value = unit->shared[i]->entry->param.value;
        unit->shared[i]->param.grad = unit->shared[i]->entry->param.grad;
    }
}

const char *ce_unit_label(const cs_unit *unit)
{
    return *unit->name ? unit->name : unit->kind->name;
}

void ce_unit_free(cs_unit *unit)
{
    for (int i = 0; i < unit->entry_count; i++) {
        free(unit->entries[i]->full_name);
        free(unit->entries[i]);
    }
    for (int i = 0; i < unit->shared_count; i++)
        free(unit->shared[i]);
    free(unit->entries);
    free(unit->shared);
    free(unit->self);
    free(unit->name);
    free(unit);
}
