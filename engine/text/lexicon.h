/* lexicon.h - vocabulary and merge table of a tokenizer: the bytes of each token, and which two tokens merge into
 * which. */
#ifndef CS_TEXT_LEXICON_H
#define CS_TEXT_LEXICON_H

#include "base/json.h"
#include "text/unicode.h"

typedef struct {
    uint32_t from, size; /* offset and size in `text`; size 0: no token has this id */
} ce_lexicon_piece;

typedef struct {
    uint64_t pair; /* (left id << 32 | right id) + 1; 0: the slot is free */
    int32_t rank, id;
} ce_merge;

typedef struct {
    ce_text text;             /* bytes of all tokens */
    ce_lexicon_piece *pieces; /* (size) */
    int64_t size;
    int32_t *index; /* hash table of the byte-level tokens: ids by the hash of their bytes; -1: free */
    size_t index_room;
    ce_merge *merges; /* (merge_room) hash table by pair */
    size_t merge_room;
    int32_t bytes[256]; /* token of each single byte, or -1 */
    int32_t unknown;    /* token for bytes without a token; -1: such bytes are dropped */
    /* One `unknown` for a run of such bytes; a word that is a token is not split (ignore_merges) */
    bool fuse_unknown, whole_words;
} ce_lexicon;

/* Fills the lexicon from model.vocab {"text": id} and model.merges, a list of "a b" or of ["a", "b"]. */
cs_status ce_lexicon_fill(ce_lexicon *lexicon, const json_t *ids, const json_t *merges);
/* Sets the text of an id, replacing any earlier text. */
cs_status ce_lexicon_set(ce_lexicon *lexicon, int64_t id, const char *text, size_t size);
void ce_lexicon_free(ce_lexicon *lexicon);

/* Id of the token with these bytes; -1: none. */
int32_t ce_lexicon_find(const ce_lexicon *lexicon, const char *bytes, size_t size);

/* The merge of two tokens; NULL: they do not merge. */
const ce_merge *ce_lexicon_merge(const ce_lexicon *lexicon, int32_t left, int32_t right);

uint64_t ce_lexicon_hash(const char *bytes, size_t size);

#endif
