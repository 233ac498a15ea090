/* seams.h - places at which a word may be cut without changing its tokens, because no token reaches across them. */
#ifndef CS_TEXT_SEAMS_H
#define CS_TEXT_SEAMS_H

#include "text/lexicon.h"

/* Says at which places of a word a cut changes no token. SentencePiece does not cut a text into words: a whole text is
 * one word. But its tokens contain U+2581, which stands for a space, only at their beginning. */
typedef struct {
    bool marks; /* true: before each U+2581 that follows another character */
    bool lines; /* true: after each line break that an ASCII letter follows */
} ce_seams;

ce_seams ce_seams_find(const ce_lexicon *lexicon);

/* Size of the part of the word up to the next seam of the kind `marks`; `size` if there is none. */
size_t ce_seams_next(const char *word, size_t size);

#endif
