/* special.h - finds special tokens, which are matched literally in a text before it is cut into words. */
#ifndef CE_TEXT_SPECIAL_H
#define CE_TEXT_SPECIAL_H

#include "base/status.h"

typedef struct {
    char *text; /* text that is searched: `content`, or the normalized form of `content` if `normalized` is true */
    size_t size;
    char *content; /* token as it is written in the file; NULL if that is equal to `text` */
    int32_t id;
    bool special; /* True for a control token, which is left out where only text is wanted. */
    /* True if the token is searched in the normalized text instead of the original text. */
    bool normalized;
    /* True if the token matches only where no character of a word (ce_unicode_word_before) is next to it. */
    bool single_word;
    /* True if a match also covers the white space on the left side or on the right side. */
    bool strip_left, strip_right;
} ce_special;

/* A list of special tokens, sorted by their texts. */
typedef struct {
    ce_special *tokens;
    int64_t count;
    bool begins[256]; /* True for each byte with which a token begins. */
} ce_specials;

/* Adds a token, and takes ownership of the token's texts. A token whose text is empty is never found. */
void ce_special_add(ce_specials *specials, ce_special token);
/* Removes the token with this id, if there is one. The list must be sorted again. */
void ce_special_remove(ce_specials *specials, int32_t id);
void ce_special_sort(ce_specials *specials);
void ce_special_free(ce_specials *specials);

/* Returns the longest special token at the beginning of the text, or NULL if there is none. */
const ce_special *ce_special_at(const ce_specials *specials, const char *text, size_t size);

typedef struct {
    size_t from, to; /* range that the last match covers, including white space */
    size_t search;   /* end of the last token without white space, where the next search begins */
} ce_special_match;

/* Finds the next special token. If several tokens match at the same position, the longest is found. Returns NULL if no
 * further token is found. `match` is zeroed before the first search. */
const ce_special *ce_special_next(const ce_specials *specials, const char *text, size_t size, ce_special_match *match);

#endif
