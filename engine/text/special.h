/* special.h - tokens that are found in a text as they are spelled, before it is cut into words. */
#ifndef CS_TEXT_SPECIAL_H
#define CS_TEXT_SPECIAL_H

#include "base/status.h"

typedef struct {
    char *text;
    size_t size;
    int32_t id;
    bool special;                 /* not text: left out where a reader wants text alone            */
    bool normalized;              /* found in the normalized text, not in the text as it is        */
    bool single_word;             /* not beside a letter or digit                                  */
    bool strip_left, strip_right; /* takes the white space beside it                             */
} cs_special;

/* Sorted by text. */
typedef struct {
    cs_special *tokens;
    int64_t count;
    bool begins[256]; /* some token does with this byte */
} cs_specials;

/* Takes `token` over, its text included. */
void cs_special_add(cs_specials *specials, cs_special token);
void cs_special_sort(cs_specials *specials);
void cs_special_free(cs_specials *specials);

typedef struct {
    size_t from, to; /* what the last token found takes, white space included */
    size_t search;   /* where it ends itself: the next is searched from here */
} cs_special_match;

/* The next token, at each place the longest; NULL: none. Begins with a zeroed match. */
const cs_special *cs_special_next(const cs_specials *specials, const char *text, size_t size, cs_special_match *match);

#endif
