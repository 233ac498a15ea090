/* hub.h - models by their names on the Hugging Face Hub, "ORG/NAME" or "ORG/NAME@REVISION", in the cache of the Hub's
 * own programs.
 *
 * A model comes in two parts. Its description (config.json, tokenizer) is downloaded when the name is first used; its
 * weights when they are first read, so that a command that only plans does not wait for them. The ranks of a host share
 * a cache: one of them downloads, under a lock, and the others find the files. What is in the cache is used without
 * asking the Hub whether the model has changed. With HF_HUB_OFFLINE=1 nothing is downloaded. */
#ifndef CE_HUB_HUB_H
#define CE_HUB_HUB_H

#include "base/status.h"

#include <stdbool.h>

enum { CE_HUB_PATH = 4096, CE_HUB_HINT = 1536 };

/* Writes to `folder` the snapshot of the model `name` in the cache, and downloads the model's description if the cache
 * does not have it. *found becomes false if `name` exists in the file system, is not the name of a model, or is neither in
 * the cache nor on the Hub. A NAME without an ORG is only looked up in the cache: it may be a folder that is missing.
 *
 * If `name` is a file whose name ends in ".gguf", `folder` is the folder that describes it (gguf/describe.h). Fails if
 * that file cannot be read. */
cs_status ce_hub_find(bool *found, char folder[CE_HUB_PATH], const char *name);
/* Writes what to do if `name`, which was to be a folder, does not exist: why the download failed and the command that
 * downloads the model, if `name` has the form ORG/NAME; otherwise "". The text begins with ": ". */
void ce_hub_hint(char hint[CE_HUB_HINT], const char *name);
/* Returns true if ce_hub_find returned this folder and its weights are not there. */
bool ce_hub_lacks_weights(const char *folder);
/* Downloads the weights of a folder for which ce_hub_lacks_weights returns true; fails with HF_HUB_OFFLINE=1. Does nothing
 * for other folders. */
cs_status ce_hub_need_weights(const char *folder);

#endif
