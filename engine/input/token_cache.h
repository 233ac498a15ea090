/* token_cache.h - cache of tokenized texts: each host tokenizes a text once, and later runs reuse the token shards.
 *
 * A name in cspeed.data that ends in .jsonl or .txt is a text; so is a folder that contains such files. Its shards are
 * in CACHE/<16 hexadecimal digits>. The digits are a hash of the texts' names, sizes and modification times, of the
 * tokenizer's files, and of the keys of cspeed.data that matter; made_from.txt in that folder lists these facts. When a
 * changed text is tokenized again, the shards of its earlier state are deleted, unless a run still reads them. */
#ifndef CS_TEXTS_H
#define CS_TEXTS_H

#include "engine.h"

typedef struct {
    const char **names; /* (count) patterns of token shards; a name that is not a text is kept as given */
    int *held;          /* (count) locked descriptors that protect a text's shards from deletion; -1: not a text */
    int count;
} cs_texts;

/* The first rank of each host tokenizes the texts that are not in the cache; the other ranks wait. Collective. Keep
 * *texts open while the shards are read. */
cs_status cs_texts_open(cs_texts *texts, cs_engine *engine, const char *const *given, int count);
void cs_texts_close(cs_texts *texts);

#endif
