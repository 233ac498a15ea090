/* lexicon.h - vocabulary and merge table of a tokenizer: the text of each token, and which two tokens merge into which.
 */
#ifndef CE_TEXT_LEXICON_H
#define CE_TEXT_LEXICON_H

#include "json/json.h"
#include "text/unicode.h"

typedef struct {
    uint32_t from, size; /* Offset and size in the lexicon's `text`. A size of 0 means that no token has this id. */
} ce_lexicon_piece;

typedef struct {
    uint64_t pair; /* (left id << 32 | right id) + 1, or 0 if the slot is free */
    int32_t rank, id;
} ce_merge;

typedef struct {
    ce_text text;            /* texts of all tokens, one after the other */
    ce_lexicon_piece *names; /* [size]: each token as it is written in the file */
    /* [size]: each token as it occurs in words: the bytes that its name represents if `is_bytes` is true, otherwise its
     * name */
    ce_lexicon_piece *pieces;
    int64_t size;
    /* Hash table of the tokens that can occur in words: ids, found by the hash of `pieces`. A free slot has -1. */
    int32_t *index;
    size_t index_capacity;
    ce_merge *merges; /* [merge_capacity]: hash table of the merges by pair */
    size_t merge_capacity;
    int32_t *results;   /* id of the token that each merge makes, by the merge's rank */
    bool is_bytes;      /* true if a word is a sequence of bytes, false if it is a sequence of characters */
    int32_t bytes[256]; /* token of each byte (<0xNN> if words are characters), or -1 */
    int32_t unknown;    /* The token for a character that has no token. If it is -1, such characters are dropped. */
    /* With fuse_unknown, a run of characters without a token becomes one token `unknown`. With whole_words
     * (ignore_merges), a word that is a token is not split. With byte_fallback, a character without a token becomes the
     * tokens of its bytes. */
    bool fuse_unknown, whole_words, byte_fallback;
    /* The token of a character is looked up with `prefix` before the character unless the character begins the word,
     * and with `suffix` behind it if the character ends the word. NULL means that there is no prefix or suffix. */
    char *prefix, *suffix;
} ce_lexicon;

/* Fills the lexicon from model.vocab, an object of {"text": id}, and model.merges, a list of "a b" or of ["a", "b"].
 * The caller must set `is_bytes` and `prefix` before this call. */
cs_status ce_lexicon_fill(ce_lexicon *lexicon, const json_t *ids, const json_t *merges);
/* Sets the name of the token `id`: the token's text in the file. An earlier name is replaced. The token occurs in words
 * only if ce_lexicon_add has added it. */
cs_status ce_lexicon_set(ce_lexicon *lexicon, int64_t id, const char *text, size_t size);
void ce_lexicon_free(ce_lexicon *lexicon);

/* These functions fill a lexicon without ce_lexicon_fill, in this order: reserve space for the tokens, add the tokens,
 * reserve space for the merges, add the merges. The ranks of the merges are below `ranks`. */
void ce_lexicon_reserve_tokens(ce_lexicon *lexicon, size_t tokens);
void ce_lexicon_reserve_merges(ce_lexicon *lexicon, size_t merges, size_t ranks);
cs_status ce_lexicon_add(ce_lexicon *lexicon, int64_t id, const char *text, size_t size);
void ce_lexicon_add_merge(ce_lexicon *lexicon, int32_t left, int32_t right, int32_t rank, int32_t id);
/* Sets `bytes`, the table of the tokens of single bytes. */
void ce_lexicon_find_bytes(ce_lexicon *lexicon);

/* Returns the id of the token with these bytes, or -1 if there is none. */
int32_t ce_lexicon_find(const ce_lexicon *lexicon, const char *bytes, size_t size);
/* Returns the id of the token that is written so in the file, or -1 if there is none. Compares with every token. */
int64_t ce_lexicon_named(const ce_lexicon *lexicon, const char *text, size_t size);
/* Returns the text of a token as it is written in the file. *size is 0 if no token has the id. */
const char *ce_lexicon_name(const ce_lexicon *lexicon, int64_t id, size_t *size);

/* Returns the merge of two tokens, or NULL if they do not merge. */
const ce_merge *ce_lexicon_merge(const ce_lexicon *lexicon, int32_t left, int32_t right);

uint64_t ce_lexicon_hash(const char *bytes, size_t size);

#endif
