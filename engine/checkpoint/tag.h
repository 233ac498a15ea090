/* tag.h - converts a tag, which is any string, to a directory name that every file system accepts, and back. */
#ifndef CE_CHECKPOINT_TAG_H
#define CE_CHECKPOINT_TAG_H

#include "base/status.h"

enum { CE_TAG_BYTES = 256 };

/* Converts a tag to a directory name. Bytes outside [A-Za-z0-9._-] and a leading dot become %XX. The first letter of
 * the tags "latest" and "manifest.json" also becomes %XX, because files with these names have a meaning: the first
 * names a checkpoint, and the second marks a checkpoint's directory. */
cs_status ce_tag_escape(char name[CE_TAG_BYTES], const char *tag);

/* Converts a directory name back to its tag. */
void ce_tag_unescape(char tag[CE_TAG_BYTES], const char *name);

#endif
