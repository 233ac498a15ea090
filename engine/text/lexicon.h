/* lexicon.h - which bytes each token stands for, and which two tokens merge into which. */
#ifndef CS_TEXT_LEXICON_H
#define CS_TEXT_LEXICON_H

#include "base/json.h"
#include "text/unicode.h"

typedef struct {
    uint32_t from, size; /* of the pieces' bytes; size 0: a hole */
} cs_lexicon_piece;

typedef struct {
    uint64_t pair; /* left id << 32 | right id, plus 1; 0: free */
    int32_t rank, id;
} cs_merge;

typedef struct {
    cs_text text;             /* all pieces' bytes */
    cs_lexicon_piece *pieces; /* (size) */
    int64_t size;
    int32_t *index; /* (index_room) ids by the hash of their bytes, -1: free; byte-level tokens alone */
    size_t index_room;
    cs_merge *merges; /* (merge_room) by the hash of their pair */
    size_t merge_room;
    int32_t bytes[256];             /* the token of a byte, or -1 */
    int32_t unknown;                /* for such bytes; -1: they are left out */
    bool fuse_unknown, whole_words; /* one for a run of them; a word that is a token is that (ignore_merges) */
} cs_lexicon;

/* From model.vocab {"text": id} and model.merges, a list of "a b" or of ["a", "b"]. */
cs_status cs_lexicon_fill(cs_lexicon *lexicon, const json_t *ids, const json_t *merges);
/* The id stands for this text from now on. */
cs_status cs_lexicon_set(cs_lexicon *lexicon, int64_t id, const char *text, size_t size);
void cs_lexicon_free(cs_lexicon *lexicon);

int32_t cs_lexicon_find(const cs_lexicon *lexicon, const char *bytes, size_t size); /* -1: none */

/* NULL: the two do not merge. */
const cs_merge *cs_lexicon_merge(const cs_lexicon *lexicon, int32_t left, int32_t right);

uint64_t cs_lexicon_hash(const char *bytes, size_t size);

#endif
