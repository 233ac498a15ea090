/* lexicon.h - vocabulary and merge table of a tokenizer: the text of each token, and which two tokens merge into which.
 */
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
    ce_text text;             /* texts of all tokens */
    ce_lexicon_piece *names;  /* (size) tokens as the file writes them */
    ce_lexicon_piece *pieces; /* (size) tokens as words spell them: bytes if `is_bytes`, otherwise the names */
    int64_t size;
    int32_t *index; /* hash table of the tokens that words can become: ids by the hash of their pieces; -1: free */
    size_t index_room;
    ce_merge *merges; /* (merge_room) hash table by pair */
    size_t merge_room;
    int32_t *results;   /* id that the merge of a rank makes */
    bool is_bytes;      /* true: a word is a sequence of bytes; false: of characters */
    int32_t bytes[256]; /* token of each single byte (if words are characters: <0xNN>), or -1 */
    int32_t unknown;    /* token for a character that has no token; -1: it is dropped */
    /* fuse_unknown: a run of characters without a token becomes one token `unknown`. whole_words (ignore_merges): a
     * word that is a token is not split. byte_fallback: a character without a token becomes the tokens of its bytes. */
    bool fuse_unknown, whole_words, byte_fallback;
    /* To find the token of a character, `prefix` is put before it unless it is the first of the word, and `suffix`
     * behind it if it is the last. NULL: nothing is put there. */
    char *prefix, *suffix;
} ce_lexicon;

/* Fills the lexicon from model.vocab {"text": id} and model.merges, a list of "a b" or of ["a", "b"]. The caller has
 * set `is_bytes` and `prefix` before. */
cs_status ce_lexicon_fill(ce_lexicon *lexicon, const json_t *ids, const json_t *merges);
/* Sets the name of an id, and replaces an earlier name. Words can become this token only if ce_lexicon_add has added
 * it. */
cs_status ce_lexicon_set(ce_lexicon *lexicon, int64_t id, const char *text, size_t size);
void ce_lexicon_free(ce_lexicon *lexicon);

/* To fill a lexicon without ce_lexicon_fill: reserve space for the tokens, and add them; then reserve space for the
 * merges, whose ranks are below `ranks`, and add these. */
void ce_lexicon_reserve_tokens(ce_lexicon *lexicon, size_t tokens);
void ce_lexicon_reserve_merges(ce_lexicon *lexicon, size_t merges, size_t ranks);
cs_status ce_lexicon_add(ce_lexicon *lexicon, int64_t id, const char *text, size_t size);
void ce_lexicon_add_merge(ce_lexicon *lexicon, int32_t left, int32_t right, int32_t rank, int32_t id);
/* Finds the tokens of single bytes. */
void ce_lexicon_find_bytes(ce_lexicon *lexicon);

/* Id of the token with these bytes; -1: none. */
int32_t ce_lexicon_find(const ce_lexicon *lexicon, const char *bytes, size_t size);
/* The text of a token, as the file writes it; *size is 0 if no token has the id. */
const char *ce_lexicon_name(const ce_lexicon *lexicon, int64_t id, size_t *size);

/* The merge of two tokens; NULL: they do not merge. */
const ce_merge *ce_lexicon_merge(const ce_lexicon *lexicon, int32_t left, int32_t right);

uint64_t ce_lexicon_hash(const char *bytes, size_t size);

#endif
