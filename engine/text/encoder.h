/* encoder.h - tokenizes texts with an open tokenizer; an encoder holds the buffers and the word cache of one thread.
 *
 * The steps are those of Hugging Face's tokenizers: special tokens are cut out; the text between them is normalized and
 * cut into words by the tokenizer's patterns; the bytes of each word are merged by BPE. Bytes that are not UTF-8 are
 * replaced by U+FFFD, as in lossy decoding, and counted. If memory cannot be allocated, the process ends. */
#ifndef CE_TEXT_ENCODER_H
#define CE_TEXT_ENCODER_H

#include "text/tokenizer.h"

typedef struct {
    int32_t *ids; /* [count]: ids of the tokens */
    /* [count]: offset in bytes at which each token begins in the text after the repair of invalid UTF-8 */
    int64_t *starts;
    int64_t count, capacity;
    int64_t repaired; /* number of invalid characters that all calls so far have replaced */
} ce_encoded;

typedef struct ce_encoder ce_encoder;

ce_encoder *ce_encoder_open(const ce_tokenizer *tokenizer);
void ce_encoder_close(ce_encoder *encoder); /* accepts NULL */

/* Tokenizes a text without adding tokens. Special tokens that are spelled out in the text are recognised. The result is
 * valid until the next call. */
const ce_encoded *ce_encoder_text(ce_encoder *encoder, const char *text, size_t length);
/* Does what ce_encoder_text does, and adds the tokens that the tokenizer's post_processor puts around a text, such as
 * Llama's <|begin_of_text|>. */
const ce_encoded *ce_encoder_document(ce_encoder *encoder, const char *text, size_t length);
/* Tokenizes a part of a document that ce_tokenizer_cut has cut. `where` says whether the part includes the beginning of
 * the document, its end, both or neither. */
enum { CE_ENCODER_BEGINS = 1, CE_ENCODER_ENDS = 2 };
const ce_encoded *ce_encoder_part(ce_encoder *encoder, const char *text, size_t length, int where);

#endif
