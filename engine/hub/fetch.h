/* fetch.h - downloads files of a model from the Hugging Face Hub into the cache of the Hub's own programs. */
#ifndef CE_HUB_FETCH_H
#define CE_HUB_FETCH_H

#include "hub/place.h"

typedef enum {
    CE_HUB_DESCRIPTION, /* JSON files, tokenizer, chat template */
    CE_HUB_WEIGHTS      /* safetensors: the files that cspeed reads, if there are several sets */
} ce_hub_part;

/* Downloads what the cache does not have, while it holds the model's lock. A file that a signal or the network
 * interrupted continues at the byte where it stopped; a file has its name only after its digest was compared. Returns
 * CS_OK at once if another process has downloaded the part while this one waited for the lock. */
cs_status ce_hub_fetch(const ce_hub_place *place, ce_hub_part part);
/* Returns true if the snapshot `folder` has this part. */
bool ce_hub_has(const char *folder, ce_hub_part part);

#endif
