/* token_cache_key.h - what the tokens of a text are made from: its files, the tokenizer, and what cspeed.data says of them. */
#ifndef CS_RECIPE_H
#define CS_RECIPE_H

#include "engine.h"

#include <glob.h>

/* Of one name of cspeed.data. */
typedef struct {
    const cs_engine *engine;
    const cs_settings *settings;
    const char *name;      /* as given */
    const char *tokenizer; /* NULL: a token a byte */
    glob_t paths;
    char *record; /* what decides whether shards are the same */
    size_t head;  /* bytes of it that name the source; what it holds, and when, comes behind */
    char *folder; /* where they are or will be               */
} cs_recipe;

bool cs_recipe_is_text(const char *name);

cs_status cs_recipe_open(cs_recipe *recipe, const cs_engine *engine, const char *name); /* to be closed anyway */
void cs_recipe_close(cs_recipe *recipe);

/* Whole shards of just this are in its folder: what else may lie under the name is no cache of ours. */
bool cs_recipe_is_done(const cs_recipe *recipe);

/* Whole shards of the same source, but of another state of it, are in the folder. */
bool cs_recipe_is_older(const cs_recipe *recipe, const char *folder);

/* Says in the folder, where its shards are now, that they are this recipe's, if it is still what it was. */
cs_status cs_recipe_sign(const cs_recipe *recipe, const char *folder);

/* A pattern that `name` alone matches. */
void cs_recipe_quote(char *pattern, size_t room, const char *name);

#endif
