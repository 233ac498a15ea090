/* huggingface_check.c - compares the tensors of a source with the parameters of the model. One message reports all
 * differences. */
#include "interchange/four_bit.h"
#include "interchange/joined_experts.h"
#include "interchange/huggingface.h"

#include "base/names.h"
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

static void show_shape(char *text, size_t capacity, const int64_t *shape, int dims)
{
    size_t used = (size_t)snprintf(text, capacity, "[");
    for (int i = 0; i < dims && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (used < capacity)
        snprintf(text + used, capacity - used, "]");
}

static void check_one(const ce_source *source, const ce_unit_entry *wanted, ce_difference_report *report, void *to)
{
    int64_t at = ce_source_find(source, wanted->full_name);
    const ce_four_bit_weight *packed = wanted->param.four_bit;
    int64_t numbers[2] = { packed ? packed->rows : 0, packed ? packed->columns : 0 };
    const int64_t *whole = packed ? numbers : wanted->cut.whole;
    int dims = wanted->param.value.dims;
    char has[128], wants[128], why[300];
    show_shape(wants, sizeof wants, whole, dims);
    if (at < 0) {
        report(to, CE_DIFFERENCE_MISSING, wanted->full_name, wants);
        return;
    }
    const ce_source_tensor *found = &source->tensors[at];
    if (found->dims == dims && memcmp(found->shape, whole, (size_t)dims * sizeof *whole) == 0)
        return;
    show_shape(has, sizeof has, found->shape, found->dims);
    snprintf(why, sizeof why, "is %s and should be %s", has, wants);
    report(to, CE_DIFFERENCE_SHAPE, wanted->full_name, why);
}

/* Adapters, and the absmax of 4-bit weights, are not among the tensors of a source. */
static bool is_tensor(const cs_unit *unit, const ce_unit_entry *entry)
{
    return !entry->lora && (!unit->bytes || entry->param.four_bit);
}

cs_status ce_huggingface_compare(ce_source *source, const cs_model *model, const ce_model_facts *facts,
                                 ce_difference_report *report, void *to)
{
    char has[128];
    CE_TRY(ce_huggingface_rename(source, model, facts));
    CE_TRY(ce_mxfp4_open(source));
    CE_TRY(ce_four_bit_open(source));
    for (int i = 0; i < model->total; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++)
            if (is_tensor(model->units[i], model->units[i]->entries[at]))
                check_one(source, model->units[i]->entries[at], report, to);
    for (int64_t i = 0; i < source->count; i++) {
        const ce_source_tensor *tensor = &source->tensors[i];
        if (ce_model_find(model, tensor->name))
            continue;
        show_shape(has, sizeof has, tensor->shape, tensor->dims);
        report(to, CE_DIFFERENCE_UNEXPECTED, tensor->name, has);
    }
    return CS_OK;
}

static void add_difference(void *to, ce_difference kind, const char *name, const char *detail)
{
    bool shape = kind == CE_DIFFERENCE_SHAPE;
    ce_names_add((ce_names *)to + kind, "%s%s%s", name, shape ? " " : "", shape ? detail : "");
}

cs_status ce_huggingface_check(ce_source *source, const cs_model *model, const ce_model_facts *facts,
                               const char *folder)
{
    ce_names names[CE_DIFFERENCES] = { 0 }, *missing = &names[CE_DIFFERENCE_MISSING];
    ce_names *unexpected = &names[CE_DIFFERENCE_UNEXPECTED], *shapes = &names[CE_DIFFERENCE_SHAPE];
    CE_TRY(ce_huggingface_compare(source, model, facts, add_difference, names));
    if (missing->count + shapes->count + unexpected->count == 0)
        return CS_OK;
    return ce_fail(CS_BAD_FILE,
                   "the weights in %s do not fit the model that its config.json describes: %ld missing (%s), %ld "
                   "unexpected (%s), %ld of another shape (%s); `cspeed check MODEL` lists all",
                   folder, missing->count, ce_names_text(missing), unexpected->count, ce_names_text(unexpected),
                   shapes->count, ce_names_text(shapes));
}
