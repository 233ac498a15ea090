/* listed.h - the texts beside the manifest, read through it. */
#ifndef CS_CHECKPOINT_LISTED_H
#define CS_CHECKPOINT_LISTED_H

#include "checkpoint/manifest.h"

/* The text that the manifest of `directory` describes under `key` ("config"), malloc'ed, NUL-terminated, held to its
 * checksum. CS_BAD_FILE names the file that is missing or damaged; CS_NOT_FOUND: the manifest lists no such text. */
cs_status cs_listed_read(char **text, size_t *length, const cs_manifest *manifest, const char *key,
                         const char *directory);

#endif
