/* special.h - finds special tokens, which are matched literally in a text before it is cut into words. */
#ifndef CS_TEXT_SPECIAL_H
#define CS_TEXT_SPECIAL_H

#include "base/status.h"

typedef struct {
    char *text; /* the text that is searched: `content`, or its normalized form if `normalized` */
    size_t size;
    char *content; /* the token as the file writes it; NULL: equal to `text` */
    int32_t id;
    bool special;                 /* a control token, which is left out when only text is wanted */
    bool normalized;              /* searched in the normalized text instead of the original text */
    bool single_word;             /* matches only if no letter or digit is next to it */
    bool strip_left, strip_right; /* a match also covers the white space on that side */
} ce_special;

/* Sorted by text. */
typedef struct {
    ce_special *tokens;
    int64_t count;
    bool begins[256]; /* indexed by byte: some token begins with it */
} ce_specials;

/* Adds a token, and takes ownership of its texts. A token whose text is empty is never found. */
void ce_special_add(ce_specials *specials, ce_special token);
void ce_special_sort(ce_specials *specials);
void ce_special_free(ce_specials *specials);

/* The longest special token with which the text begins; NULL: it begins with none. */
const ce_special *ce_special_at(const ce_specials *specials, const char *text, size_t size);

typedef struct {
    size_t from, to; /* range that the last match covers, including white space */
    size_t search;   /* end of the token itself, where the next search begins */
} ce_special_match;

/* Finds the next special token, the longest at each position; NULL: there is none. The first search starts with a
 * zeroed match. */
const ce_special *ce_special_next(const ce_specials *specials, const char *text, size_t size, ce_special_match *match);

#endif
