/* kind.h - tells from the bytes of a file what the file is, so that only text is read as text. */
#ifndef CE_FORMATS_KIND_H
#define CE_FORMATS_KIND_H

#include "base/status.h"

#include <stdio.h>

/* A file that cannot be read at an offset, such as a pipe, is CE_KIND_OTHER, and so is an empty one. */
typedef enum { CE_KIND_OTHER, CE_KIND_GZIP, CE_KIND_ZSTD, CE_KIND_TABLE } ce_kind;
ce_kind ce_kind_of(FILE *file);

/* Returns CS_BAD_FILE if the file is no text in UTF-8: an archive, a document of an office program, an image, text in
 * another encoding, or other bytes. The message says how to make text of it. Looks at the first 64 KiB; where the file
 * is read next does not change. `path` is the name for the message. */
cs_status ce_kind_check(FILE *file, const char *path);

#endif
