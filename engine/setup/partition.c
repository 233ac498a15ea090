/* partition.c - compares the rules of DeepSpeed's tensor_parallel.partition_config with what the model cuts. The cuts of
 * the model are used; they give the same numbers as the rules would, but a rule that says something else may be a mistake.
 *
 * DeepSpeed gives a module with a matrix named NAME.weight the first rule one of whose expressions matches at the
 * beginning of that name, if the rule's model_types allow it. "column" divides the outputs of a linear layer, "row" its
 * inputs, and every rule but "skip" the columns of an embedding; a matrix without a rule stays whole. */
#include "setup/setup.h"
#include "base/log.h"
#include "base/must.h"
#include "text/pattern.h"

#include <string.h>
#include <strings.h>

typedef enum { WHOLE, OUTPUTS, INPUTS, CUTS } cut_kind;

static const char *const cut_names[CUTS] = { "keeps whole", "divides the outputs of", "divides the inputs of" };

/* Matrices of the model: how many they are, the first of them, and how the model cuts the first. */
typedef struct {
    int count;
    const char *first;
    cut_kind cut;
} matrices;

typedef struct {
    json_t *specs;
    const char *model_type;
    ce_matcher *matcher;
    matrices *matched, *against; /* for each rule */
    matrices unmatched;          /* cut by the model, and not named by a rule */
} comparison;

static void add(matrices *to, const char *name, cut_kind cut)
{
    if (to->count++ == 0) {
        to->first = name;
        to->cut = cut;
    }
}

/* Returns whether one of the rule's expressions matches at the beginning of the name. */
static bool names_it(const comparison *c, const json_t *rule, const char *name)
{
    json_t *item;
    size_t index;
    json_array_foreach (json_object_get(rule, "patterns"), index, item) {
        ce_pattern *pattern;
        ce_match match = { 0 };
        if (ce_pattern_open(&pattern, json_string_value(item), CE_PATTERN_OWN) != CS_OK)
            continue;
        bool found = ce_pattern_next(pattern, c->matcher, name, strlen(name), &match) && match.from == 0;
        ce_pattern_close(pattern);
        if (found)
            return true;
    }
    return false;
}

static bool is_for_model(const comparison *c, const json_t *rule)
{
    json_t *types = json_object_get(rule, "model_types"), *item;
    size_t index;
    bool any = json_array_size(types) == 0;
    json_array_foreach (types, index, item)
        any = any || (c->model_type && json_is_string(item) && strcasecmp(json_string_value(item), c->model_type) == 0);
    return any;
}

/* Returns how a rule divides a matrix. A shape is a view of the matrix whose last dimension is the inputs. */
static cut_kind cut_of_rule(const json_t *rule, bool embedding)
{
    const char *type = json_string_value(json_object_get(rule, "partition_type"));
    json_t *shape = json_object_get(rule, "shape"), *dim = json_object_get(rule, "partition_dim");
    if (type && strcasecmp(type, "skip") == 0)
        return WHOLE;
    if (embedding)
        return INPUTS;
    if (json_is_array(shape) && json_is_integer(dim))
        return json_integer_value(dim) == (json_int_t)json_array_size(shape) - 1 ? INPUTS : OUTPUTS;
    return type && strcasecmp(type, "row") == 0 ? INPUTS : OUTPUTS;
}

/* The matrices of GPT-2's layers are transposed: their rows are the inputs. */
static cut_kind cut_of_model(const comparison *c, const ce_unit_entry *entry, bool embedding)
{
    bool transposed = !embedding && c->model_type && strcmp(c->model_type, "gpt2") == 0;
    if (entry->cut.count == 1 && entry->cut.part[0].count == entry->cut.whole[entry->cut.dim])
        return WHOLE;
    return (entry->cut.dim == 0) != transposed ? OUTPUTS : INPUTS;
}

static void compare(comparison *c, const ce_unit_entry *entry, bool embedding)
{
    cut_kind cut = cut_of_model(c, entry, embedding);
    size_t index;
    json_t *rule;
    json_array_foreach (c->specs, index, rule) {
        if (!is_for_model(c, rule) || !names_it(c, rule, entry->full_name))
            continue;
        add(&c->matched[index], entry->full_name, cut);
        if (cut_of_rule(rule, embedding) != cut)
            add(&c->against[index], entry->full_name, cut);
        return;
    }
    if (cut != WHOLE)
        add(&c->unmatched, entry->full_name, cut);
}

static void report(const comparison *c)
{
    static const char path[] = "tensor_parallel.partition_config";
    for (size_t i = 0; i < json_array_size(c->specs); i++) {
        json_t *rule = json_array_get(c->specs, i);
        const char *type = json_string_value(json_object_get(rule, "partition_type"));
        CE_FREED char *patterns = json_dumps(json_object_get(rule, "patterns"), JSON_COMPACT | JSON_ENCODE_ANY);
        const matrices *against = &c->against[i];
        if (c->matched[i].count == 0)
            ce_log(CE_LOG_WARNING, "%s: layer_specs[%zu] (%s) is the first rule of no matrix of the model", path, i,
                   patterns ? patterns : "no patterns");
        else if (against->count > 0)
            ce_log(
                CE_LOG_WARNING,
                "%s: layer_specs[%zu] (%s) is \"%s\", but of %d of its %d matrices the model says otherwise: it %s %s; "
                "the model's cuts are used, and give the same numbers",
                path, i, patterns, type ? type : "column", against->count, c->matched[i].count, cut_names[against->cut],
                against->first);
    }
    if (c->unmatched.count > 0)
        ce_log(CE_LOG_INFO, "%s: the model also cuts %d matrices that no rule names, the first of which is %s", path,
               c->unmatched.count, c->unmatched.first);
}

/* Returns an error if an expression is wrong. */
static cs_status check_patterns(json_t *specs)
{
    json_t *rule, *item;
    size_t index, at;
    json_array_foreach (specs, index, rule)
        json_array_foreach (json_object_get(rule, "patterns"), at, item)
            if (!json_is_string(item) || !ce_pattern_compiles(json_string_value(item)))
                return ce_fail(CS_BAD_CONFIG,
                               "tensor_parallel.partition_config: patterns[%zu] of layer_specs[%zu] is %s: a regular "
                               "expression of names is needed",
                               at, index, json_is_string(item) ? json_string_value(item) : "no text");
    return CS_OK;
}

cs_status ce_partition_compare(const cs_engine *engine)
{
    const cs_model *model = engine->model;
    json_t *specs = json_object_get(engine->settings->autotp.partition, "layer_specs");
    if (model->tp.size == 1 || json_array_size(specs) == 0)
        return CS_OK;
    CE_TRY(check_patterns(specs));
    CE_FREED matrices *counts = ce_must_alloc(2 * json_array_size(specs) * sizeof *counts);
    comparison c = { .specs = specs,
                     .model_type = json_string_value(json_object_get(engine->model_json, "model_type")),
                     .matcher = ce_matcher_open(),
                     .matched = counts,
                     .against = counts + json_array_size(specs) };
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            const ce_unit_entry *entry = model->units[i]->entries[at];
            if (!entry->lora && entry->param.value.dims == 2)
                compare(&c, entry, i == 0);
        }
    ce_matcher_close(c.matcher);
    report(&c);
    return CS_OK;
}
