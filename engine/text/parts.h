/* parts.h - what an open tokenizer is made of; for the files of this room only. */
#ifndef CS_TEXT_PARTS_H
#define CS_TEXT_PARTS_H

#include "text/special.h"
#include "text/tokenizer.h"
#include "text/lexicon.h"
#include "text/words.h"

enum { CS_PARTS_AROUND = 8 };

struct cs_tokenizer {
    bool is_bytes; /* 256 bytes, and nothing of the below */
    cs_lexicon lexicon;
    cs_words *words;
    cs_specials raw, normal;                                 /* found before and after normalization */
    bool compose;                                            /* normalization form C */
    int32_t before[CS_PARTS_AROUND], after[CS_PARTS_AROUND]; /* what the post_processor puts around a text */
    int before_count, after_count;
    char *chat_template, *begin_text, *end_text;
    int32_t end;
};

/* Fills in what a tokenizer.json says. */
cs_status cs_tokenfile_read(cs_tokenizer *tokenizer, const json_t *root);
/* One of added_tokens, or of added_tokens_decoder, where the id is the key. */
cs_status cs_tokenfile_added(cs_tokenizer *tokenizer, const json_t *token, int64_t id);

#endif
