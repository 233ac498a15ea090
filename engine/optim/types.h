/* types.h - the key table of each optimizer, and the search for an optimizer by its name in a configuration. */
#ifndef CS_OPTIM_TYPES_H
#define CS_OPTIM_TYPES_H

#include "optim/optim.h"

typedef struct {
    const char *name;
    cs_optim_kind kind;
    const cs_key *keys; /* of optimizer.params; the offsets are those of cs_optim_settings */
    int count;
} cs_type;

/* Sets every field of every optimizer to its default. Where two optimizers have different defaults for one field, the
 * first optimizer of optim/rules.h decides. */
void cs_types_default(cs_optim_settings *settings);
const cs_type *cs_types_of(int kind);
/* Finds an optimizer by its name, in upper or lower case. If there is none, records a fault at optimizer.type and
 * returns NULL. */
const cs_type *cs_types_find(cs_json *doc, const char *name);
/* Records a fault: the section "optimizer" has no "type". */
void cs_types_missing(cs_json *doc);
/* Prints the key tables and the optimizers that are refused. */
void cs_types_help(void);

#endif
