/* wrapped.c - the models with images whose text model is trained. */
#include "models/wrapped.h"
#include "base/must.h"
#include "models/family.h"
#include "models/other_keys.h"

#include <stdio.h>
#include <string.h>

#define PARTS                                                                                                          \
    {                                                                                                                  \
        "vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."               \
    }
static const ce_wrapped all[] = {
    { "gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", PARTS },
    { "mistral3", "Mistral3ForConditionalGeneration", "mistral", PARTS },
};

#define IMAGES "only the text model is trained; the tensors of the other parts are exported unchanged"
static const ce_key keys[] = {
    CE_INERT("model_type", "it selects the model"),
    CE_INERT("text_config", "its keys are checked as those of the text model"),
    CE_INERT("vision_config", IMAGES),
    CE_INERT("mm_tokens_per_image", IMAGES),
    CE_INERT("boi_token_index", IMAGES),
    CE_INERT("eoi_token_index", IMAGES),
    CE_INERT("image_token_index", IMAGES),
    CE_INERT("multimodal_projector_bias", IMAGES),
    CE_INERT("projector_hidden_act", IMAGES),
    CE_INERT("spatial_merge_size", IMAGES),
    CE_INERT("vision_feature_layer", IMAGES),
    CE_INERT("tie_word_embeddings", "the text model's key of this name gets this value"),
    CE_INERT("initializer_range", "the text model's key of this name is used"),
};

/* The beginnings of names in the whole model, and what the text model has instead. */
static const struct {
    const char *whole, *text;
} names[] = { { "language_model.model.", "model." },
              { "language_model.lm_head.", "lm_head." },
              { "model.language_model.", "model." } };

const ce_wrapped *ce_wrapped_find(const char *type)
{
    for (size_t i = 0; type && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].type, type) == 0)
            return &all[i];
    return NULL;
}

const json_t *ce_wrapped_text(const json_t *config)
{
    const json_t *text = json_object_get(config, "text_config");
    bool wrapped = ce_wrapped_find(json_string_value(json_object_get(config, "model_type"))) != NULL;
    return wrapped && json_is_object(text) ? text : config;
}

json_t *ce_wrapped_open(const ce_wrapped *wrapped, ce_json *doc, json_t *config, const char *path)
{
    json_t *text = json_object_get(config, "text_config"), *tied = json_object_get(config, "tie_word_embeddings");
    if (!json_is_object(text)) {
        ce_json_fault(doc, path, "model_type \"%s\" needs \"text_config\", an object with the keys of its text model",
                      wrapped->type);
        return NULL;
    }
    int count;
    CE_FREED ce_key *known = ce_family_keys(CE_KEYS(keys), &count);
    CE_FREED ce_key *full = ce_other_keys_add(known, &count, config, doc, path);
    ce_keys_fill(doc, config, path, &count, full, count); /* no key has a field */
    if (!json_object_get(text, "model_type"))
        json_object_set_new(text, "model_type", json_string(wrapped->text));
    /* As in transformers, the text model's own key is not used; the default is true in all classes. */
    json_object_set(text, "tie_word_embeddings", json_is_false(tied) ? json_false() : json_true());
    return text;
}

bool ce_wrapped_name(const ce_wrapped *wrapped, char name[CE_WRAPPED_NAME], const char *given)
{
    for (int i = 0; i < CE_WRAPPED_PARTS && wrapped->parts[i]; i++)
        if (strncmp(given, wrapped->parts[i], strlen(wrapped->parts[i])) == 0)
            return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i].whole);
        if (strncmp(given, names[i].whole, length) == 0) {
            snprintf(name, CE_WRAPPED_NAME, "%s%s", names[i].text, given + length);
            return true;
        }
    }
    snprintf(name, CE_WRAPPED_NAME, "%s", given);
    return true;
}
