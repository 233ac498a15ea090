/* huggingface_names.c - gives the tensors of a Hugging Face folder the names that the model has. */
#include "interchange/huggingface_folder.h"
#include "interchange/huggingface.h"
#include "base/ends_with.h"
#include "base/log.h"
#include "base/must.h"
#include "hub/hub.h"
#include "cspeed/cspeed.h"
#include "cspeed/ops.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds the prefix of the model's class to the names of tensors, if the source has the model's first parameter without
 * this prefix. In the model all names have the prefix, except those of the head and its alias. */
static cs_status add_prefix(ce_source *source, const cs_model *model, const ce_model_facts *facts)
{
    const char *first = ce_model_first(model), *rest = strchr(first, '.');
    if (!rest || ce_source_find(source, first) >= 0 || ce_source_find(source, rest + 1) < 0)
        return CS_OK;
    for (int64_t i = 0; i < source->count; i++) {
        const char *name = source->tensors[i].name;
        char *full = NULL;
        if (ce_model_find(model, name) || (facts->alias && strcmp(name, facts->alias) == 0))
            continue;
        if (asprintf(&full, "%.*s%s", (int)(rest + 1 - first), first, name) < 0)
            return ce_fail(CS_NO_MEMORY, "out of memory for a tensor's name");
        ce_huggingface_rename_tensor(source, i, full);
    }
    return CS_OK;
}

/* Sets *differs to true if the tensors `one` and `other` differ in their shape or in a value. */
static cs_status compare_tensors(bool *differs, ce_source *source, int64_t one, int64_t other)
{
    const ce_source_tensor *a = &source->tensors[one], *b = &source->tensors[other];
    int64_t count = ce_source_elements(a), window = CE_SOURCE_BUFFER / 8;
    *differs = a->dims != b->dims || memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) != 0;
    float *values = malloc(2 * (size_t)window * sizeof *values);
    cs_status status = values ? CS_OK : ce_fail(CS_NO_MEMORY, "out of memory for comparing two tensors");
    for (int64_t from = 0; from < count && status == CS_OK && !*differs; from += window) {
        ce_range range = { from, from + window < count ? from + window : count };
        status = source->read(source, one, range, values, CS_F32);
        if (status == CS_OK)
            status = source->read(source, other, range, values + window, CS_F32);
        *differs =
            status == CS_OK && memcmp(values, values + window, (size_t)ce_range_length(range) * sizeof *values) != 0;
    }
    free(values);
    return status;
}

/* Sets *differs to true if the source has a head of its own, other than the table that the model's head shares. */
static cs_status compare_head(bool *differs, ce_source *source, const ce_model_facts *facts)
{
    int64_t head = facts->alias ? ce_source_find(source, facts->alias) : -1;
    int64_t table = head >= 0 ? ce_source_find(source, facts->alias_of) : -1;
    *differs = false;
    return table >= 0 ? compare_tensors(differs, source, head, table) : CS_OK;
}

static void remove_alias(ce_source *source, const ce_model_facts *facts)
{
    int64_t head = facts->alias ? ce_source_find(source, facts->alias) : -1;
    char *table = head >= 0 && ce_source_find(source, facts->alias_of) < 0 ? strdup(facts->alias_of) : NULL;
    if (table)
        ce_huggingface_rename_tensor(source, head, table);
    else if (head >= 0)
        ce_huggingface_remove_tensor(source, head);
}

/* ---- experts ----
 *
 * Published weights have a matrix for each expert, and so has the model. transformers 5 can save the matrices of all
 * experts of a layer as one tensor, in which the elements of each matrix are consecutive. Such a tensor is read as one
 * tensor for each matrix. In transformers 5 the router of Mixtral has another name too. */

/* The name of the feed-forward in each family, and the names of an expert's three matrices in it: gate, up, down. If there
 * is no up, the model has gate and up in one matrix too. */
static const struct {
    const char *block, *matrix[3];
} expert_names[] = { { "mlp", { "gate_proj", "up_proj", "down_proj" } },
                     { "block_sparse_moe", { "w1", "w3", "w2" } },
                     { "mlp", { "gate_up_proj", NULL, "down_proj" } } };
enum { EXPERT_NAMES = sizeof expert_names / sizeof *expert_names };

/* The names that transformers 5 gives to the router and to the experts of a layer. `end` is the end of the name. A
 * tensor of experts holds the matrices `first` to `first + count - 1` of each expert (0: gate, 1: up, 2: down). */
static const struct {
    const char *end;
    int first, count; /* A count of 0 means that the tensor is the router's. */
} expert_tensors[] = { { "mlp.gate.weight", 0, 0 },
                       { "mlp.experts.gate_up_proj", 0, 2 },
                       { "mlp.experts.down_proj", 2, 1 } };

/* Returns the model's name of a matrix of expert e, or of the router if e is below 0. The name begins with the first
 * `length` characters of `place`. The caller frees the name. */
static char *expert_name(const char *place, size_t length, int names, int64_t e, int matrix)
{
    char *name = NULL;
    int written = e < 0 ? asprintf(&name, "%.*s%s.gate.weight", (int)length, place, expert_names[names].block)
                        : asprintf(&name, "%.*s%s.experts.%lld.%s.weight", (int)length, place,
                                   expert_names[names].block, (long long)e, expert_names[names].matrix[matrix]);
    if (written < 0)
        ce_fatal(CS_NO_MEMORY, "out of memory for a tensor's name");
    return name;
}

/* Replaces a tensor that has the matrices of all experts by one tensor for each matrix. */
static void divide_experts(ce_source *source, int64_t tensor, size_t length, int names, int kind)
{
    ce_source_tensor from = source->tensors[tensor];
    int count = expert_names[names].matrix[1] ? expert_tensors[kind].count : 1;
    int64_t rows = from.shape[1] / count;
    for (int64_t e = 0; e < from.shape[0]; e++)
        for (int i = 0; i < count; i++)
            ce_huggingface_add_rows(source, tensor,
                                    expert_name(from.name, length, names, e, expert_tensors[kind].first + i),
                                    e * from.shape[1] + i * rows, rows);
    ce_huggingface_remove_tensor(source, tensor);
}

/* Changes a tensor that was saved by transformers 5. The tensor of a router gets the name that it has in the model. A
 * tensor of experts is replaced by one tensor for each matrix of the model. A tensor is not changed if its shape does
 * not fit, or if the model has no such parameters. */
static void rename_expert(ce_source *source, int64_t tensor, int kind, const cs_model *model)
{
    const ce_source_tensor *given = &source->tensors[tensor];
    size_t length = strlen(given->name) - strlen(expert_tensors[kind].end);
    bool router = expert_tensors[kind].count == 0;
    for (int names = 0; names < EXPERT_NAMES; names++) {
        char *name = expert_name(given->name, length, names, router ? -1 : 0, expert_tensors[kind].first);
        bool known = ce_model_find(model, name);
        if (known && router) {
            ce_huggingface_rename_tensor(source, tensor, name);
            return;
        }
        free(name);
        if (known && given->dims == 3 && given->shape[0] <= CS_MAX_EXPERTS &&
            (given->shape[1] % expert_tensors[kind].count == 0 || !expert_names[names].matrix[1])) {
            divide_experts(source, tensor, length, names, kind);
            return;
        }
    }
}

static void rename_experts(ce_source *source, const cs_model *model)
{
    for (int64_t i = source->count - 1; i >= 0; i--)
        for (int kind = 0; kind < 3; kind++)
            if (ce_ends_with(source->tensors[i].name, expert_tensors[kind].end)) {
                rename_expert(source, i, kind, model);
                break;
            }
}

static bool all_begin_with(const ce_source *source, const char *prefix)
{
    bool all = source->count > 0;
    for (int64_t i = 0; i < source->count; i++)
        all &= strncmp(source->tensors[i].name, prefix, strlen(prefix)) == 0;
    return all;
}

static cs_status remove_wrapper(ce_source *source, const char *prefix)
{
    for (int64_t i = 0; i < source->count; i++) {
        char *rest = strdup(source->tensors[i].name + strlen(prefix));
        if (!rest)
            return ce_fail(CS_NO_MEMORY, "out of memory for a tensor's name");
        ce_huggingface_rename_tensor(source, i, rest);
    }
    ce_log(CE_LOG_INFO,
           "%s: the names of all tensors begin with \"%s\", which a wrapper of PyTorch has added; they are read "
           "without it",
           ce_huggingface_first_file(source), prefix);
    return CS_OK;
}

/* Removes the prefixes that DistributedDataParallel and torch.compile put in front of every name. Names may begin with
 * both prefixes. */
static cs_status remove_wrappers(ce_source *source)
{
    static const char *const wrappers[] = { "module.", "_orig_mod." };
    for (int found = 1; found;) {
        found = 0;
        for (int i = 0; i < 2; i++)
            if (all_begin_with(source, wrappers[i])) {
                CE_TRY(remove_wrapper(source, wrappers[i]));
                found = 1;
            }
    }
    return CS_OK;
}

static cs_status complete_names(ce_source *source, const cs_model *model, const ce_model_facts *facts)
{
    CE_TRY(remove_wrappers(source));
    if (facts->wrapped)
        ce_huggingface_unwrap(source, facts->wrapped);
    return add_prefix(source, model, facts);
}

/* transformers does not tie a head to the token table if the folder has both tensors, with different values. */
static cs_status untie(bool *differs, const cs_model *model, const ce_model_facts *facts, const char *folder)
{
    ce_source source;
    *differs = false;
    if (ce_hub_lacks_weights(folder)) /* This command only plans, so they were not downloaded. */
        return CS_OK;
    CE_TRY(ce_huggingface_detect(differs, folder));
    if (!*differs)
        return CS_OK;
    CE_TRY(ce_huggingface_open(&source, folder));
    cs_status status = complete_names(&source, model, facts);
    if (status == CS_OK)
        status = compare_head(differs, &source, facts);
    ce_source_close(&source);
    return status;
}

cs_status ce_huggingface_open_model(cs_model **model, ce_model_facts *facts, ce_json *doc, const char *folder)
{
    json_t *config = ce_json_root(doc);
    bool differs;
    CE_TRY(ce_models_open(model, facts, doc, config, ""));
    cs_status status = facts->alias ? untie(&differs, *model, facts, folder) : CS_OK;
    if (status == CS_OK && (!facts->alias || !differs))
        return CS_OK;
    cs_model_free(*model);
    *model = NULL;
    CE_TRY(status);
    ce_json_warn(
        doc, "",
        "\"tie_word_embeddings\" is true, but %s and %s of the weights differ: the head has its own weights, as "
        "in transformers",
        facts->alias, facts->alias_of);
    json_object_set_new(config, "tie_word_embeddings", json_false());
    return ce_models_open(model, facts, doc, config, "");
}

/* Gives a head that is no longer tied (facts->untied) the values of the token table, unless the folder has its values. */
static void copy_table(ce_source *source, const ce_model_facts *facts)
{
    int64_t table = facts->untied ? ce_source_find(source, facts->untied_of) : -1;
    if (table >= 0 && ce_source_find(source, facts->untied) < 0)
        ce_huggingface_copy_tensor(source, table, ce_must_copy(facts->untied));
}

cs_status ce_huggingface_rename(ce_source *source, const cs_model *model, const ce_model_facts *facts)
{
    bool differs;
    CE_TRY(complete_names(source, model, facts));
    CE_TRY(compare_head(&differs, source, facts));
    if (differs)
        return ce_fail(CS_BAD_FILE,
                       "%s: %s is not the same as %s, though the model has one tensor for both "
                       "(\"tie_word_embeddings\": true)",
                       ce_huggingface_first_file(source), facts->alias, facts->alias_of);
    remove_alias(source, facts);
    copy_table(source, facts);
    rename_experts(source, model);
    return CS_OK;
}
