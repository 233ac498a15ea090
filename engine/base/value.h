/* value.h - reads one JSON value into one field of a settings struct, as the key table's row says. For keys.c. */
#ifndef CS_BASE_VALUE_H
#define CS_BASE_VALUE_H

#include "base/keys.h"

typedef struct {
    cs_json *doc; /* collects errors; NULL: the value is a default of the table, which cannot be wrong */
    const cs_key *key;
    const char *path;
    const json_t *value;
    char *field;
} cs_value;

void cs_value_read(const cs_value *e);
/* Checks the value of an inert key, which must have its fallback's type and be within the limits. Returns true if it
 * differs from the fallback. */
bool cs_value_check_inert(const cs_value *e);
bool cs_value_is_auto(const json_t *value);
/* The following return new references. */
json_t *cs_value_fallback(const cs_key *key); /* the key's default */
json_t *cs_value_sample(const cs_key *key);   /* for an inert or refused key: a value of its type, or null */
json_t *cs_value_of(const cs_key *key, const char *field);  /* the field as JSON; NULL: the key does not accept
                                                             * "auto" */
json_t *cs_value_any(const cs_key *key, const char *field); /* the field as JSON, for every key; NULL: it has no
                                                             * field */

#endif
