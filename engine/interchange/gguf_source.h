/* gguf_source.h - the tensors of a GGUF file as those of a Hugging Face folder: with the model's names, the rows of q and
 * k in the order of halves, and without the 1 that Gemma's norms have in such files. */
#ifndef CE_INTERCHANGE_GGUF_SOURCE_H
#define CE_INTERCHANGE_GGUF_SOURCE_H

#include "gguf/blocks.h"
#include "interchange/source.h"

/* How the elements of a tensor lie in a file. If all bytes are zero, they are those of the tensor, in its type. */
typedef struct {
    bool converted; /* the other members count */
    ce_gguf_type type;
    bool plus_one;
    int64_t head,
        columns; /* rows of a head whose rows are in the order of pairs, and their elements; 0: no such rows */
} ce_gguf_form;

/* Reads elements of a tensor that begins at `offset` of an open file. `buffer` has CE_SOURCE_BUFFER bytes. */
cs_status ce_gguf_form_read(const ce_gguf_form *form, int descriptor, int64_t offset, const char *path, ce_range range,
                            void *to, cs_dtype dtype, void *buffer);

/* Calls `add` for each tensor of the model in the file. */
typedef struct {
    const char *name; /* of the model */
    const char *path;
    cs_dtype dtype;
    int dims;
    const int64_t *shape;
    int64_t offset;
    ce_gguf_form form;
} ce_gguf_found;
cs_status ce_gguf_source_list(const char *path, cs_status (*add)(void *to, const ce_gguf_found *found), void *to);

#endif
