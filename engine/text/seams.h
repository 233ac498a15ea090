/* seams.h - finds seams: places at which a word may be cut without changing its tokens, because no token reaches across
 * the place. */
#ifndef CE_TEXT_SEAMS_H
#define CE_TEXT_SEAMS_H

#include "text/lexicon.h"

/* The kinds of seams that words may have. SentencePiece does not cut a text into words: the whole text is one word,
 * which may be long. In SentencePiece's tokens, U+2581 stands for a space and occurs only at the beginning. */
typedef struct {
    bool marks; /* True if a word may be cut before each U+2581 that follows another character. */
    bool lines; /* True if a word may be cut after each line break that an ASCII letter follows. */
} ce_seams;

ce_seams ce_seams_find(const ce_lexicon *lexicon);

/* Returns the number of bytes up to the word's next seam before a U+2581, or `size` if the word has none. */
size_t ce_seams_next(const char *word, size_t size);

#endif
