/* texts.h - finds the files that the name of a text refers to: a file, a pattern, a folder of texts, or a folder that
 * the library `datasets` saved. */
#ifndef CE_DATA_TEXTS_H
#define CE_DATA_TEXTS_H

#include "base/status.h"

#include <glob.h>

/* Returns true if the name is that of a folder, or has the ending of a text file (formats/plain.h). */
bool ce_texts_is_text(const char *name);

/* Appends the paths of the files. The caller frees *paths by globfree, also after a failure. The name of an existing
 * file is taken literally, even if the name contains *, ? or [. The files of a folder are ordered by ending, and then
 * by name. A folder with a state.json was saved by the library `datasets`: only the files that state.json lists are
 * appended, in the order of that list. Returns CS_NOT_FOUND if there are no files. Returns CS_BAD_FILE if state.json is
 * wrong, or if the folder has several splits; the message names the splits. */
cs_status ce_texts_list(glob_t *paths, const char *name);

#endif
