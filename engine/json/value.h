/* value.h - reads one JSON value into one field of a settings struct, as a row of the key table says. */
#ifndef CE_JSON_VALUE_H
#define CE_JSON_VALUE_H

#include "json/keys.h"

typedef struct {
    /* The document that collects errors; NULL if the value is a default of the table, which cannot be wrong. */
    ce_json *doc;
    const ce_key *key;
    const char *path;
    const json_t *value;
    char *field;
} ce_value;

void ce_value_read(const ce_value *e);
/* Checks the value of an inert key: it must have its fallback's type and be within the limits. Returns true if the
 * value differs from the fallback. */
bool ce_value_check_inert(const ce_value *e);
/* Returns true if the value of a refused key is harmless in the sense of keys.h. */
bool ce_value_is_harmless(const ce_key *key, const json_t *value);
bool ce_value_is_auto(const json_t *value);
/* The next four functions return new references to JSON values. */
json_t *ce_value_fallback(const ce_key *key); /* returns the key's default */
/* Returns an example of a value of an inert or refused key, or null if any type is allowed. */
json_t *ce_value_sample(const ce_key *key);
/* Returns the value of the field as JSON if the key is of a type that may accept "auto" (bool, integer, number, pair).
 * For an inert key, returns its fallback. For a key of another type, returns NULL. */
json_t *ce_value_of(const ce_key *key, const char *field);
/* Returns the field of a key as JSON, also if the key does not accept "auto"; NULL if the key has no field. */
json_t *ce_value_any(const ce_key *key, const char *field);

#endif
