/* texts.h - the files that a name of a text stands for: a file, a pattern, a folder of texts, or a folder that the
 * library `datasets` saved. */
#ifndef CS_DATA_TEXTS_H
#define CS_DATA_TEXTS_H

#include "base/status.h"

#include <glob.h>

/* Returns true if the name is that of a folder, or ends as the names of texts do (formats/plain.h). */
bool ce_texts_is_text(const char *name);

/* Appends the paths of the files. The caller frees *paths by globfree, also after a failure. A name of an existing file
 * is taken literally, even if it contains *, ? or [. The files of a folder are read by ending and name; those of a
 * folder with state.json, which `datasets` saved, are what that file lists. CS_NOT_FOUND: there are none. CS_BAD_FILE:
 * state.json is wrong, or the folder has several splits; the message names them. */
cs_status ce_texts_list(glob_t *paths, const char *name);

#endif
