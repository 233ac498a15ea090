/* keys.h - a row of a key table: name, type, place, default, limits, a sentence.
 *
 * A section of the configuration is one static table of rows. The table fills the settings struct
 * (cs_keys_fill), refuses what it does not know with the nearest name, and prints itself
 * (`train --config_help`); nothing about a key is written anywhere else. null means the default, and for a string:
 * none. */
#ifndef CS_BASE_KEYS_H
#define CS_BASE_KEYS_H

#include "base/json.h"

typedef enum {
    CS_KEY_BOOL,    /* bool; 0 and 1 too                                               */
    CS_KEY_INT,     /* int64_t; 5e8 and 2.0 are integers too                           */
    CS_KEY_NUMBER,  /* double                                                          */
    CS_KEY_STRING,  /* const char *, borrowed from the document; NULL when null. Its fallback is written bare */
    CS_KEY_CHOICE,  /* int: index into `choices`, "adam|adamw|sgd", matched caselessly */
    CS_KEY_PAIR,    /* double[2]                                                       */
    CS_KEY_JSON,    /* json_t *, borrowed, of any type: a reader of its own judges it  */
    CS_KEY_INERT,   /* accepted if of its fallback's type, and the sentence says why it changes nothing here */
    CS_KEY_REFUSED, /* "not supported: KEY, because <sentence>", unless harmless: see below */
    CS_KEY_SECTION  /* an object with a table of its own                               */
} cs_key_type;

/* A refused key is harmless, and accepted, at its fallback, at any value of `choices` ("0|false"), as "auto" or {} or
 * [], and as an object whose "enabled" is false (or is missing, where the fallback is {"enabled": false}). */
typedef struct {
    const char *name;
    cs_key_type type;
    size_t offset;        /* of the field in the settings struct            */
    const char *fallback; /* the default as JSON text, e.g. "1e-3"          */
    double min,
        max; /* for numbers; both 0: no limits. most INFINITY: Infinity may be given (for an INT: INT64_MAX), and an
                 inert number is a whole one */
    const char *choices;  /* CHOICE, REFUSED: see there; INERT with the fallback null: a value of the type it has, or
                             NULL for any; else "auto" where that word is taken and leaves the default */
    const char *sentence; /* what it does, or why it is refused             */
} cs_key;

/* Sets every field of the table in `settings` to its default. */
void cs_keys_default(void *settings, const cs_key *table, int count);

/* Reads `object` (may be NULL: defaults) into `settings`. Faults are added to doc's list, each with the
 * place of the value; `path` is the section's, "" at the top. cs_json_verdict(doc) tells at the end, so that all faults
 * of a file are reported in one go. Keys that begin with "_" are comments. */
void cs_keys_fill(cs_json *doc, json_t *object, const char *path, void *settings, const cs_key *table, int count);

/* Replaces every "auto" of the table's keys in `object` by the field's value, now that it is resolved, notes and marks
 * what became of it; an inert key's "auto" becomes its fallback. */
void cs_keys_settle(cs_json *doc, json_t *object, const char *path, const void *settings, const cs_key *table,
                    int count);

bool cs_keys_is_auto(const json_t *object, const char *name);
const cs_key *cs_keys_find(const cs_key *table, int count, const char *name);  /* NULL: not in this table */
const char *cs_keys_nearest(const cs_key *table, int count, const char *name); /* NULL: none is near */
const char *cs_keys_type_name(cs_key_type type);                               /* "true/false", "integer" ... */
/* Prints the table, aligned, under a heading. */
void cs_keys_help(const char *heading, const cs_key *table, int count);

#define CS_KEYS(table) (table), (int)(sizeof(table) / sizeof *(table))

#endif
