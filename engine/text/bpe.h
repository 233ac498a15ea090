/* bpe.h - a word's bytes merged pair by pair into tokens. */
#ifndef CS_TEXT_BPE_H
#define CS_TEXT_BPE_H

#include "text/lexicon.h"

typedef struct cs_bpe cs_bpe; /* what one thread needs */

typedef struct {
    int32_t id, size; /* size: of its bytes in the word */
} cs_bpe_token;

cs_bpe *cs_bpe_open(const cs_lexicon *lexicon);
void cs_bpe_close(cs_bpe *bpe); /* accepts NULL */

/* The tokens of a word; how many in *count. Borrowed until the next call. */
const cs_bpe_token *cs_bpe_word(cs_bpe *bpe, const char *word, size_t size, int32_t *count);

#endif
