/* models.c - name to model; the table. */
#include "models/models.h"
#include "base/must.h"
#include "models/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cs_family *const families[] = {
    &cs_family_gpt2, &cs_family_llama, &cs_family_mistral, &cs_family_qwen2, &cs_family_qwen3,
};
enum { FAMILIES = sizeof families / sizeof *families };

/* Keys that change no model of these, or none at one value; a family's own row for such a key comes before. */
static const cs_key neutral[] = {
#include "models/neutral_keys.h"
};
enum { NEUTRAL = sizeof neutral / sizeof *neutral };

/* The family's table and what of the neutral keys it does not have. */
static cs_key *all_keys(const cs_family *family, int *count)
{
    cs_key *keys = calloc((size_t)family->key_count + NEUTRAL, sizeof *keys);
    CS_ASSERT(keys);
    memcpy(keys, family->keys, (size_t)family->key_count * sizeof *keys);
    *count = family->key_count;
    for (int i = 0; i < NEUTRAL; i++)
        if (!cs_keys_find(family->keys, family->key_count, neutral[i].name))
            keys[(*count)++] = neutral[i];
    return keys;
}

static const cs_family *find(const char *type)
{
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(families[i]->type, type) == 0)
            return families[i];
    return NULL;
}

cs_status cs_models_open(cs_model **model, cs_model_facts *facts, cs_json *doc, json_t *config, const char *path)
{
    *model                = NULL;
    const char      *type = json_string_value(json_object_get(config, "model_type"));
    const cs_family *family = type ? find(type) : NULL;
    if (!family) {
        if (type)
            cs_json_fault(doc, path, "model_type \"%s\" is not built in; there are: gpt2, llama, mistral, qwen2, qwen3",
                          type);
        else
            cs_json_fault(doc, path, "needs \"model_type\", a Hugging Face name such as \"gpt2\"");
        return cs_json_verdict(doc);
    }
    int     key_count;
    cs_key *keys     = all_keys(family, &key_count);
    void   *settings = calloc(1, family->settings_bytes);
    CS_ASSERT(settings);
    cs_keys_fill(doc, config, path, settings, keys, key_count);
    cs_status status = cs_json_verdict(doc);
    if (status == CS_OK)
        status = family->build(model, facts, &(cs_family_input){ settings, config, doc, path });
    facts->architecture = family->architecture;
    free(settings);
    free(keys);
    return status;
}

void cs_models_help(void)
{
    for (int i = 0; i < FAMILIES; i++) {
        char heading[256];
        snprintf(heading, sizeof heading, "cspeed.model, model_type \"%s\" (the keys of Hugging Face's config.json)",
                 families[i]->type);
        cs_keys_help(heading, families[i]->keys, families[i]->key_count);
    }
    cs_keys_help("cspeed.model, every model_type: keys without effect, or refused but at one value", neutral, NEUTRAL);
}
