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
    bool is_bytes;      /* a word is a row of bytes; otherwise it is a row of characters */
    int32_t bytes[256]; /* token of each single byte, or -1; of characters: the token <0xNN> */
    int32_t unknown;    /* token for what has no token; -1: it is dropped */
    /* One `unknown` for a run of such; a word that is a token is not split (ignore_merges); characters without a token
     * become the tokens of their bytes (byte_fallback) */
    bool fuse_unknown, whole_words, byte_fallback;
    /* Written before all characters of a word but its first, and after its last, to find their tokens; NULL: nothing */
    char *prefix, *suffix;
} ce_lexicon;

/* Fills the lexicon from model.vocab {"text": id} and model.merges, a list of "a b" or of ["a", "b"]. `is_bytes` and
 * `prefix` are set before. */
cs_status ce_lexicon_fill(ce_lexicon *lexicon, const json_t *ids, const json_t *merges);
/* Sets the name of an id, replacing any earlier name. Words become the token only if it was added before. */
cs_status ce_lexicon_set(ce_lexicon *lexicon, int64_t id, const char *text, size_t size);
void ce_lexicon_free(ce_lexicon *lexicon);

/* To fill a lexicon by hand: room for so many tokens, the tokens, room for so many merges of ranks below `ranks`, and
 * the merges. */
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
