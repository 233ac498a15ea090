/* models.c - the models of Hugging Face's config.json by their model_type: the table of families, and the comparison of
 * two descriptions of a model. */
#include "models/models.h"
#include "base/must.h"
#include "models/family.h"
#include "unit/unit.h"
#include "models/other_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS(name) &ce_family_##name,
static const ce_family *const families[] = { CE_FAMILIES(ADDRESS) };
enum { FAMILIES = sizeof families / sizeof *families };

#define NAME(name) #name ", "
static const char names[] = CE_FAMILIES(NAME);
enum { NAMES_LENGTH = sizeof names - sizeof ", " };

/* Keys that every family accepts: keys without effect, and keys for which only one value is supported. If a family's
 * own key table has a row for the same key, the family's row is used instead. */
static const ce_key neutral[] = {
#include "models/neutral_keys.h"
};
enum { NEUTRAL = sizeof neutral / sizeof *neutral };

ce_key *ce_family_keys(const ce_key *own, int own_count, int *count)
{
    ce_key *keys = ce_must_alloc(((size_t)own_count + NEUTRAL) * sizeof *keys);
    memcpy(keys, own, (size_t)own_count * sizeof *keys);
    *count = own_count;
    for (int i = 0; i < NEUTRAL; i++)
        if (!ce_keys_find(own, own_count, neutral[i].name))
            keys[(*count)++] = neutral[i];
    return keys;
}

static const ce_family *find(const char *type)
{
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(families[i]->type, type) == 0)
            return families[i];
    return NULL;
}

static void check_width(const ce_family_input *input, const char *what, int64_t count)
{
    if (count < input->tp.size)
        ce_json_fault(input->doc, input->path,
                      "cspeed.mesh.tp %d is too large for this model: each rank needs at least one of its %lld %s",
                      input->tp.size, (long long)count, what);
}

cs_status ce_family_open(cs_model **model, const ce_family_input *input, int64_t width, int64_t heads, int64_t inner,
                         int64_t vocabulary)
{
    check_width(input, "attention heads", heads);
    check_width(input, "columns of the feed-forward", inner);
    check_width(input, "tokens of the vocabulary", vocabulary);
    CE_TRY(ce_json_verdict(input->doc));
    CE_TRY(cs_model_new(model, width));
    ce_model_divide(*model, input->tp);
    return CS_OK;
}

static cs_status open_text(cs_model **model, ce_model_facts *facts, ce_json *doc, json_t *config, const char *path)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const ce_family *family = type ? find(type) : NULL;
    if (!family) {
        if (type)
            ce_json_fault(doc, path, "model_type \"%s\" is not built in; there are: %.*s", type, NAMES_LENGTH, names);
        else
            ce_json_fault(doc, path, "needs \"model_type\", a Hugging Face name such as \"gpt2\"");
        return ce_json_verdict(doc);
    }
    int key_count;
    CE_FREED ce_key *known = ce_family_keys(family->keys, family->key_count, &key_count);
    ce_model_facts given = *facts;
    if (given.untied)
        json_object_set_new(config, "tie_word_embeddings", json_false());
    ce_other_keys_rename(type, config, doc, path);
    CE_FREED ce_key *keys = ce_other_keys_add(known, &key_count, config, doc, path);
    CE_FREED void *settings = ce_must_alloc(family->settings_bytes);
    ce_keys_fill(doc, config, path, settings, keys, key_count);
    cs_status status = ce_json_verdict(doc);
    ce_cut_group tp = given.tp.size ? given.tp : (ce_cut_group){ .size = 1 };
    if (status == CS_OK)
        status = family->build(model, facts, &(ce_family_input){ settings, config, doc, path, tp });
    facts->architecture = family->architecture;
    facts->tp = tp;
    facts->untied = given.untied;
    facts->untied_of = given.untied_of;
    return status;
}

cs_status ce_models_open(cs_model **model, ce_model_facts *facts, ce_json *doc, json_t *config, const char *path)
{
    const ce_wrapped *wrapped = ce_wrapped_find(json_string_value(json_object_get(config, "model_type")));
    char inside[256];
    *model = NULL;
    if (!wrapped)
        return open_text(model, facts, doc, config, path);
    json_t *text = ce_wrapped_open(wrapped, doc, config, path);
    if (!text)
        return ce_json_verdict(doc);
    snprintf(inside, sizeof inside, "%s%stext_config", path, *path ? "." : "");
    cs_status status = open_text(model, facts, doc, text, inside);
    facts->wrapped = wrapped;
    facts->architecture = wrapped->architecture;
    return status;
}

void ce_models_describe(json_t **description, const ce_model_facts *facts, json_t *config)
{
    *description = json_deep_copy(config);
    if (!json_object_get(config, "architectures"))
        json_object_set_new(*description, "architectures", json_pack("[s]", facts->architecture));
}

cs_status ce_models_open_described(cs_model **model, ce_model_facts *facts, json_t **description, ce_json *doc,
                                   json_t *config, const char *path)
{
    CE_TRY(ce_models_open(model, facts, doc, config, path));
    ce_models_describe(description, facts, config);
    return CS_OK;
}

void ce_models_help(void)
{
    for (int i = 0; i < FAMILIES; i++) {
        char heading[256];
        snprintf(heading, sizeof heading, "cspeed.model, model_type \"%s\" (the keys of Hugging Face's config.json)",
                 families[i]->type);
        ce_keys_help(heading, families[i]->keys, families[i]->key_count);
    }
    ce_keys_help("cspeed.model, every model_type: keys without effect, and keys that accept only one value", neutral,
                 NEUTRAL);
}

/* ---- comparison of two descriptions of a model ---- */

/* Returns the value of the key in the object, or the key's default. The caller owns the reference. */
static json_t *value_of(const json_t *config, const ce_key *key)
{
    json_t *value = json_object_get(config, key->name);
    return value && !json_is_null(value) ? json_incref(value) : json_loads(key->fallback, JSON_DECODE_ANY, NULL);
}

json_t *ce_models_value(const json_t *config, const char *key)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const ce_family *family = type ? find(type) : NULL;
    for (int i = 0; family && i < family->key_count; i++)
        if (strcmp(family->keys[i].name, key) == 0)
            return value_of(config, &family->keys[i]);
    return NULL;
}

/* True if the value is a size of 0, which means that the size follows from other keys. */
static bool is_derived(const ce_key *key, const json_t *value)
{
    return key->type == CE_KEY_INT && json_is_integer(value) && json_integer_value(value) == 0;
}

static bool differ(const ce_key *key, const json_t *one, const json_t *other)
{
    if (is_derived(key, one) || is_derived(key, other))
        return false;
    if (json_is_number(one) && json_is_number(other))
        return json_number_value(one) < json_number_value(other) || json_number_value(one) > json_number_value(other);
    return !json_equal(one, other);
}

static bool is_compared(const ce_key *key)
{
    return key->type != CE_KEY_INERT && key->type != CE_KEY_REFUSED && strcmp(key->name, "initializer_range") != 0;
}

static void add_difference(char text[CE_MODELS_DIFFERENCES], const char *name, const json_t *there, const json_t *here)
{
    size_t used = strlen(text);
    CE_FREED char *one = json_dumps(there, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    CE_FREED char *other = json_dumps(here, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    snprintf(text + used, CE_MODELS_DIFFERENCES - used, "%s%s (%s there, %s here)", used ? ", " : "", name,
             one ? one : "nothing", other ? other : "nothing");
}

void ce_models_compare(char text[CE_MODELS_DIFFERENCES], const json_t *there, const json_t *here)
{
    there = ce_wrapped_text(there);
    here = ce_wrapped_text(here);
    json_t *types[2] = { json_object_get(there, "model_type"), json_object_get(here, "model_type") };
    const char *type = json_string_value(types[1]);
    const ce_family *family = type ? find(type) : NULL;
    text[0] = 0;
    if (!json_equal(types[0], types[1])) {
        add_difference(text, "model_type", types[0], types[1]);
        return;
    }
    for (int i = 0; family && i < family->key_count; i++) {
        const ce_key *key = &family->keys[i];
        json_auto_t *one = is_compared(key) ? value_of(there, key) : NULL;
        json_auto_t *other = one ? value_of(here, key) : NULL;
        if (one && differ(key, one, other))
            add_difference(text, key->name, one, other);
    }
}
