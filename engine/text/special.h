/* special.h - finds special tokens, which are matched literally in a text before it is cut into words. */
#ifndef CS_TEXT_SPECIAL_H
#define CS_TEXT_SPECIAL_H

#include "base/status.h"

typedef struct {
    char *text;
    size_t size;
    int32_t id;
    bool special;                 /* a control token, which is left out when only text is wanted */
    bool normalized;              /* searched in the normalized text instead of the original text */
    bool single_word;             /* matches only if no letter or digit is next to it */
    bool strip_left, strip_right; /* also covers the white space on that side */
} cs_special;

/* Sorted by text. */
typedef struct {
    cs_special *tokens;
    int64_t count;
    bool begins[256]; /* indexed by byte: some token begins with it */
} cs_specials;

/* Adds a token; takes ownership of its text. */
void cs_special_add(cs_specials *specials, cs_special token);
void cs_special_sort(cs_specials *specials);
void cs_special_free(cs_specials *specials);

typedef struct {
    size_t from, to; /* range that the last match covers, including white space */
    size_t search;   /* end of the token itself, where the next search begins */
} cs_special_match;

/* Finds the next special token, the longest at each position; NULL: there is none. Start with a zeroed match. */
const cs_special *cs_special_next(const cs_specials *specials, const char *text, size_t size, cs_special_match *match);

#endif
