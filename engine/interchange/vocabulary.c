/* vocabulary.c - writes a Hugging Face folder with a larger token table and head. */
#include "interchange/vocabulary.h"
#include "base/files.h"
#include "base/must.h"
#include "checkpoint/convert.h"
#include "interchange/huggingface.h"
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* ---- a source with more rows ---- */

enum { GROWN = 3 }; /* the table, the head, the bias of the head */

typedef struct {
    ce_source inner;
    int64_t before;
    struct {
        int64_t tensor; /* -1: none */
        float *mean;    /* the new rows */
    } grown[GROWN];
} larger;

static void close_larger(ce_source *source)
{
    larger *all = source->private_data;
    for (int i = 0; i < GROWN; i++)
        free(all->grown[i].mean);
    ce_source_close(&all->inner);
    free(all);
}

static int64_t columns_of(const ce_source_tensor *tensor)
{
    return tensor->dims > 1 ? tensor->shape[1] : 1;
}

static cs_status read_mean(float **mean, ce_source *inner, int64_t tensor)
{
    int64_t columns = columns_of(&inner->tensors[tensor]), rows = inner->tensors[tensor].shape[0];
    CE_FREED float *row = ce_must_alloc((size_t)columns * sizeof *row);
    CE_FREED double *sums = ce_must_alloc((size_t)columns * sizeof *sums);
    for (int64_t i = 0; i < rows; i++) {
        CE_TRY(inner->read(inner, tensor, (ce_range){ i * columns, (i + 1) * columns }, row, CS_F32));
        for (int64_t at = 0; at < columns; at++)
            sums[at] += (double)row[at];
    }
    *mean = ce_must_alloc((size_t)columns * sizeof **mean);
    for (int64_t at = 0; at < columns; at++)
        (*mean)[at] = (float)(sums[at] / (double)rows);
    return CS_OK;
}

/* Writes elements of new rows, which are all equal, to `to`. */
static void repeat(const float *mean, int64_t columns, ce_range range, void *to, cs_dtype dtype)
{
    for (int64_t at = range.from, next; at < range.to; at = next) {
        int64_t first = at % columns;
        next = at + columns - first < range.to ? at + columns - first : range.to;
        ce_convert_elements((char *)to + (size_t)(at - range.from) * cs_dtype_bytes(dtype), dtype, mean + first, CS_F32,
                            next - at);
    }
}

static cs_status read_larger(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    larger *all = source->private_data;
    const float *mean = NULL;
    for (int i = 0; i < GROWN; i++)
        mean = all->grown[i].tensor == tensor ? all->grown[i].mean : mean;
    int64_t columns = columns_of(&source->tensors[tensor]), end = all->before * columns;
    ce_range old = { range.from, mean && range.to > end ? end : range.to };
    if (old.from < old.to)
        CE_TRY(all->inner.read(&all->inner, tensor, old, to, dtype));
    if (!mean || range.to <= end)
        return CS_OK;
    ce_range new = { range.from > end ? range.from : end, range.to };
    repeat(mean, columns, new, (char *)to + (size_t)(new.from - range.from) * cs_dtype_bytes(dtype), dtype);
    return CS_OK;
}

/* Finds the tensors that have a row for each token: the first parameter of the model, the head and its bias. */
static void find_grown(larger *all, const cs_model *model)
{
    const cs_unit *last = model->units[model->count - 1];
    all->grown[0].tensor = ce_source_find(&all->inner, ce_model_first(model));
    for (int i = 1; i < GROWN; i++)
        all->grown[i].tensor = -1;
    for (int at = 0; at < last->entry_count; at++) {
        const ce_unit_entry *entry = last->entries[at];
        if (!entry->param.linear || entry->param.value.dims != 2)
            continue;
        CE_FREED char *bias =
            ce_must_print("%.*s.bias", (int)(strlen(entry->full_name) - strlen(".weight")), entry->full_name);
        all->grown[1].tensor = ce_source_find(&all->inner, entry->full_name);
        all->grown[2].tensor = ce_source_find(&all->inner, bias);
    }
}

/* Replaces *source by a source whose tables have `rows` rows. */
static cs_status put_larger(ce_source *source, const cs_model *model, int64_t rows)
{
    larger *all = ce_must_alloc(sizeof *all);
    all->inner = *source;
    find_grown(all, model);
    *source = (ce_source){ .tensors = ce_must_alloc((size_t)(all->inner.count + 1) * sizeof *source->tensors),
                           .count = all->inner.count,
                           .read = read_larger,
                           .close = close_larger,
                           .private_data = all };
    for (int64_t i = 0; i < source->count; i++) {
        source->tensors[i] = all->inner.tensors[i];
        source->tensors[i].kept = true;
    }
    all->before = source->tensors[all->grown[0].tensor].shape[0];
    for (int i = 0; i < GROWN; i++)
        if (all->grown[i].tensor >= 0) {
            source->tensors[all->grown[i].tensor].shape[0] = rows;
            CE_TRY(read_mean(&all->grown[i].mean, &all->inner, all->grown[i].tensor));
        }
    return CS_OK;
}

/* ---- the folder ---- */

/* Sets the number of tokens in config.json, and the ids of named tokens. A padding token that the model had is not set,
 * because transformers does not train the row that pad_token_id names. */
static json_t *set_config(json_t *config, const ce_vocabulary *vocabulary, const ce_vocabulary_tokens *tokens)
{
    static const char *const keys[] = { "bos", "eos", "pad" };
    json_t *ends = json_array();
    json_object_set_new(config, "vocab_size", json_integer(vocabulary->after));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        CE_FREED char *name = ce_must_print("%s_token", keys[i]), *key = ce_must_print("%s_token_id", keys[i]);
        json_t *id = json_object_get(tokens->named, name);
        bool old = json_integer_value(id) < tokens->size - tokens->added;
        if (id && !(old && strcmp(keys[i], "pad") == 0))
            json_object_set(config, key, id);
        if (id && strcmp(keys[i], "eos") == 0)
            json_array_append(ends, id);
    }
    return ends;
}

static cs_status write_folder(ce_vocabulary *vocabulary, ce_source *source, const cs_model *model, json_t *config,
                              const ce_vocabulary_tokens *tokens)
{
    int64_t needed = (tokens->size + vocabulary->multiple - 1) / vocabulary->multiple * vocabulary->multiple;
    const ce_source_tensor *table = &source->tensors[ce_source_find(source, ce_model_first(model))];
    cs_dtype dtype = table->dtype;
    vocabulary->added = tokens->added;
    vocabulary->before = table->shape[0];
    vocabulary->after = needed > vocabulary->before ? needed : vocabulary->before;
    CE_TRY(put_larger(source, model, vocabulary->after));
    json_auto_t *ends = set_config(config, vocabulary, tokens);
    return ce_huggingface_write(&(ce_huggingface_output){ .folder = vocabulary->to,
                                                          .dtype = dtype,
                                                          .max_shard = vocabulary->max_shard,
                                                          .config = config,
                                                          .beside = vocabulary->from,
                                                          .files = tokens->files,
                                                          .ends = ends },
                                source);
}

cs_status ce_vocabulary_extend(ce_vocabulary *vocabulary)
{
    CE_CLOSED(ce_source_close) ce_source source = { 0 };
    CE_CLOSED(ce_vocabulary_drop) ce_vocabulary_tokens tokens = { 0 };
    CE_FREED char *path = ce_files_join(vocabulary->from, "config.json");
    ce_model_facts facts = { 0 };
    cs_model *model = NULL;
    ce_json *doc = NULL;
    if (ce_files_exists(vocabulary->to))
        return ce_fail(CS_BAD_CONFIG, "%s exists already: name a new folder", vocabulary->to);
    CE_TRY(ce_vocabulary_add(&tokens, vocabulary));
    CE_TRY(ce_json_open(&doc, path));
    cs_status status = ce_huggingface_open_model(&model, &facts, doc, vocabulary->from);
    if (status == CS_OK && facts.wrapped)
        status = ce_fail(CS_UNSUPPORTED,
                         "not supported: more tokens for model_type \"%s\", because its other parts may "
                         "name tokens by their ids",
                         facts.wrapped->type);
    if (status == CS_OK)
        status = ce_huggingface_open(&source, vocabulary->from);
    if (status == CS_OK)
        status = ce_huggingface_check(&source, model, &facts, vocabulary->from);
    if (status == CS_OK)
        status = write_folder(vocabulary, &source, model, ce_json_root(doc), &tokens);
    cs_model_free(model);
    ce_json_close(doc);
    return status;
}
