/* value.h - one JSON value on its way into one field of a settings struct, as its key's row says. */
#ifndef CS_BASE_VALUE_H
#define CS_BASE_VALUE_H

#include "base/keys.h"

typedef struct {
    cs_json *doc; /* takes the faults; NULL: a table's own default, which cannot be wrong */
    const cs_key *key;
    const char *path;
    const json_t *value;
    char *field;
} cs_value;

void cs_value_read(const cs_value *e);
/* An inert key must still make sense: of its fallback's type, and within the limits. Whether it differs from the
 * fallback. */
bool cs_value_check_inert(const cs_value *e);
bool cs_value_is_auto(const json_t *value);
json_t *cs_value_fallback(const cs_key *key); /* its default, new */
json_t *cs_value_sample(const cs_key *key);   /* of an inert or refused key: a value of the type it has, new; or null */
json_t *cs_value_of(const cs_key *key, const char *field);  /* the field as JSON, new; NULL where "auto" cannot stand */
json_t *cs_value_any(const cs_key *key, const char *field); /* the same of every field; NULL: the row has none */

#endif
