/* tag.h - a tag's directory name: any string on any file system. */
#ifndef CS_CHECKPOINT_TAG_H
#define CS_CHECKPOINT_TAG_H

#include "base/status.h"

enum { CS_TAG_BYTES = 256 };

/* Bytes outside [A-Za-z0-9._-] and a leading dot become %XX; so does the first letter of "latest", which is the
 * pointer's name, and of "manifest.json", by which a checkpoint's own directory is told from the one it lies in. */
cs_status cs_tag_escape(char name[CS_TAG_BYTES], const char *tag);

/* The tag whose directory has this name. */
void cs_tag_unescape(char tag[CS_TAG_BYTES], const char *name);

#endif
