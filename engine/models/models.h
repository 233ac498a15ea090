/* models.h - name to model; the table. */
#ifndef CS_MODELS_MODELS_H
#define CS_MODELS_MODELS_H

#include "base/keys.h"

/* What the engine must know of a model beside its units. */
typedef struct {
    int64_t positions;  /* longest sequence                                                */
    int64_t vocabulary; /* tokens are below it                                             */
    const char *alias;  /* another name of parameter alias_of (a tied head), or NULL: none */
    const char *alias_of;
    const char *architecture; /* transformers' class for it, "LlamaForCausalLM"                    */
} cs_model_facts;

/* Builds the model a Hugging Face config.json names. `path` is where the object stands in doc, for messages
 * ("cspeed.model"; "" for a config.json of its own). All faults go to doc; CS_BAD_CONFIG if there were any. */
cs_status cs_models_open(cs_model **model, cs_model_facts *facts, cs_json *doc, json_t *config, const char *path);
void cs_models_help(void);

enum { CS_MODELS_DIFFERENCES = 512 };
/* The keys by which one config.json describes another model than the other, with both values, in one line; "" where
 * there are none. What only the first weights depend on is left out. */
void cs_models_compare(char text[CS_MODELS_DIFFERENCES], const json_t *there, const json_t *here);

#endif
