/* hub.h - models by their names on the Hugging Face Hub, "ORG/NAME", in the cache of the Hub's own programs. */
#ifndef CE_BASE_HUB_H
#define CE_BASE_HUB_H

#include <stdbool.h>

enum { CE_HUB_PATH = 4096, CE_HUB_HINT = 1024 };

/* Writes to `folder` the snapshot of the model `name` that the cache (HF_HUB_CACHE, HF_HOME, ~/.cache/huggingface) has
 * for its main revision. Returns false if `name` exists in the file system, or if the cache has no such model. */
bool ce_hub_find(char folder[CE_HUB_PATH], const char *name);
/* Writes what to do if `name`, which was to be a folder, does not exist: the command that downloads the model if `name`
 * has the form ORG/NAME, otherwise "". The text begins with ": ". */
void ce_hub_hint(char hint[CE_HUB_HINT], const char *name);

#endif
