/* not_found.h - error messages for a checkpoint that was not found: the reason, and what to name instead. The functions
 * do not communicate with other ranks. */
#ifndef CE_CHECKPOINT_NOT_FOUND_H
#define CE_CHECKPOINT_NOT_FOUND_H

#include "checkpoint/catalog.h"

/* Each function sets a message and returns a status that is not CS_OK. */

cs_status ce_not_found_folder(const char *dir); /* reports that `dir` could not be listed, with the reason in errno */
/* Reports that `dir` has no complete checkpoint. */
cs_status ce_not_found_all(const ce_catalog *catalog, const char *dir);
/* Reports that `dir` has no checkpoint `tag`. The message lists the tags that exist. */
cs_status ce_not_found_tag(const ce_catalog *catalog, const char *dir, const char *tag);
cs_status ce_not_found_manifest(const char *directory); /* reports that the directory of a checkpoint has no manifest */

#endif
