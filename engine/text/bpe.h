/* bpe.h - byte-pair encoding (BPE) of one word. */
#ifndef CS_TEXT_BPE_H
#define CS_TEXT_BPE_H

#include "text/lexicon.h"

typedef struct cs_bpe cs_bpe; /* working memory and cache of one thread */

typedef struct {
    int32_t id, size; /* size: bytes of the word that the token covers */
} cs_bpe_token;

cs_bpe *cs_bpe_open(const cs_lexicon *lexicon);
void cs_bpe_close(cs_bpe *bpe); /* accepts NULL */

/* Encodes a word. Returns *count tokens, which are valid until the next call. */
const cs_bpe_token *cs_bpe_word(cs_bpe *bpe, const char *word, size_t size, int32_t *count);

#endif
