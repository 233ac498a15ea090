/* vocabulary.h - writes a Hugging Face folder with more tokens: a larger token table and head, and tokenizer files that
 * have the new tokens.
 *
 * A row that is new in the table or in the head is the mean of all rows that were there (computed in double precision). This
 * is the expectation of what transformers draws in resize_token_embeddings with mean_resizing, whose standard deviation
 * around the mean is about 3e-5 of that of the rows. */
#ifndef CE_INTERCHANGE_VOCABULARY_H
#define CE_INTERCHANGE_VOCABULARY_H

#include "base/status.h"
#include "json/json.h"

typedef struct {
    const char *from, *to;  /* the folder to read, and the folder to write, which must not exist */
    const json_t *tokens;   /* list of texts: tokens that are no special tokens */
    const json_t *specials; /* list of texts: special tokens */
    const json_t *named;    /* special tokens by their keys in tokenizer_config.json: {"pad_token": TEXT} */
    int64_t multiple;       /* the new number of rows is a multiple of this, unless there are enough rows */
    int64_t max_shard;      /* maximum number of bytes in one file */
    /* results: the number of tokens that are new, and of rows of the table before and after */
    int64_t added, before, after;
} ce_vocabulary;

/* Tokens that the tokenizer has get no second id. The table has at least one row for each id of the tokenizer, and never
 * loses a row. */
cs_status ce_vocabulary_extend(ce_vocabulary *vocabulary);

/* ---- vocabulary_tokens.c ---- */

typedef struct {
    json_t *files; /* {NAME: TEXT}: the files of the tokenizer with the new tokens; the caller owns this reference */
    json_t *named; /* {"pad_token": ID}: the ids of vocabulary->named; the caller owns this reference */
    int64_t size;  /* a number above every id */
    int64_t added;
} ce_vocabulary_tokens;

/* Reads the tokenizer.json, and the files beside it, of the folder vocabulary->from, and adds the tokens. */
cs_status ce_vocabulary_add(ce_vocabulary_tokens *tokens, const ce_vocabulary *vocabulary);
void ce_vocabulary_drop(ce_vocabulary_tokens *tokens);

#endif
