/* weight_files.h - finds the files with weights in a model's folder by their names. */
#ifndef CE_INTERCHANGE_WEIGHT_FILES_H
#define CE_INTERCHANGE_WEIGHT_FILES_H

#include "base/names.h"
#include "base/status.h"

#include <stdbool.h>

#define CE_WEIGHTS_SINGLE "model.safetensors"
#define CE_WEIGHTS_INDEX "model.safetensors.index.json"
#define CE_WEIGHTS_ADAPTER "adapter_model.safetensors"

/* Names of files in one folder, in alphabetical order. */
typedef struct {
    char **names;
    int count;
} ce_weight_files;

/* Sets `files` to the files to read: model.safetensors, as transformers prefers it; otherwise the index, which lists
 * the shards; otherwise the only safetensors file, or the only complete set of shards, whatever its name is; otherwise
 * the GGUF file that the folder describes (gguf/describe.h). If nothing
 * in the folder looks like weights, there are no files. Returns CS_UNSUPPORTED or CS_BAD_FILE, with a message that names
 * the file and says what to do, if there are files with weights and it is not clear which of them to read. */
cs_status ce_weight_files_find(ce_weight_files *files, const char *folder);
void ce_weight_files_close(ce_weight_files *files);

/* Adds the names of those files of the folder that look like weights, or like the state of a training, and for which
 * `is_read` returns false. */
void ce_weight_files_others(ce_names *others, const char *folder, bool (*is_read)(const void *reader, const char *name),
                            const void *reader);

#endif
