/* texts.h - finds the files that the name of a text stands for: a file, a pattern, a folder of texts, or a folder that
 * the library `datasets` saved. */
#ifndef CS_DATA_TEXTS_H
#define CS_DATA_TEXTS_H

#include "base/status.h"

#include <glob.h>

/* Returns true if the name is that of a folder, or has the ending of a text (formats/plain.h). */
bool ce_texts_is_text(const char *name);

/* Appends the paths of the files. The caller frees *paths by globfree, also after a failure. The name of an existing
 * file is taken literally, even if it contains *, ? or [. The files of a folder are ordered by ending, and then by
 * name. If the folder has a state.json (`datasets` saved it), its files are those that state.json lists. CS_NOT_FOUND:
 * there are no files. CS_BAD_FILE: state.json is wrong, or the folder has several splits; the message names them. */
cs_status ce_texts_list(glob_t *paths, const char *name);

#endif
