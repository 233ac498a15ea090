/* ends.h - the first unit of a language model (embedding: tokens to rows) and the last one (head: rows to the loss
 * of the next tokens). */
#ifndef CS_MODELS_ENDS_H
#define CS_MODELS_ENDS_H

#include "cspeed/layer.h"
#include "models/family.h"

/* The settings of the embedding unit; see cs_embed_declare. */
typedef struct {
    const char *tokens, *positions; /* names of the tables; positions NULL: there is no table of positions */
    cs_embed_sizes wide;
} ce_ends_first;
extern const cs_kind ce_ends_embedding;
/* Sets the token without gradient from config.json's pad_token_id, which becomes PyTorch's padding_idx: a negative
 * number counts from the end of the vocabulary; NULL or null: there is none. Another value is a fault, which the second
 * function adds to the input's document. */
void ce_ends_pad(cs_embed_sizes *sizes, const json_t *token);
void ce_ends_check_pad(const json_t *token, const ce_family_input *input);

/* The settings of the head unit: norm, linear head, cross-entropy. */
typedef struct {
    const char *norm; /* name of the norm */
    enum { CS_ENDS_LAYER_NORM, CS_ENDS_RMS_NORM } kind;
    int64_t width, vocabulary;
    float epsilon;
    cs_init init;
    cs_unit *lender; /* owner of a tied head's table, which is named `table` there; NULL: the head has its own table */
    const char *table;
    const char *head; /* name of the head's own table; NULL: lm_head */
    bool plus_one;    /* the RMS norm's factors are 1 + weight */
    float scale, cap; /* scale: factor of the logits; cap: soft cap of the logits after the factor. 0: none */
} ce_ends_last;
extern const cs_kind ce_ends_head;

#endif
