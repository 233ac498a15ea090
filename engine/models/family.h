/* family.h - what a family of models is: its key table and how it is built. */
#ifndef CS_MODELS_FAMILY_H
#define CS_MODELS_FAMILY_H

#include "models/models.h"

typedef struct {
    const char   *type; /* config.json's model_type */
    const cs_key *keys;
    int           key_count;
    size_t        settings_bytes;
    /* Checks what a table cannot, with cs_json_fault at path, and builds. */
    cs_status (*build)(cs_model **model, cs_model_facts *facts, const void *settings, cs_json *doc, const char *path);
} cs_family;

extern const cs_family cs_family_gpt2;

#endif
