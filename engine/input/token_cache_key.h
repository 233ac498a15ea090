/* token_cache_key.h - cache key of a tokenized text, made of its files, the tokenizer, and values of cspeed.data. */
#ifndef CE_INPUT_TOKEN_CACHE_KEY_H
#define CE_INPUT_TOKEN_CACHE_KEY_H

#include "core/engine.h"

#include <glob.h>

/* The cache key of one name in cspeed.data.train or cspeed.data.valid. */
typedef struct {
    const cs_engine *engine;
    const ce_settings *settings;
    const char *name;      /* name as it is written in the configuration */
    const char *tokenizer; /* path of the tokenizer; NULL if every byte is a token */
    glob_t paths;
    char *record; /* the key as text; complete shards are reused if their folder has the same record */
    /* length of the first part of `record`: the name of the text and the settings. The second part lists files with
     * their sizes and times. */
    size_t head;
    char *folder; /* folder of the shards, which may not exist yet */
} ce_token_cache_key;

cs_status ce_token_cache_key_open(ce_token_cache_key *key, const cs_engine *engine,
                                  const char *name); /* The key must be closed, also after a failure. */
void ce_token_cache_key_close(ce_token_cache_key *key);

/* Sets *done to true if the cache's folder for this key holds complete shards that were made from exactly this key.
 * Other contents of the folder are ignored. Returns CS_IO_ERROR if the folder cannot be read. */
cs_status ce_token_cache_key_find(const ce_token_cache_key *key, bool *done);

/* Returns true if `folder` holds complete shards of an earlier state of the same text. */
bool ce_token_cache_key_is_older(const ce_token_cache_key *key, const char *folder);

/* Writes the record into `folder`, which holds the new shards. Fails if the text's files have changed since
 * ce_token_cache_key_open. */
cs_status ce_token_cache_key_sign(const ce_token_cache_key *key, const char *folder);

#endif
