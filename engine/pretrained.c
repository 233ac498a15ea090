/* pretrained.c - first values from a Hugging Face folder: each rank reads the ranges that are its own. */
#include "engine.h"
#include "base/log.h"
#include "checkpoint/agree.h"
#include "checkpoint/huggingface.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED = 8, TEXT = 4096 };

/* Names of one sort of fault, the first few of them. */
typedef struct {
    char    text[TEXT];
    int64_t count;
} fault_list;

static void add_fault(fault_list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_fault(fault_list *list, const char *format, ...)
{
    size_t  used = strlen(list->text);
    va_list arguments;
    if (list->count++ >= NAMED)
        return;
    used += (size_t)snprintf(list->text + used, TEXT - used, "%s", used ? ", " : "");
    va_start(arguments, format);
    if (used < TEXT)
        vsnprintf(list->text + used, TEXT - used, format, arguments);
    va_end(arguments);
}

static const cs_unit_entry *find_entry(const cs_model *model, const char *name)
{
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++)
            if (strcmp(model->units[i]->entries[at]->full_name, name) == 0)
                return model->units[i]->entries[at];
    return NULL;
}

static void show_shape(char *text, size_t room, int dims, const int64_t *shape)
{
    size_t used = (size_t)snprintf(text, room, "[");
    for (int i = 0; i < dims && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (used < room)
        snprintf(text + used, room - used, "]");
}

static void check_entry(const cs_source *source, const cs_unit_entry *entry, fault_list *missing, fault_list *shapes)
{
    int64_t   at    = cs_source_find(source, entry->full_name);
    cs_tensor value = entry->param.value;
    char      has[128], wants[128];
    if (at < 0) {
        add_fault(missing, "%s", entry->full_name);
        return;
    }
    const cs_source_tensor *found = &source->tensors[at];
    if (found->dims == value.dims && memcmp(found->shape, value.shape, (size_t)found->dims * sizeof *found->shape) == 0)
        return;
    show_shape(has, sizeof has, found->dims, found->shape);
    show_shape(wants, sizeof wants, value.dims, value.shape);
    add_fault(shapes, "%s is %s and should be %s", entry->full_name, has, wants);
}

/* Strict: every parameter is there in its shape, and there is nothing else but a tied head's second name. */
static cs_status check_names(const cs_engine *engine, const cs_source *source, const char *folder)
{
    fault_list missing = { "", 0 }, shapes = { "", 0 }, unexpected = { "", 0 };
    for (int i = 0; i < engine->model->count; i++)
        for (int at = 0; at < engine->model->units[i]->entry_count; at++)
            check_entry(source, engine->model->units[i]->entries[at], &missing, &shapes);
    for (int64_t i = 0; i < source->count; i++) {
        const char *name = source->tensors[i].name;
        bool        tied = engine->facts.alias && strcmp(name, engine->facts.alias) == 0;
        if (!tied && !find_entry(engine->model, name))
            add_fault(&unexpected, "%s", name);
    }
    if (missing.count + shapes.count + unexpected.count == 0)
        return CS_OK;
    return cs_fail(CS_BAD_FILE,
                   "the weights in %s are not those of the model its config.json describes: %lld missing (%s), %lld "
                   "unexpected (%s), %lld of another shape (%s)",
                   folder, (long long)missing.count, missing.text, (long long)unexpected.count, unexpected.text,
                   (long long)shapes.count, shapes.text);
}

static cs_status read_shard(cs_engine *engine, cs_source *source, int i)
{
    int             count  = engine->model->units[i]->entry_count;
    cs_shard_piece *pieces = calloc((size_t)count + 1, sizeof *pieces);
    cs_status       status = pieces ? CS_OK : cs_fail(CS_NO_MEMORY, "out of memory for a list of tensors");
    count                  = pieces ? cs_shard_pieces(engine->shards[i], pieces) : 0;
    for (int at = 0; at < count && status == CS_OK; at++)
        status = source->read(source, cs_source_find(source, pieces[at].entry->full_name), pieces[at].range,
                              pieces[at].master, engine->zero.precision.masters);
    free(pieces);
    return status;
}

static cs_status read_all(cs_engine *engine, const char *folder)
{
    cs_source source;
    CS_TRY(cs_huggingface_open(&source, folder));
    cs_status status = check_names(engine, &source, folder);
    for (int i = 0; i < engine->model->count && status == CS_OK; i++)
        status = read_shard(engine, &source, i);
    if (status == CS_OK)
        cs_log(CS_LOG_INFO, "first values: %lld tensors of %s", (long long)source.count, folder);
    cs_source_close(&source);
    return status;
}

cs_status cs_pretrained_load(cs_engine *engine)
{
    const char *folder = engine->settings->model_path;
    bool        found  = false;
    if (!folder || !engine->model_json)
        return CS_OK;
    cs_status status = cs_huggingface_look(&found, folder);
    if (status == CS_OK && found)
        status = read_all(engine, folder);
    CS_TRY(cs_agree_status(engine->comm, status));
    for (int i = 0; i < engine->model->count && found; i++)
        cs_shard_spread(engine->shards[i]);
    return CS_OK;
}
