/* keys.h - key tables: one row for each configuration key, with its type, default, limits and documentation.
 *
 * Each section of the configuration is one static table. ce_keys_fill reads a JSON object into a settings struct as the
 * table says and reports unknown keys together with the most similar known name; ce_keys_help prints the table for
 * `train --config_help`. A row is the only place where a key is described. A null in a file means the key's default;
 * for a key of type STRING it means that there is no string. */
#ifndef CE_JSON_KEYS_H
#define CE_JSON_KEYS_H

#include "json/json.h"

typedef enum {
    CE_KEY_BOOL,   /* the key's field in the settings struct is a bool; the file may also say 0 or 1 */
    CE_KEY_INT,    /* the key's field is an int64_t; the file may also say 5e8 or 2.0 */
    CE_KEY_NUMBER, /* the key's field is a double */
    /* The key's field is a const char *, owned by the document, or NULL for null. `fallback` has no quotes. */
    CE_KEY_STRING,
    /* The key's field is an int, the index in `choices`, e.g. "adam|adamw|sgd". Upper and lower case are equal. */
    CE_KEY_CHOICE,
    CE_KEY_PAIR, /* the key's field is a double[2] */
    CE_KEY_JSON, /* the key's field is a json_t *, owned by the document; other code checks its type */
    /* A key without a field and without effect. Its value must have the type of `fallback`; `sentence` says why it has
     * no effect. */
    CE_KEY_INERT,
    /* A key without a field. A value is an error, "not supported: KEY, because <sentence>", unless it is harmless in
     * the sense that the comment of ce_key defines. */
    CE_KEY_REFUSED,
    CE_KEY_SECTION /* the key is an object that has its own table */
} ce_key_type;

/* The value of a refused key is harmless, and therefore accepted, if it is the fallback, one of `choices` ("0|false"),
 * "auto", {} or [], or an object whose "enabled" is false (or missing, if the fallback is {"enabled": false}). */
typedef struct {
    const char *name;
    ce_key_type type;
    size_t offset;        /* offset of the field in the settings struct, in bytes */
    const char *fallback; /* the default as JSON text, e.g. "1e-3" */
    /* Limits of a number; if both are 0, there are no limits. If max is INFINITY, the value Infinity is allowed as
     * well; a key of type INT stores it as INT64_MAX. If the type is INERT and the value is a number, max INFINITY
     * means that the number must be an integer. If the type is REFUSED, min 1 means that --lenient ignores the key. */
    double min, max;
    /* The meaning depends on the type. CHOICE: the names. REFUSED: the harmless values. INERT with the fallback null:
     * an example of a value of the key's type, or NULL if any type is allowed. Other types: "auto" if that word is
     * accepted and means the default. */
    const char *choices;
    const char *sentence; /* what the key does, or why it has no effect or is refused */
} ce_key;

/* Sets every field of the table in `settings` to its key's default. */
void ce_keys_default(void *settings, const ce_key *table, int count);

/* Reads the JSON object `object` into `settings`. If `object` is NULL, all fields get their defaults. `path` is the
 * path of the section, "" for the top level. Errors are added to `doc` with the position of the value;
 * ce_json_verdict(doc) returns them all at the end. Keys that begin with "_" are comments. */
void ce_keys_fill(ce_json *doc, json_t *object, const char *path, void *settings, const ce_key *table, int count);

/* Replaces every "auto" in `object` by the value of the key's field, and records each replacement in the notes and
 * origins of `doc`. The caller has computed the values of these fields before. The "auto" of an inert key is replaced
 * by its fallback. */
void ce_keys_settle(ce_json *doc, json_t *object, const char *path, const void *settings, const ce_key *table,
                    int count);

bool ce_keys_is_auto(const json_t *object, const char *name);
/* Returns the row of the key `name`, or NULL if the table has no such key. */
const ce_key *ce_keys_find(const ce_key *table, int count, const char *name);
/* Returns the name in the table that is most similar to `name`, or NULL if no name is similar. */
const char *ce_keys_nearest(const ce_key *table, int count, const char *name);
const char *ce_keys_type_name(ce_key_type type); /* returns "true/false", "integer" ... */
/* Prints the table as a section of Markdown: a heading, and an item for each key. */
void ce_keys_help(const char *heading, const ce_key *table, int count);

#define CE_KEYS(table) (table), (int)(sizeof(table) / sizeof *(table))

#endif
