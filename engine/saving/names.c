/* names.c - checks the names of a model's parameters before the training, so that a checkpoint can be saved later. */
#include "saving/saving.h"
#include "base/must.h"
#include "checkpoint/write_plan.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

cs_status ce_names_check(const cs_model *model)
{
    size_t count = 0, most = 1;
    for (int i = 0; i < model->total; i++)
        most += (size_t)model->units[i]->entry_count;
    CE_FREED const char **names = ce_must_alloc(most * sizeof *names);
    for (int i = 0; i < model->total; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            names[count] = model->units[i]->entries[at]->full_name;
            CE_TRY(ce_write_plan_check_name(names[count++]));
        }
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return ce_fail(
                CS_BAD_CONFIG,
                "two parameters of the model are named %s: units (cs_model_add), and the parameters of a unit "
                "(cs_unit_param), need different names, because checkpoints find parameters by name",
                names[i]);
    return CS_OK;
}
