/* ends.h - the first unit of a language model and its last: tokens to rows, and rows to the loss of the next tokens. */
#ifndef CS_MODELS_ENDS_H
#define CS_MODELS_ENDS_H

#include "cspeed/layer.h"

/* Token embedding, with positions where they are learned: cs_embed_declare. */
typedef struct {
    const char *tokens, *positions; /* names; positions NULL: none */
    cs_embed_sizes wide;
} cs_ends_first;
extern const cs_kind cs_ends_embedding;

/* Norm, head, cross-entropy. */
typedef struct {
    const char *norm; /* name of the norm */
    enum { CS_ENDS_LAYER_NORM, CS_ENDS_RMS_NORM } kind;
    int64_t width, vocabulary;
    float epsilon;
    cs_init init;
    cs_unit *lender; /* of the head's table, which `table` names in it; NULL: the head is lm_head, its own */
    const char *table;
} cs_ends_last;
extern const cs_kind cs_ends_head;

#endif
