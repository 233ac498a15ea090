/* types.h - the key table of each optimizer, and the search for an optimizer by its name in a configuration. */
#ifndef CE_OPTIM_TYPES_H
#define CE_OPTIM_TYPES_H

#include "optim/optim.h"

typedef struct {
    const char *name;
    ce_optim_kind kind;
    const ce_key *keys; /* keys of optimizer.params; their offsets are offsets in ce_optim_settings */
    int count;
} ce_type;

/* Sets every field of every optimizer to its default. If two optimizers have different defaults for one field, the
 * first of the two in optim/rules.h decides. */
void ce_types_default(ce_optim_settings *settings);
const ce_type *ce_types_of(int kind);
/* Finds an optimizer by its name or by a name that other libraries give it, in upper or lower case, and sets *bits to the
 * bits of state that the name stands for. If there is none, adds an error to doc at optimizer.type and returns NULL. */
const ce_type *ce_types_find(ce_json *doc, const char *name, int64_t *bits);
/* Adds an error to doc. The error says that the section "optimizer" has no "type". */
void ce_types_missing(ce_json *doc);
/* Prints the key tables and the optimizers that are refused. */
void ce_types_help(void);

#endif
