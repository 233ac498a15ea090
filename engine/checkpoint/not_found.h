/* not_found.h - why there is no checkpoint where one was looked for, and what to name instead. One rank's view. */
#ifndef CS_CHECKPOINT_NOT_FOUND_H
#define CS_CHECKPOINT_NOT_FOUND_H

#include "checkpoint/catalog.h"

/* Each returns a status that is not CS_OK, with its sentence. */

cs_status cs_not_found_folder(const char *dir);                         /* could not be listed: errno tells why */
cs_status cs_not_found_all(const cs_catalog *catalog, const char *dir); /* listed, and no checkpoint is whole  */
cs_status cs_not_found_tag(const cs_catalog *catalog, const char *dir, const char *tag); /* names those that are    */
cs_status cs_not_found_manifest(const char *directory); /* of one checkpoint                    */

#endif
