/* keys.h - key tables: one row for each configuration key, with its type, default, limits and documentation.
 *
 * Each section of the configuration is one static table. ce_keys_fill reads a JSON object into a settings struct as the
 * table says and reports unknown keys together with the most similar known name; ce_keys_help prints the table for
 * `train --config_help`. A row is the only place where a key is described. In a file, null means the default; for a
 * string it means that there is no string. */
#ifndef CS_BASE_KEYS_H
#define CS_BASE_KEYS_H

#include "base/json.h"

typedef enum {
    CS_KEY_BOOL,    /* field bool; 0 and 1 are accepted too */
    CS_KEY_INT,     /* field int64_t; 5e8 and 2.0 are accepted too */
    CS_KEY_NUMBER,  /* field double */
    CS_KEY_STRING,  /* field const char *, owned by the document; NULL for null. The fallback is without quotes */
    CS_KEY_CHOICE,  /* field int: the index in `choices`, e.g. "adam|adamw|sgd"; upper and lower case are equal */
    CS_KEY_PAIR,    /* field double[2] */
    CS_KEY_JSON,    /* field json_t *, owned by the document; any type, which other code checks */
    CS_KEY_INERT,   /* no field: accepted if it has its fallback's type; the sentence says why it has no effect */
    CS_KEY_REFUSED, /* no field: an error, "not supported: KEY, because <sentence>", unless the value is harmless */
    CS_KEY_SECTION  /* an object that has its own table */
} ce_key_type;

/* The value of a refused key is harmless, and therefore accepted, if it is the fallback, one of `choices` ("0|false"),
 * "auto", {} or [], or an object whose "enabled" is false (or missing, if the fallback is {"enabled": false}). */
typedef struct {
    const char *name;
    ce_key_type type;
    size_t offset;        /* of the field in the settings struct */
    const char *fallback; /* the default as JSON text, e.g. "1e-3" */
    /* Limits of a number; both 0: no limits. max INFINITY also allows Infinity, which an INT stores as INT64_MAX. In
     * the row of an inert number, max INFINITY means that the number must be an integer. */
    double min, max;
    /* CHOICE: the names. REFUSED: harmless values. INERT with the fallback null: an example of a value of its type, or
     * NULL for any type. Other types: "auto" if that word is accepted and means the default. */
    const char *choices;
    const char *sentence; /* what the key does, or why it has no effect or is refused */
} ce_key;

/* Sets every field of the table in `settings` to its key's default. */
void ce_keys_default(void *settings, const ce_key *table, int count);

/* Reads `object` into `settings`; object NULL: all defaults. `path` is the path of the section, "" for the top level.
 * Errors are added to `doc` with the position of the value; ce_json_verdict(doc) returns them all at the end. Keys that
 * begin with "_" are comments. */
void ce_keys_fill(ce_json *doc, json_t *object, const char *path, void *settings, const ce_key *table, int count);

/* After `settings` was resolved: replaces every "auto" in `object` by the value of the key's field, and records that in
 * the notes and origins of `doc`. The "auto" of an inert key becomes its fallback. */
void ce_keys_settle(ce_json *doc, json_t *object, const char *path, const void *settings, const ce_key *table,
                    int count);

bool ce_keys_is_auto(const json_t *object, const char *name);
const ce_key *ce_keys_find(const ce_key *table, int count, const char *name);  /* NULL: not in this table */
const char *ce_keys_nearest(const ce_key *table, int count, const char *name); /* NULL: no name is similar */
const char *ce_keys_type_name(ce_key_type type);                               /* "true/false", "integer" ... */
/* Prints the table as a section of Markdown: a heading, and an item for each key. */
void ce_keys_help(const char *heading, const ce_key *table, int count);

#define CS_KEYS(table) (table), (int)(sizeof(table) / sizeof *(table))

#endif
