/* listing.h - lists all keys with their values and origins, and looks up keys by path or similar name. */
#ifndef CS_CONFIG_LISTING_H
#define CS_CONFIG_LISTING_H

#include "config/config.h"

typedef struct {
    const char *path;
    const char *idle;   /* NULL: the value has an effect; otherwise the reason why it has none, or why only harmless
                         * values of the key are accepted */
    json_t *value;      /* valid during the call */
    const char *origin; /* "line 7", "command line", "auto", "derived", "default", ...              */
} ce_listing;

/* Calls `visit` for each key that has an effect, and for each key without effect that the file gives, in the order of
 * the tables. Call it after cs_config_finish, also if cs_config_finish returned an error. A template that was not
 * filled in has no values. */
void ce_listing_each(cs_config *config, void (*visit)(void *to, const ce_listing *item), void *to);

/* Finds the rows of a dotted path in all tables that may apply (optimizer.params.lr has one row for each optimizer).
 * Calls `visit` with the heading and the row of each, and returns their number. */
int ce_listing_explain(const char *path, void (*visit)(void *to, const char *heading, const ce_key *key), void *to);
/* For an unknown path whose last name is a key of other sections: says where that key belongs. The text is the end of a
 * sentence; the caller frees it. NULL: no section has it, or too many have it. */
char *ce_listing_advise(const char *path);
/* Returns the known path that is most similar to `path`, malloc'ed; NULL: no path is similar. */
char *ce_listing_nearest(const char *path);

#endif
