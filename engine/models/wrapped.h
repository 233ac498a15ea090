/* wrapped.h - folders of models with images, whose text model is trained: config.json has the text model's keys in
 * "text_config", and the weights of the other parts are not parameters. */
#ifndef CE_MODELS_WRAPPED_H
#define CE_MODELS_WRAPPED_H

#include "json/keys.h"

#include <stdbool.h>

enum { CE_WRAPPED_PARTS = 4 };

typedef struct ce_wrapped {
    const char *type;         /* model_type of the whole model in config.json */
    const char *architecture; /* its class in transformers */
    const char *text;         /* default of model_type in text_config */
    /* beginnings of the names of the tensors that are not the text model's; the unused ones are NULL */
    const char *parts[CE_WRAPPED_PARTS];
} ce_wrapped;

/* Returns the row of a model_type, or NULL if it is that of a text model. */
const ce_wrapped *ce_wrapped_find(const char *type);
/* Returns the object with the keys of the text model: text_config, or config itself. */
const json_t *ce_wrapped_text(const json_t *config);
/* Checks the keys beside text_config and adds faults to `doc`, and moves those that the text model uses into
 * text_config. Returns text_config, or NULL if there is none. */
json_t *ce_wrapped_open(const ce_wrapped *wrapped, ce_json *doc, json_t *config, const char *path);

/* Writes the name that a tensor of the whole model has in the text model. Returns false if the tensor belongs to
 * another part. A name that no rule knows stays as it is. */
enum { CE_WRAPPED_NAME = 256 };
bool ce_wrapped_name(const ce_wrapped *wrapped, char name[CE_WRAPPED_NAME], const char *given);

#endif
