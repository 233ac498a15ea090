/* huggingface_wrapped.c - folders of models with images (models/wrapped.h): the tensors of the text model get its names,
 * and what is written has all tensors of such a folder, those of the text model with new values. */
#include "interchange/huggingface_folder.h"
#include "interchange/huggingface.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

void ce_huggingface_unwrap(ce_source *source, const ce_wrapped *wrapped)
{
    char name[CE_WRAPPED_NAME];
    for (int64_t i = source->count - 1; i >= 0; i--)
        if (!ce_wrapped_name(wrapped, name, source->tensors[i].name))
            ce_huggingface_remove_tensor(source, i);
        else if (strcmp(name, source->tensors[i].name) != 0)
            ce_huggingface_rename_tensor(source, i, ce_must_copy(name));
}

/* For each tensor of the folder: its number in `text`, or -1 if its values are those of the folder. */
typedef struct {
    ce_source text, folder;
    int64_t *from;
} both;

static cs_status read_range(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    both *b = source->private_data;
    ce_source *from = b->from[tensor] < 0 ? &b->folder : &b->text;
    return from->read(from, b->from[tensor] < 0 ? tensor : b->from[tensor], range, to, dtype);
}

static void close_both(ce_source *source)
{
    both *b = source->private_data;
    ce_source_close(&b->text);
    ce_source_close(&b->folder);
    free(b->from);
    free(b);
}

/* Removes the second name of a tied head from the list of the folder's tensors, and finds the tensors of the text. */
static int64_t match(both *b, const ce_wrapped *wrapped)
{
    char name[CE_WRAPPED_NAME];
    int64_t matched = 0;
    for (int64_t i = b->folder.count - 1; i >= 0; i--)
        if (ce_wrapped_name(wrapped, name, b->folder.tensors[i].name) && ce_source_find(&b->text, name) < 0)
            ce_huggingface_remove_tensor(&b->folder, i);
    b->from = ce_must_alloc((size_t)(b->folder.count + 1) * sizeof *b->from);
    for (int64_t i = 0; i < b->folder.count; i++) {
        bool text = ce_wrapped_name(wrapped, name, b->folder.tensors[i].name);
        b->from[i] = text ? ce_source_find(&b->text, name) : -1;
        b->folder.tensors[i].kept = !text;
        matched += text;
    }
    return matched;
}

cs_status ce_huggingface_wrap(ce_source *source, const ce_wrapped *wrapped, const char *folder)
{
    if (!folder)
        return ce_fail(
            CS_UNSUPPORTED,
            "not supported: exporting a model of model_type \"%s\" that did not begin with a folder, because "
            "the weights of its other parts are unknown; train its text model (\"%s\") instead",
            wrapped->type, wrapped->text);
    both *b = ce_must_alloc(sizeof *b);
    cs_status status = ce_huggingface_open(&b->folder, folder);
    if (status != CS_OK) {
        free(b);
        return ce_fail(status, "the weights of the parts that are not trained are read from %s: %s", folder,
                       cs_error());
    }
    b->text = *source;
    int64_t matched = match(b, wrapped);
    *source = (ce_source){ .tensors = ce_must_alloc((size_t)(b->folder.count + 1) * sizeof *source->tensors),
                           .count = b->folder.count,
                           .read = read_range,
                           .close = close_both,
                           .private_data = b };
    memcpy(source->tensors, b->folder.tensors, (size_t)b->folder.count * sizeof *source->tensors);
    return matched == b->text.count
               ? CS_OK
               : ce_fail(CS_BAD_FILE, "%s has %lld tensors of the text model, and the model has %lld", folder,
                         (long long)matched, (long long)b->text.count);
}
