/* token_cache.h - texts that cspeed.data names, as token shards: made once on each host, and found again by later runs.
 *
 * A name that ends in .jsonl or .txt is a text, and so is a folder that holds some. Its shards lie in
 * CACHE/<16 hexadecimal digits>, which follow from the texts' names, sizes and times, from the tokenizer's files and
 * from what cspeed.data says about them; made_from.txt in there lists all that. Shards of an earlier state of the same
 * name go when new ones are made, unless somebody reads them. */
#ifndef CS_TEXTS_H
#define CS_TEXTS_H

#include "engine.h"

typedef struct {
    const char **names; /* (count) of token shards: of what is no text as it was given */
    int *held;          /* (count) descriptors that keep a text's shards from being removed; -1: of no text */
    int count;
} cs_texts;

/* The first rank of each host makes what is not there yet, and the others wait. Collective. Open while it is read. */
cs_status cs_texts_open(cs_texts *texts, cs_engine *engine, const char *const *given, int count);
void cs_texts_close(cs_texts *texts);

#endif
