/* shards.h - writes a sequence of token shards of limited size: FOLDER/NAME-00000.bin, ... or FOLDER/NAME.bin. */
#ifndef CE_DATA_SHARDS_H
#define CE_DATA_SHARDS_H

#include "data/places.h"
#include "data/tokens.h"

typedef struct {
    const char *folder, *name;
    int64_t limit; /* number of tokens in one shard; INT64_MAX means one shard, whose name has no number */
    int64_t vocab_size;
    ce_tokens_writer *writer;
    int64_t shards, complete; /* number of shards that were begun, and number of complete shards */
    int64_t in_shard, total;
    int32_t last; /* the last token that was appended */
    ce_places places;
    int64_t documents; /* number of documents that begin in the current shard */
    const char *text;  /* where the current document begins; the caller keeps the path valid */
    int64_t line;
} ce_shards;

/* Creates the folder `path` and its parents. *made becomes the length of the shortest prefix of `path` that was
 * created, or 0 if the folder existed. *made is also set if the function fails. */
cs_status ce_shards_folder(const char *path, size_t *made);
/* Removes the folders that ce_shards_folder created, if they are empty. `made` is the result of that function. */
void ce_shards_remove_folder(const char *path, size_t made);

/* Marks the next token as the first of a document, of which at least `length` tokens will be appended. If they do not
 * fit in the current shard, another shard begins, so that a document is divided only if it is longer than a shard.
 * `text` and `line` are the place of the document (places.h). */
cs_status ce_shards_document(ce_shards *shards, int64_t length, const char *text, int64_t line);
/* Appends tokens. learnt[i] is false for a token that is not a target. If `learnt` is NULL, all tokens are targets. A
 * shard that begins within a document first has the last token of the shard before it, so that the token after this one
 * stays a target. */
cs_status ce_shards_append(ce_shards *shards, const int32_t *tokens, const bool *learnt, int64_t count);
/* Completes the last shard. Removes shards with higher numbers: an earlier run, in which the text was longer, has left
 * them. */
cs_status ce_shards_finish(ce_shards *shards);
/* Removes the incomplete shard and all complete ones, so that a failed run leaves nothing. */
void ce_shards_remove(ce_shards *shards);

#endif
