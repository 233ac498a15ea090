/* data_rules.c - how keys about data, and a configuration of DeepSpeed, become keys of the configuration. */
#include "base/files.h"
#include "base/must.h"
#include "recipe/values.h"

#include <string.h>

bool cl_rule_packing(cl_conversion *c, const char *path, const json_t *value)
{
    if (cl_value_is_on(value) && !json_object_get(c->from, "packing_strategy"))
        cl_rules_set(c, path, json_string("documents"));
    return true;
}

/* TRL reads it only if packing is on. */
bool cl_rule_packing_strategy(cl_conversion *c, const char *path, const json_t *value)
{
    if (!cl_value_is_on(json_object_get(c->from, "packing")))
        return true;
    if (cl_value_is(value, "bfd_split"))
        cl_rules_set(c, "cspeed.data.long", json_string("split"));
    else if (!cl_value_is(value, "bfd") && !cl_value_is(value, "wrapped"))
        return cl_rules_no(c, "bfd, bfd_split or wrapped is needed");
    cl_rules_set(c, path, json_string(cl_value_is(value, "wrapped") ? "windows" : "documents"));
    return true;
}

/* Adds a file or folder of data to the list at `path`. */
static bool add_data(cl_conversion *c, const char *path, const char *name)
{
    json_t *data = json_object_get(json_object_get(c->to->config, "cspeed"), "data");
    json_t *files = json_object_get(data, strrchr(path, '.') + 1);
    CE_FREED char *beside = ce_must_print("%s/%s", c->folder, name);
    const char *file = ce_files_exists(name) ? name : ce_files_exists(beside) ? beside : NULL;
    if (!*name)
        return cl_rules_no(c, "the path of a file or folder is needed");
    if (!file) {
        snprintf(c->reason, sizeof c->reason,
                 "there is no file %.200s; a data set of the Hub is downloaded by `hf download --repo-type dataset "
                 "%.200s`, and its files are named in %s",
                 name, name, path);
        return false;
    }
    if (files)
        json_array_append_new(files, json_string(file));
    else
        cl_rules_set(c, path, json_pack("[s]", file));
    return true;
}

/* Adds one data set: a name, or axolotl's object with a path. Other members of the object are not taken. */
static bool add_set(cl_conversion *c, const char *path, const json_t *set)
{
    static const char *const taken[] = { "path", "data_files", "type",
                                         "ds_type" }; /* rows are recognized by their keys */
    json_auto_t *files = cl_value_list(json_object_get(set, "data_files"));
    const char *key;
    json_t *member;
    size_t i;
    json_object_foreach ((json_t *)set, key, member) {
        bool known = cl_value_is_off(member);
        for (i = 0; i < sizeof taken / sizeof *taken; i++)
            known = known || strcmp(taken[i], key) == 0;
        if (!known) {
            CE_FREED char *line =
                ce_must_print("datasets.%s: members of a data set other than its path are not taken", key);
            json_array_append_new(c->to->lost, json_string(line));
        }
    }
    if (json_array_size(files) == 0)
        return add_data(c, path, cl_value_text(json_is_object(set) ? json_object_get(set, "path") : set));
    bool found = true;
    json_array_foreach (files, i, member)
        found = add_data(c, path, cl_value_text(member)) && found;
    return found;
}

bool cl_rule_data(cl_conversion *c, const char *path, const json_t *value)
{
    json_auto_t *sets = json_is_object(value) ? json_pack("[O]", value) : cl_value_list(value);
    json_t *set;
    bool found = true;
    size_t i;
    if (json_is_string(value) && ce_files_exists(cl_value_text(value))) /* a name with a space */
        return add_data(c, path, cl_value_text(value));
    json_array_foreach (sets, i, set)
        found = add_set(c, path, set) && found;
    return found;
}

/* LLaMA-Factory's templates are those of the models; axolotl's are named as here. */
bool cl_rule_chat_template(cl_conversion *c, const char *path, const json_t *value)
{
    bool own = json_object_get(c->from, "template") || strncmp(cl_value_text(value), "tokenizer_default", 17) == 0;
    cl_rules_set(c, path, json_string(own ? "auto" : cl_value_text(value)));
    return true;
}

/* A configuration of DeepSpeed; keys of the recipe have priority. */
bool cl_rule_deepspeed(cl_conversion *c, const char *path, const json_t *value)
{
    ce_json *doc = NULL;
    CE_FREED char *beside = ce_must_print("%s/%s", c->folder, cl_value_text(value));
    const char *file = ce_files_exists(cl_value_text(value)) ? cl_value_text(value) : beside;
    (void)path;
    if (json_is_object(value)) {
        json_object_update_recursive(c->to->config, (json_t *)value);
        return true;
    }
    if (ce_json_open(&doc, file) != CS_OK)
        return cl_rules_no(c, cs_error());
    json_object_update_recursive(c->to->config, ce_json_root(doc));
    ce_json_close(doc);
    return true;
}
