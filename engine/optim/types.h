/* types.h - the optimizers' key tables, and the names that are refused. */
#ifndef CS_OPTIM_TYPES_H
#define CS_OPTIM_TYPES_H

#include "optim/optim.h"

typedef struct {
    const char *name;
    cs_optim_kind kind;
    const cs_key *keys; /* offsets are of cs_optim_settings */
    int count;
} cs_type;

/* Every field of every optimizer at its default. */
void cs_types_default(cs_optim_settings *settings);
const cs_type *cs_types_of(int kind);
/* By its name in a file, caseless; else a fault at optimizer.type, and NULL. */
const cs_type *cs_types_find(cs_json *doc, const char *name);
void cs_types_help(void);

#endif
