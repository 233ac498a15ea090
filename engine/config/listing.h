/* listing.h - lists all keys with their values and origins, and looks up keys by path or similar name. */
#ifndef CE_CONFIG_LISTING_H
#define CE_CONFIG_LISTING_H

#include "config/config.h"

typedef struct {
    const char *path;
    /* NULL if the value has an effect. Otherwise the reason why the value has no effect, or why only harmless values of
     * the key are accepted. */
    const char *idle;
    json_t *value;      /* value, which is valid only during the call of `visit` */
    const char *origin; /* origin of the value: "line 7", "command line", "auto", "derived", "default" and so on */
} ce_listing;

/* Calls `visit` for each key that has an effect, and for each key without effect that the file contains, in the order
 * of the tables. The function may be called after cs_config_finish, even if that call failed. It lists nothing if
 * cs_config_finish failed before the tables read the file, for example because of a placeholder of a template. */
void ce_listing_each(cs_config *config, void (*visit)(void *to, const ce_listing *item), void *to);

/* Finds the rows of the key with the dotted path `path` in all tables that may apply; optimizer.params.lr, for example,
 * has one row for each optimizer. Calls `visit` with the heading and the row of each table, and returns the number of
 * rows. */
int ce_listing_explain(const char *path, void (*visit)(void *to, const char *heading, const ce_key *key), void *to);
/* `path` is not the path of a key, but the last name in `path` may be a key of other sections. Returns a text that
 * names these sections. The text is the end of a sentence, and the caller frees it. Returns NULL if no section, or too
 * many sections, have a key of this name. */
char *ce_listing_advise(const char *path);
/* Returns the path of the one key with an effect whose last name is `name`, or NULL if there is none or there are
 * several. The caller frees the result. */
char *ce_listing_place(const char *name);
/* Returns the known path that is most similar to `path`, or NULL if none is similar. The caller frees the result. */
char *ce_listing_nearest(const char *path);

#endif
