/* parts.h - struct ce_tokenizer, an open tokenizer. Private to this folder. */
#ifndef CE_TEXT_PARTS_H
#define CE_TEXT_PARTS_H

#include "text/decoder.h"
#include "text/lexicon.h"
#include "text/normalizer.h"
#include "text/seams.h"
#include "text/special.h"
#include "text/tokenizer.h"
#include "text/words.h"

enum { CE_PARTS_AROUND = 8 };

struct ce_tokenizer {
    bool is_bytes; /* True if each byte is a token; the members below are then unused. */
    ce_lexicon lexicon;
    ce_seams seams;
    ce_normalizer normalizer;
    ce_words *words;
    /* Special tokens: those of `raw` are searched before normalization, those of `normal` after it. */
    ce_specials raw, normal;
    ce_decoder decoder;
    ce_text shown_text;
    /* [lexicon.size]: for each token, the text that it stands for in the middle of a document, as offset and size in
     * `shown_text` */
    ce_lexicon_piece *shown;
    bool has_cuts; /* True if long texts may be cut at the beginnings of lines. */
    /* The ids of the tokens that the post_processor adds before and after a text. */
    int32_t before[CE_PARTS_AROUND], after[CE_PARTS_AROUND];
    int before_count, after_count;
    json_t *templates; /* the texts of the chat templates, by their names */
    char *begin_text, *end_text;
    int32_t end;
    /* These members are set for a SentencePiece model only. has_no_text [piece_count] marks the control symbols, which
     * have no text; has_no_text is NULL if all tokens have a text. unknown_text is the text of the unknown token. */
    bool *has_no_text;
    int64_t piece_count;
    char *unknown_text;
};

/* Sets the tokenizer's members from a tokenizer.json. */
cs_status ce_tokenfile_read(ce_tokenizer *tokenizer, const json_t *root);
/* Adds an entry of "added_tokens", or of "added_tokens_decoder", as the token `id`. */
cs_status ce_tokenfile_added(ce_tokenizer *tokenizer, const json_t *token, int64_t id);

/* True if a special token with this text has been added. */
bool ce_tokenizer_has_added(const ce_tokenizer *tokenizer, const char *text);

/* Sets the tokenizer's members from SentencePiece's tokenizer.model, as the class of transformers of this name does.
 * `config` is tokenizer_config.json, or NULL if that file does not exist. */
cs_status ce_sentencepiece_read(ce_tokenizer *tokenizer, const char *bytes, size_t size, const char *class,
                                const json_t *config);

/* Computes the members that depend on other members, such as `seams` and `shown`. To be called after the files are
 * read. */
void ce_tokenizer_finish(ce_tokenizer *tokenizer);

#endif
