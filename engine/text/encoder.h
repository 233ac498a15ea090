/* encoder.h - the work of making tokens: buffers and a memory of words, a thread's own.
 *
 * The order is that of Hugging Face's tokenizers: special tokens are cut out, the rest is normalized, cut into words by
 * the tokenizer's patterns, and each word's bytes are merged pair by pair. Bytes that are not UTF-8 become U+FFFD, as
 * lossy decoding has it, and are counted. Memory that is not there ends the process. */
#ifndef CS_TEXT_ENCODER_H
#define CS_TEXT_ENCODER_H

#include "text/tokenizer.h"

typedef struct {
    int32_t *ids;    /* (count) */
    int64_t *starts; /* (count) where each begins, in bytes of the text after repair and normalization */
    int64_t count, room;
    int64_t repaired; /* broken characters replaced so far, over all calls */
} cs_encoded;

typedef struct cs_encoder cs_encoder;

cs_encoder *cs_encoder_open(const cs_tokenizer *tokenizer);
void cs_encoder_close(cs_encoder *encoder); /* accepts NULL */

/* The tokens of a text, and nothing else; special tokens spelled out in it become those. Borrowed until the next call.
 */
const cs_encoded *cs_encoder_text(cs_encoder *encoder, const char *text, size_t length);
/* With what the tokenizer's post_processor puts around it (Llama's <|begin_of_text|>). */
const cs_encoded *cs_encoder_document(cs_encoder *encoder, const char *text, size_t length);
/* A part of a document (cs_tokenizer_cut), which begins or ends it or both or neither. */
enum { CS_ENCODER_BEGINS = 1, CS_ENCODER_ENDS = 2 };
const cs_encoded *cs_encoder_part(cs_encoder *encoder, const char *text, size_t length, int where);

#endif
