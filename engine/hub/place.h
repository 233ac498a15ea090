/* place.h - where the cache of the Hugging Face Hub keeps a model, by the rules of the library huggingface_hub:
 *
 *     CACHE/models--ORG--NAME/refs/REVISION            a commit
 *                             snapshots/COMMIT/FILE    a symbolic link to ../../blobs/DIGEST
 *                             blobs/DIGEST             the bytes of a file */
#ifndef CE_HUB_PLACE_H
#define CE_HUB_PLACE_H

#include "hub/hub.h"

#include <stdbool.h>

enum { CE_HUB_NAME = 256, CE_HUB_COMMIT = 64 };

typedef struct {
    char cache[CE_HUB_PATH];
    char model[CE_HUB_NAME];    /* ORG/NAME, or NAME */
    char revision[CE_HUB_NAME]; /* a branch, a tag or a commit */
} ce_hub_place;

/* Writes the path that the first set one of the environment variables gives (a list that ends with NULL), or that of
 * `name` in the user's folder for the Hub (HF_HOME, else huggingface in the user's folder for caches). "~/" at the
 * begin of a variable stands for HOME. Returns false if no variable is set or the path is too long. */
bool ce_hub_user_path(char path[CE_HUB_PATH], const char *const *variables, const char *name);

/* Reads "ORG/NAME", "NAME" and both with "@REVISION"; the revision is "main" if it is not given. Returns false for
 * other texts, and if no environment variable says where the cache is. */
bool ce_hub_place_read(ce_hub_place *place, const char *name);
/* Reads the path of a snapshot; its commit becomes the revision. Returns false for other paths. */
bool ce_hub_place_of_snapshot(ce_hub_place *place, const char *folder);

/* Writes the path of `below` in the model's folder of the cache. Returns false if it is too long. */
bool ce_hub_place_path(char path[CE_HUB_PATH], const ce_hub_place *place, const char *below);
/* Writes the path of the snapshot of the revision. Returns false if the cache does not know its commit. */
bool ce_hub_place_snapshot(char path[CE_HUB_PATH], const ce_hub_place *place);
bool ce_hub_place_is_commit(const char *revision);

#endif
