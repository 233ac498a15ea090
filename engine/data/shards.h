/* shards.h - token shards written one after another: FOLDER/NAME-00000.bin, ... or FOLDER/NAME.bin. */
#ifndef CS_DATA_SHARDS_H
#define CS_DATA_SHARDS_H

#include "data/tokens.h"

typedef struct {
    const char *folder, *name;
    int64_t limit; /* tokens a shard; INT64_MAX: one shard, without a number */
    int64_t vocab_size;
    cs_tokens_writer *writer;
    int64_t shards, in_shard, total;
} cs_shards;

/* Makes the folder and those above it. */
cs_status cs_shards_folder(const char *path);

cs_status cs_shards_document(cs_shards *shards); /* the next token begins one */
/* learnt NULL: all are. */
cs_status cs_shards_append(cs_shards *shards, const int32_t *tokens, const bool *learnt, int64_t count);
/* Completes the last one; shards of an earlier, longer text go. */
cs_status cs_shards_finish(cs_shards *shards);
void cs_shards_abandon(cs_shards *shards);

#endif
