/* keys.h - a row of a key table: name, type, place, default, limits, a sentence.
 *
 * A section of the configuration is one static table of rows. The table fills the settings struct
 * (cs_keys_fill), refuses what it does not know with the nearest name, and prints itself
 * (`train --config_help`); nothing about a key is written anywhere else. */
#ifndef CS_BASE_KEYS_H
#define CS_BASE_KEYS_H

#include "base/json.h"

typedef enum {
    CS_KEY_BOOL,    /* bool                                                            */
    CS_KEY_INT,     /* int64_t; 5e8 and 2.0 are integers too                           */
    CS_KEY_NUMBER,  /* double                                                          */
    CS_KEY_STRING,  /* const char *, borrowed from the document; NULL when null        */
    CS_KEY_CHOICE,  /* int: index into `choices`, "adam|adamw|sgd", matched caselessly */
    CS_KEY_PAIR,    /* double[2]                                                       */
    CS_KEY_JSON,    /* json_t *, borrowed: a section or list with a reader of its own  */
    CS_KEY_INERT,   /* accepted, and the sentence says why it changes nothing here     */
    CS_KEY_REFUSED  /* "not supported: KEY, because <sentence>", unless its value equals `choices` (the harmless one) */
} cs_key_type;

typedef struct {
    const char *name;
    cs_key_type type;
    size_t      offset;      /* of the field in the settings struct            */
    const char *fallback;    /* the default as JSON text, e.g. "1e-3"          */
    double      least, most; /* for numbers; both 0: no limits                 */
    const char *choices;     /* for CS_KEY_CHOICE and CS_KEY_REFUSED           */
    const char *sentence;    /* what it does, or why it is refused             */
} cs_key;

/* Sets every field of the table in `settings` to its default. */
void cs_keys_default(void *settings, const cs_key *table, int count);

/* Reads `object` (may be NULL: defaults) into `settings`. Faults are added to doc's list, each with the
 * place of the value; `path` is the section's, "" at the top. Returns CS_OK even with faults: cs_json_verdict(doc)
 * tells at the end, so that all faults of a file are reported in one go. */
void cs_keys_fill(cs_json *doc, json_t *object, const char *path, void *settings, const cs_key *table, int count);

#define CS_KEYS(table) (table), (int)(sizeof(table) / sizeof *(table))

#endif
