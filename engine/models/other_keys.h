/* other_keys.h - keys of a config.json that are in no key table of its family. */
#ifndef CE_MODELS_OTHER_KEYS_H
#define CE_MODELS_OTHER_KEYS_H

#include "json/keys.h"

/* Returns a copy of the table, followed by a row for every key of `object` that it lacks:
 * - a key of which it is known that it changes what a model computes becomes a refused key, unless the family's arithmetic
 *   is that of its value;
 * - a key whose name is that of a known key with one or two wrong letters gets no row, so that ce_keys_fill refuses it;
 * - any other key becomes a key without effect. A warning of `doc` names these keys.
 * If unknown keys of the document are only notes (ce_json_lenient), all these keys, and refused keys of the table with
 * values that are not supported, become keys without effect, and the warning names them. The caller frees the copy. */
ce_key *ce_other_keys_add(const ce_key *table, int *count, json_t *object, ce_json *doc, const char *path);

/* Some keys have a second name, whose value transformers takes if both are given. Moves the values of second names to
 * the names that the table of the family `type` has. A warning of `doc` names two values that differ. */
void ce_other_keys_rename(const char *type, json_t *config, ce_json *doc, const char *path);

#endif
