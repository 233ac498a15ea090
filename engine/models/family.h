/* family.h - what a family of models is: its key table and how it is built. */
#ifndef CS_MODELS_FAMILY_H
#define CS_MODELS_FAMILY_H

#include "models/models.h"

/* What a build reads. */
typedef struct {
    const void *settings; /* filled from the key table          */
    json_t *config;       /* what config.json says              */
    cs_json *doc;         /* takes faults, at `path`            */
    const char *path;
} cs_family_input;

typedef struct {
    const char *type;         /* config.json's model_type                  */
    const char *architecture; /* transformers' class that has the loss     */
    const cs_key *keys;
    int key_count;
    size_t settings_bytes;
    /* Checks what a table cannot, with cs_json_fault at path, and builds. */
    cs_status (*build)(cs_model **model, cs_model_facts *facts, const cs_family_input *input);
} cs_family;

extern const cs_family cs_family_gpt2, cs_family_llama, cs_family_mistral, cs_family_qwen2, cs_family_qwen3;

#endif
