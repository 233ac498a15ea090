/* parts.h - members of an open tokenizer; private to this folder. */
#ifndef CS_TEXT_PARTS_H
#define CS_TEXT_PARTS_H

#include "text/special.h"
#include "text/tokenizer.h"
#include "text/lexicon.h"
#include "text/words.h"

enum { CS_PARTS_AROUND = 8 };

struct ce_tokenizer {
    bool is_bytes; /* each byte is a token, and the members below are unused */
    ce_lexicon lexicon;
    ce_words *words;
    ce_specials raw, normal; /* special tokens: raw are searched before normalization, normal after it */
    bool compose;            /* normalize to form C (NFC) */
    /* Tokens that the post_processor adds before and after a text. */
    int32_t before[CS_PARTS_AROUND], after[CS_PARTS_AROUND];
    int before_count, after_count;
    char *chat_template, *begin_text, *end_text;
    int32_t end;
};

/* Fills in the members from a tokenizer.json. */
cs_status ce_tokenfile_read(ce_tokenizer *tokenizer, const json_t *root);
/* Adds one entry of added_tokens, or of added_tokens_decoder, in which the id is the key. */
cs_status ce_tokenfile_added(ce_tokenizer *tokenizer, const json_t *token, int64_t id);

#endif
