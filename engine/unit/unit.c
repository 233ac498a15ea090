/* unit.c - units: the declaration of parameters, the borrowing of parameters of other units, and the positions of
 * parameters in a unit's row. */
#include "unit/unit.h"
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        ce_fatal(CS_NO_MEMORY, "out of memory for %zu bytes of a model's description", bytes);
    return memory;
}

static void *append(void *list, int count, void *item)
{
    void **longer = realloc(list, (size_t)(count + 1) * sizeof *longer);
    if (!longer)
        ce_fatal(CS_NO_MEMORY, "out of memory for a model's description");
    longer[count] = item;
    return longer;
}

void *cs_unit_self(cs_unit *unit, size_t bytes)
{
    if (!unit->self)
        unit->self = must_alloc(bytes);
    return unit->self;
}

static char *join(const char *prefix, const char *name)
{
    size_t bytes = strlen(prefix) + strlen(name) + 2;
    char *full = must_alloc(bytes);
    snprintf(full, bytes, "%s%s%s", prefix, prefix[0] ? "." : "", name);
    return full;
}

cs_param *cs_unit_param(cs_unit *unit, const char *name, int64_t rows, int64_t columns, cs_init init)
{
    CS_ASSERT(rows > 0 && columns >= 0);
    ce_unit_entry *entry = must_alloc(sizeof *entry);
    entry->full_name = join(unit->name, name);
    entry->offset = unit->length;
    entry->count = columns ? rows * columns : rows;
    entry->param.name = entry->full_name;
    entry->param.init = init;
    entry->param.decay = columns != 0; /* weight decay applies to matrices, not to norms and biases */
    entry->param.value = columns ? cs_matrix(NULL, CS_F32, rows, columns) : cs_vector(NULL, CS_F32, rows);
    entry->param.grad = entry->param.value;
    entry->param.held = cs_rows(entry->param.value);
    unit->entries = append(unit->entries, unit->entry_count++, entry);
    unit->length += entry->count;
    return &entry->param;
}

static ce_unit_entry *find(cs_unit *unit, const char *name)
{
    char *full = join(unit->name, name);
    ce_unit_entry *found = NULL;
    for (int i = 0; i < unit->entry_count; i++)
        if (strcmp(unit->entries[i]->full_name, full) == 0)
            found = unit->entries[i];
    if (!found)
        ce_fatal(CS_MISUSE, "there is no parameter %s to borrow", full);
    free(full);
    return found;
}

cs_param *cs_unit_borrow(cs_unit *unit, cs_unit *lender, const char *name)
{
    /* The lender must come before the borrower in the list. Backward goes through the list from the end, so the
     * lender's gradient is complete when backward reaches the lender. */
    CS_ASSERT(lender->index < unit->index);
    ce_unit_loan *loan = must_alloc(sizeof *loan);
    loan->lender = lender;
    loan->entry = find(lender, name);
    loan->param = loan->entry->param;
    unit->loans = append(unit->loans, unit->loan_count++, loan);
    for (int i = 0; i < unit->lender_count; i++)
        if (unit->lenders[i] == lender)
            return &loan->param;
    CS_ASSERT(unit->lender_count < CS_UNIT_LENDERS);
    unit->lenders[unit->lender_count++] = lender;
    return &loan->param;
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
        entry->growth.data = grad;
        entry->param.grad.data = entry->param.growth ? NULL : grad;
    }
}

bool ce_unit_has_grads(const cs_unit *unit)
{
    return unit->entry_count > 0 && unit->entries[0]->growth.data;
}

void cs_param_grows(cs_param *param, cs_param *with)
{
    param->growth = &((ce_unit_entry *)param)->growth;
    param->growth->with = &((ce_unit_entry *)with)->growth;
}

cs_tensor cs_param_grow(cs_param *param)
{
    cs_tensor grad = param->grad;
    if (param->growth && param->growth->data) {
        grad.data = param->growth->data;
        grad.fresh = param->growth->with->fresh;
        param->growth->with->fresh = false;
    }
    return grad;
}

void ce_unit_set_fresh(cs_unit *unit, bool fresh)
{
    for (int i = 0; i < unit->entry_count; i++)
        if (unit->entries[i]->param.growth)
            unit->entries[i]->param.growth->with->fresh = fresh;
}

bool ce_unit_is_fresh(const ce_unit_entry *entry)
{
    return entry->param.growth && entry->param.growth->with->fresh;
}

void ce_unit_refresh_loans(cs_unit *unit)
{
    for (int i = 0; i < unit->loan_count; i++) {
        unit->loans[i]->param.value = unit->loans[i]->entry->param.value;
        unit->loans[i]->param.grad = unit->loans[i]->entry->param.grad;
    }
}

void ce_unit_free(cs_unit *unit)
{
    for (int i = 0; i < unit->entry_count; i++) {
        free(unit->entries[i]->full_name);
        free(unit->entries[i]);
    }
    for (int i = 0; i < unit->loan_count; i++)
        free(unit->loans[i]);
    free(unit->entries);
    free(unit->loans);
    free(unit->self);
    free(unit->name);
    free(unit);
}
