/* listing.h - every key that has a value, with the value and where it comes from; and one key by its path. */
#ifndef CS_CONFIG_LISTING_H
#define CS_CONFIG_LISTING_H

#include "config/config.h"

typedef struct {
    const char *path;
    const char *idle;   /* why the value has no effect, or is refused unless harmless; NULL: it has */
    json_t *value;      /* borrowed for the call                                                    */
    const char *origin; /* "line 7", "command line", "auto", "derived", "default", ...              */
} cs_listing;

/* Calls `visit` for each key with an effect, and each without that the file gives, in the tables' order; once
 * cs_config_finish has run, even if it refused. A template that was never filled in has no values. */
void cs_listing_each(cs_config *config, void (*visit)(void *to, const cs_listing *item), void *to);

/* The rows that stand at a dotted path, in every table that may be there (optimizer.params.lr has one an optimizer):
 * calls `visit` with heading and row, and returns how many there were. */
int cs_listing_explain(const char *path, void (*visit)(void *to, const char *heading, const cs_key *key), void *to);
/* Where a key of the last name of this path belongs, when it is known elsewhere: a malloc'ed half of a sentence; NULL:
 * nowhere, or in too many places. */
char *cs_listing_advise(const char *path);
/* The known path nearest to this one, malloc'ed; NULL: none is near. */
char *cs_listing_nearest(const char *path);

#endif
