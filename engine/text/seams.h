/* seams.h - places at which a word may be cut without changing its tokens, because no token reaches across them. */
#ifndef CS_TEXT_SEAMS_H
#define CS_TEXT_SEAMS_H

#include "text/lexicon.h"

/* A vocabulary of SentencePiece has no cuts into words, and a whole text is one word; but its tokens hold U+2581, which
 * stands for a space, only in front. */
typedef struct {
    bool marks; /* before each U+2581 that follows another character */
    bool lines; /* after each line break that a letter of ASCII follows */
} ce_seams;

ce_seams ce_seams_find(const ce_lexicon *lexicon);

/* Size of the part of the word up to the next seam of the kind `marks`; `size` if there is none. */
size_t ce_seams_next(const char *word, size_t size);

#endif
