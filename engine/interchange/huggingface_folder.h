/* huggingface_folder.h - functions that change the list of tensors of a source. ce_huggingface_open (huggingface.c) has
 * made the source, and huggingface_names.c calls these functions. */
#ifndef CE_INTERCHANGE_HUGGINGFACE_FOLDER_H
#define CE_INTERCHANGE_HUGGINGFACE_FOLDER_H

#include "interchange/source.h"

/* Changes the name of a tensor. The source takes ownership of `name`. */
void ce_huggingface_rename_tensor(ce_source *source, int64_t tensor, char *name);
void ce_huggingface_remove_tensor(ce_source *source, int64_t tensor);
/* Adds a tensor with the values of `tensor`, and returns its index. The source takes ownership of `name`. */
int64_t ce_huggingface_copy_tensor(ce_source *source, int64_t tensor, char *name);
/* Adds a tensor of the rows `first` to `first + rows - 1` of `whole`. `whole` has three dimensions; the first two are
 * counted as rows. The source takes ownership of `name`. */
void ce_huggingface_add_rows(ce_source *source, int64_t whole, char *name, int64_t first, int64_t rows);
/* Returns the path of the first file with weights. The source owns the text. */
const char *ce_huggingface_first_file(const ce_source *source);

#endif
