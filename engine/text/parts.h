/* parts.h - members of an open tokenizer; private to this folder. */
#ifndef CS_TEXT_PARTS_H
#define CS_TEXT_PARTS_H

#include "text/decoder.h"
#include "text/lexicon.h"
#include "text/normalizer.h"
#include "text/seams.h"
#include "text/special.h"
#include "text/tokenizer.h"
#include "text/words.h"

enum { CS_PARTS_AROUND = 8 };

struct ce_tokenizer {
    bool is_bytes; /* each byte is a token, and the members below are unused */
    ce_lexicon lexicon;
    ce_seams seams;
    ce_normalizer normalizer;
    ce_words *words;
    ce_specials raw, normal; /* special tokens: raw are searched before normalization, normal after it */
    ce_decoder decoder;
    ce_text shown_text;
    ce_lexicon_piece *shown; /* (lexicon.size) each token's text in the middle of a text, in `shown_text` */
    bool has_cuts;           /* long texts may be cut at lines */
    /* Tokens that the post_processor adds before and after a text. */
    int32_t before[CS_PARTS_AROUND], after[CS_PARTS_AROUND];
    int before_count, after_count;
    char *chat_template, *begin_text, *end_text;
    int32_t end;
    /* Only for a SentencePiece model: has_no_text marks the control symbols, which have no text; unknown_text is the
     * text of the unknown token. */
    bool *has_no_text; /* (piece_count) NULL: all tokens have a text */
    int64_t piece_count;
    char *unknown_text;
};

/* Fills in the members from a tokenizer.json. */
cs_status ce_tokenfile_read(ce_tokenizer *tokenizer, const json_t *root);
/* Adds one entry of added_tokens, or of added_tokens_decoder, whose keys are the ids. */
cs_status ce_tokenfile_added(ce_tokenizer *tokenizer, const json_t *token, int64_t id);

/* Fills in the members from SentencePiece's tokenizer.model; `config` is tokenizer_config.json, or NULL. */
cs_status ce_sentencepiece_read(ce_tokenizer *tokenizer, const char *bytes, size_t size, const json_t *config);

/* Computes the members that depend on others (such as `seams` and `shown`), after all others are read. */
void ce_tokenizer_finish(ce_tokenizer *tokenizer);

#endif
