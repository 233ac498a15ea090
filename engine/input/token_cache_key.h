/* token_cache_key.h - cache key of a tokenized text: its files, the tokenizer, and keys of cspeed.data. */
#ifndef CS_INPUT_TOKEN_CACHE_KEY_H
#define CS_INPUT_TOKEN_CACHE_KEY_H

#include "engine.h"

#include <glob.h>

/* The key of one name in cspeed.data. */
typedef struct {
    const cs_engine *engine;
    const ce_settings *settings;
    const char *name;      /* as given */
    const char *tokenizer; /* NULL: every byte is a token */
    glob_t paths;
    char *record; /* text form of the key: shards are reused if it is equal */
    size_t head;  /* length of the part of `record` that names the source; sizes and times follow */
    char *folder; /* folder of the shards, whether it exists or not */
} ce_token_cache_key;

cs_status ce_token_cache_key_open(ce_token_cache_key *key, const cs_engine *engine,
                                  const char *name); /* close it also after a failure */
void ce_token_cache_key_close(ce_token_cache_key *key);

/* True if the cache folder holds complete shards made from exactly this key. All other contents of it are ignored. */
bool ce_token_cache_key_is_done(const ce_token_cache_key *key);

/* True if `folder` holds complete shards of an earlier state of the same source. */
bool ce_token_cache_key_is_older(const ce_token_cache_key *key, const char *folder);

/* Writes the record into `folder`, which holds the new shards. Fails if the source has changed since
 * ce_token_cache_key_open. */
cs_status ce_token_cache_key_sign(const ce_token_cache_key *key, const char *folder);

#endif
