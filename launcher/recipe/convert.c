/* convert.c - converts a recipe: each key is taken by a rule (rules.c), or by the table of words of other trainers, or it
 * is listed with the reason why it is not. */
#include "recipe/values.h"
#include "base/must.h"
#include "base/underscored.h"
#include "config/words.h"

#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 120 }; /* longest value in a line of the report */

/* Writes a value as a user would write it, cut if it is long. */
static void write_value(char text[VALUE_BYTES], const json_t *value)
{
    CE_FREED char *json = json_is_string(value) ? ce_must_copy(json_string_value(value))
                                                : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    bool cut = strlen(json) >= VALUE_BYTES;
    int length = cut ? VALUE_BYTES - 4 : VALUE_BYTES - 1;
    while (cut && length > 0 && ((unsigned char)json[length] & 0xC0) == 0x80)
        length--; /* A character of several bytes is not divided. */
    snprintf(text, VALUE_BYTES, "%.*s%s", length, json, cut ? "..." : "");
}

static void list(json_t *lines, const char *name, const json_t *value, const char *reason)
{
    char text[VALUE_BYTES];
    write_value(text, value);
    CE_FREED char *line = ce_must_print("%s: %s: %s", name, text, reason);
    json_array_append_new(lines, json_string_nocheck(line));
}

/* Takes a key that the table of words answers and no rule converts. Returns false, with a reason, if it is not taken. */
static bool take_word(cl_conversion *c, const ce_word *word, const json_t *value)
{
    bool one = !strchr(word->key, ' ');
    if (word->kind == CE_WORD_KEY && one && word->key[0] == '-') {
        CE_FREED char *text = json_is_true(value) ? ce_must_copy("") : json_dumps(value, JSON_ENCODE_ANY);
        bool of_train = strcmp(word->key, "--fresh") == 0;
        if (!cl_value_is_off(value))
            fprintf(of_train ? c->train_flags : c->flags, " %s%s%s", word->key, *text ? " " : "", text);
        return true;
    }
    if (word->kind == CE_WORD_KEY && one && !*word->text) {
        cl_rules_set(c, word->key, cl_value_number(value));
        return true;
    }
    if (word->kind == CE_WORD_REFUSED)
        snprintf(c->reason, sizeof c->reason, "not supported, because %s", word->text);
    else
        snprintf(c->reason, sizeof c->reason, "set %s by hand%s%s", word->key, *word->text ? ": " : "", word->text);
    return false;
}

static bool has_variable(const json_t *value)
{
    return json_is_string(value) && strchr(json_string_value(value), '$');
}

static void convert_one(cl_conversion *c, const char *name, const json_t *value)
{
    const cl_rule *rule = cl_rules_find(name);
    const ce_word *word = ce_words_find(name, false);
    bool off = cl_value_is_off(value);
    snprintf(c->reason, sizeof c->reason, "cspeed does not know this key");
    if (json_is_null(value) || (off && !(rule ? cl_rules_takes_off(rule) : word && word->kind == CE_WORD_KEY)))
        c->to->carried++; /* It switches off what is not on here. */
    else if (has_variable(value))
        list(c->to->lost, name, value, "the value is a variable of the shell");
    else if (!rule && word && word->kind == CE_WORD_UNNEEDED)
        list(c->to->unneeded, name, value, word->text);
    else if (rule ? rule->take(c, rule->path, value) : word && take_word(c, word, value))
        c->to->carried++;
    else
        list(c->to->lost, name, value, c->reason);
}

/* Copies the keys of an object and of the sections in it, with underscores. `prefix` is "fsdp_" for the keys of FSDP,
 * which are written with and without it. */
static void flatten(cl_conversion *c, json_t *to, const json_t *from, const char *prefix)
{
    static const char *const sections[] = { "deepspeed_config", "fsdp_config", "trainer", "training_args",
                                            "special_tokens" };
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)from, key, value) {
        bool prefixed = strncmp(key, prefix, strlen(prefix)) == 0, section = false;
        CE_FREED char *name = ce_underscored(ce_must_print("%s%s", prefixed ? "" : prefix, key));
        for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
            section = section || strcmp(name, sections[i]) == 0;
        const json_t *before = json_object_get(to, name);
        if (section && json_object_size(value) > 0) {
            flatten(c, to, value, strcmp(name, "fsdp_config") == 0 ? "fsdp_" : "");
        } else {
            if (before && !json_equal(before, value))
                list(c->to->lost, name, before, "the recipe has the key twice, and its last value is taken");
            json_object_set(to, name, value);
        }
    }
}

/* Converts all keys. Files of DeepSpeed are read first, because the recipe's own keys have priority. */
static void convert_all(cl_conversion *c)
{
    static const char *const files[] = { "deepspeed", "deepspeed_config_file" };
    const char *key;
    json_t *value;
    for (int own = 0; own < 2; own++)
        json_object_foreach ((json_t *)c->from, key, value)
            if ((strcmp(key, files[0]) == 0 || strcmp(key, files[1]) == 0) != own)
                convert_one(c, key, value);
}

/* Trainer, and what is built on it, has defaults that differ from those of a ds_config.json. */
static void set_default(cl_conversion *c, const char *section, const char *key, const char *path, json_t *value)
{
    const json_t *at = section ? json_object_get(c->to->config, section) : c->to->config;
    if (json_object_get(at, key))
        json_decref(value);
    else
        cl_rules_set(c, path, value);
}

void cl_recipe_convert(cl_recipe *to, const json_t *from, const char *folder)
{
    size_t length;
    *to = (cl_recipe){ .config = json_object(), .lost = json_array(), .unneeded = json_array() };
    json_auto_t *all = json_object();
    cl_conversion c = { .to = to,
                        .from = all,
                        .folder = folder,
                        .flags = ce_must_stream(&to->flags, &length),
                        .train_flags = ce_must_stream(&to->train_flags, NULL),
                        .tokens = ce_must_stream(&to->tokens, NULL) };
    flatten(&c, all, from, "");
    convert_all(&c);
    set_default(&c, NULL, "gradient_clipping", "gradient_clipping", json_real(1));
    cl_rules_finish(&c);
    if (!json_object_get(json_object_get(json_object_get(to->config, "optimizer"), "params"), "lr"))
        cl_rules_set(&c, "optimizer.params.lr", json_real(5e-5));
    set_default(&c, "optimizer", "type", "optimizer.type", json_string("AdamW"));
    set_default(&c, "scheduler", "type", "scheduler.type",
                json_string(json_object_get(all, "base_model") ? "cosine" : "linear"));
    ce_must_finish(c.flags);
    ce_must_finish(c.train_flags);
    ce_must_finish(c.tokens);
    cl_tokens_finish(&c);
}

void cl_recipe_free(cl_recipe *recipe)
{
    json_decref(recipe->config);
    json_decref(recipe->lost);
    json_decref(recipe->unneeded);
    free(recipe->flags);
    free(recipe->train_flags);
    free(recipe->tokens);
}
