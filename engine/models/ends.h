/* ends.h - the first unit of a language model (the embedding: tokens to rows) and the last one (the head: rows to the
 * loss of the next tokens). */
#ifndef CE_MODELS_ENDS_H
#define CE_MODELS_ENDS_H

#include "models/any_norm.h"
#include "models/family.h"

/* The settings of the embedding unit. cs_embed_declare describes `wide`. */
typedef struct {
    const char *tokens, *positions; /* names of the tables; `positions` is NULL if there is no table of positions */
    cs_embed_sizes wide;
} ce_ends_first;
extern const cs_kind ce_ends_embedding;
/* `token` is the value of pad_token_id in config.json, or NULL if the key is missing. ce_ends_pad sets the padding
 * token, whose embedding has no gradient (PyTorch's padding_idx). An integer is the token's id; a negative integer
 * counts from the end of the vocabulary. If the value is null or missing, there is no padding token. If the value is
 * neither an integer nor null, ce_ends_check_pad adds a fault to input->doc. */
void ce_ends_pad(cs_embed_sizes *sizes, const json_t *token);
void ce_ends_check_pad(const json_t *token, const ce_family_input *input);

/* The settings of the head unit, which is a norm, a linear layer and the cross-entropy. */
typedef struct {
    const char *norm; /* name of the norm */
    ce_norm_kind kind;
    int64_t width, vocabulary;
    float epsilon;
    cs_init init;
    /* unit that owns a tied head's table, under the name `table`; NULL if the head has its own table */
    cs_unit *owner;
    const char *table;
    const char *head; /* name of the head's own table; NULL means "lm_head" */
    bool bias;        /* True if the head has a bias of its own, `head`.bias. */
    /* `scale` is the factor of the logits, `cap` the soft cap that is applied afterwards; 0 means none. */
    float scale, cap;
} ce_ends_last;
extern const cs_kind ce_ends_head;

#endif
