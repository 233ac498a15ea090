/* huggingface_check.c - compares the tensors of a source with the parameters of the model. One message reports all
 * differences. */
#include "interchange/huggingface.h"
#include "unit/unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAMED = 8, TEXT = 4096 };

/* The number of tensors with one kind of difference, and the names of the first few of them. */
typedef struct {
    char text[TEXT];
    int64_t count;
} fault_list;

static void add_fault(fault_list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_fault(fault_list *list, const char *format, ...)
{
    size_t used = strlen(list->text);
    va_list arguments;
    if (list->count++ >= NAMED)
        return;
    used += (size_t)snprintf(list->text + used, TEXT - used, "%s", used ? ", " : "");
    va_start(arguments, format);
    if (used < TEXT)
        vsnprintf(list->text + used, TEXT - used, format, arguments);
    va_end(arguments);
}

static void show_shape(char *text, size_t capacity, const int64_t *shape, int dims)
{
    size_t used = (size_t)snprintf(text, capacity, "[");
    for (int i = 0; i < dims && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (used < capacity)
        snprintf(text + used, capacity - used, "]");
}

static void check_one(const ce_source *source, const cs_param *wanted, fault_list *missing, fault_list *shapes)
{
    int64_t at = ce_source_find(source, wanted->name);
    char has[128], wants[128];
    if (at < 0) {
        add_fault(missing, "%s", wanted->name);
        return;
    }
    const ce_source_tensor *found = &source->tensors[at];
    const cs_tensor *value = &wanted->value;
    if (found->dims == value->dims &&
        memcmp(found->shape, value->shape, (size_t)found->dims * sizeof *found->shape) == 0)
        return;
    show_shape(has, sizeof has, found->shape, found->dims);
    show_shape(wants, sizeof wants, value->shape, value->dims);
    add_fault(shapes, "%s is %s and should be %s", wanted->name, has, wants);
}

cs_status ce_huggingface_check(ce_source *source, const cs_model *model, const ce_model_facts *facts,
                               const char *folder)
{
    fault_list missing = { "", 0 }, shapes = { "", 0 }, unexpected = { "", 0 };
    CS_TRY(ce_huggingface_rename(source, model, facts));
    for (int i = 0; i < model->total; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++)
            if (!model->units[i]->entries[at]->lora)
                check_one(source, &model->units[i]->entries[at]->param, &missing, &shapes);
    for (int64_t i = 0; i < source->count; i++)
        if (!ce_model_find(model, source->tensors[i].name))
            add_fault(&unexpected, "%s", source->tensors[i].name);
    if (missing.count + shapes.count + unexpected.count == 0)
        return CS_OK;
    return ce_fail(CS_BAD_FILE,
                   "the weights in %s are not those of the model its config.json describes: %lld missing (%s), %lld "
                   "unexpected (%s), %lld of another shape (%s)",
                   folder, (long long)missing.count, missing.text, (long long)unexpected.count, unexpected.text,
                   (long long)shapes.count, shapes.text);
}
