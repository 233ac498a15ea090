/* models.h - builds a model from Hugging Face's config.json, and compares two objects of config.json. */
#ifndef CE_MODELS_MODELS_H
#define CE_MODELS_MODELS_H

#include "json/keys.h"
#include "unit/cut.h"
#include "models/wrapped.h"

/* Properties of a model that the engine needs and that its units do not contain. */
typedef struct {
    int64_t positions;  /* length of the longest sequence */
    int64_t vocabulary; /* number of token ids; every id is below this number */
    /* second name of the parameter `alias_of`, for example the name of a tied head; NULL if there is no second name */
    const char *alias;
    const char *alias_of;
    const char *architecture;  /* name of the class in Hugging Face's transformers, such as "LlamaForCausalLM" */
    const ce_wrapped *wrapped; /* the model with images whose text model this is; NULL if there is none */
    int64_t context;           /* length of the longest text that is generated; 0 means `positions` */
    /* Set by the caller before the model is opened: the tensor-parallel group over which the model's layers are cut. A
     * size of 0 means that there is no such group. */
    ce_cut_group tp;
    /* Set by the caller too: if not NULL, a head that config.json ties to the token table gets a table of its own, the
     * parameter `untied`, whose first values are those of the parameter `untied_of`. */
    const char *untied, *untied_of;
} ce_model_facts;

/* Builds the model that an object of Hugging Face's config.json describes. `path` is the path of the object in doc, for
 * messages: "cspeed.model", or "" if the document is a config.json. All faults are added to doc. Returns CS_BAD_CONFIG
 * if there are any. Warnings of doc name keys without effect. Values of keys with two names are moved to the name that the
 * family's table has. */
cs_status ce_models_open(cs_model **model, ce_model_facts *facts, ce_json *doc, json_t *config, const char *path);
/* Returns the value of a key of a config.json, or the default of its family, as a new reference; NULL if the family has no
 * such key. */
json_t *ce_models_value(const json_t *config, const char *key);
/* Sets *description, which the caller owns, to a copy of `config` that has the key "architectures", because transformers
 * needs this key. */
void ce_models_describe(json_t **description, const ce_model_facts *facts, json_t *config);
/* Does what ce_models_open and ce_models_describe do. */
cs_status ce_models_open_described(cs_model **model, ce_model_facts *facts, json_t **description, ce_json *doc,
                                   json_t *config, const char *path);
/* Prints the key tables of all families. */
void ce_models_help(void);

enum { CE_MODELS_DIFFERENCES = 512 };
/* Compares two objects of config.json. Writes, in one line, the keys whose values describe different models, each with
 * both values. Writes "" if there are none. Keys that only affect the initial weights are left out. */
void ce_models_compare(char text[CE_MODELS_DIFFERENCES], const json_t *there, const json_t *here);

#endif
