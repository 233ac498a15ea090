/* decoder.h - makes text from tokens: the decoders of tokenizer.json, and SentencePiece's. */
#ifndef CE_TEXT_DECODER_H
#define CE_TEXT_DECODER_H

#include "json/json.h"
#include "text/pattern.h"
#include "text/unicode.h"

/* A list of texts, which are stored one after the other in `text`. */
typedef struct {
    ce_text text;
    size_t *ends; /* [count]: where each text ends in `text` */
    size_t count, capacity;
} ce_pieces;

void ce_pieces_add(ce_pieces *pieces, const char *text, size_t size);
void ce_pieces_free(ce_pieces *pieces);

typedef enum {
    CE_DECODE_REPLACE,
    CE_DECODE_BYTE_FALLBACK,
    CE_DECODE_FUSE,
    CE_DECODE_STRIP,
    CE_DECODE_METASPACE,
    CE_DECODE_BYTES,
    CE_DECODE_SUFFIX,
    CE_DECODE_CTC,
    CE_DECODE_WORDPIECE,
    CE_DECODE_SENTENCE,
} ce_decode_kind;

typedef struct {
    ce_decode_kind kind;
    ce_pattern *pattern;
    char *text;          /* what the step looks for: the character, suffix, prefix or padding */
    char *other;         /* what replaces `text`; for ctc the delimiter of words */
    int64_t start, stop; /* strip: number of characters at the beginning and the end */
    bool prefixed;       /* metaspace, sentence: true if the tokenizer added a space at the beginning of the text */
    bool cleanup;        /* ctc, wordpiece: true if spaces in front of punctuation are removed */
    bool all;            /* sentence: true if all spaces at the beginning of the text are removed */
} ce_decode_step;

enum { CE_DECODE_MAX = 16 };

typedef struct {
    ce_decode_step steps[CE_DECODE_MAX];
    int count;
    bool spaced; /* True if the file has no decoder; tokens are then separated by spaces. */
} ce_decoder;

/* Reads the value of "decoder" in tokenizer.json. `path` is its place in the file, for messages. */
cs_status ce_decoder_read(ce_decoder *decoder, const json_t *part, const char *path);
cs_status ce_decoder_add(ce_decoder *decoder, ce_decode_kind kind, ce_decode_step **step);
void ce_decoder_free(ce_decoder *decoder);

/* Appends the text of a list of tokens. If `middle` is true, the tokens are in the middle of a text, and their bytes
 * may be parts of characters. Otherwise the tokens are the whole text, and bytes that are not UTF-8 become U+FFFD. */
void ce_decoder_text(const ce_decoder *decoder, const ce_pieces *tokens, bool middle, ce_text *to);

#endif
