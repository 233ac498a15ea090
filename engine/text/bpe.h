/* bpe.h - byte-pair encoding (BPE) of one word. */
#ifndef CE_TEXT_BPE_H
#define CE_TEXT_BPE_H

#include "text/lexicon.h"

typedef struct ce_bpe ce_bpe; /* working memory and word cache of one thread */

typedef struct {
    int32_t id, size; /* `size` is the number of bytes of the word that the token covers. */
} ce_bpe_token;

ce_bpe *ce_bpe_open(const ce_lexicon *lexicon);
void ce_bpe_close(ce_bpe *bpe); /* accepts NULL */

/* Encodes a word, which must be valid UTF-8 unless the vocabulary encodes bytes (is_bytes). Returns an array of *count
 * tokens. The array is valid until the next call. */
const ce_bpe_token *ce_bpe_word(ce_bpe *bpe, const char *word, size_t size, int32_t *count);

#endif
