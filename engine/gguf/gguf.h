/* gguf.h - reads the header of a GGUF file, the format of llama.cpp (version 3): keys with values, and a list of
 * tensors.
 *
 *     ce_gguf_file file;
 *     CE_TRY(ce_gguf_open(&file, "model.gguf"));
 *     ... json_object_get(file.keys, "general.architecture"), file.tensors[0 .. file.count) ...
 *     ce_gguf_close(&file); */
#ifndef CE_GGUF_GGUF_H
#define CE_GGUF_GGUF_H

#include "gguf/blocks.h"
#include "json/json.h"

enum { CE_GGUF_DIMS = 4, CE_GGUF_NAME = 128 };

typedef struct {
    char name[CE_GGUF_NAME];
    int64_t type; /* a ce_gguf_type, or a type that is not read */
    int dims;
    int64_t shape[CE_GGUF_DIMS]; /* the number of rows comes before that of columns, as in PyTorch */
    int64_t offset, bytes;       /* place of the elements in the file; 0 bytes: the type is not read */
} ce_gguf_tensor;

typedef struct {
    json_t *keys; /* an object */
    ce_gguf_tensor *tensors;
    int64_t count;
} ce_gguf_file;

/* Reads the header. Everything in it is checked: each tensor whose type is read lies in the file. Returns CS_BAD_FILE or
 * CS_UNSUPPORTED, with a message that names the key or the tensor and its place in the file. After a failure there is
 * nothing to close. */
cs_status ce_gguf_open(ce_gguf_file *file, const char *path);
void ce_gguf_close(ce_gguf_file *file);
/* Does what ce_gguf_open does, for a file whose first `size` bytes are `bytes`, and which has `whole` bytes. */
cs_status ce_gguf_parse(ce_gguf_file *file, const void *bytes, size_t size, int64_t whole, const char *path);
/* Fails if a tensor has a type that is not read; the message names all of them. */
cs_status ce_gguf_check_types(const ce_gguf_file *file, const char *path);

/* Returns the tensor, or NULL if the file has none of this name. */
const ce_gguf_tensor *ce_gguf_find(const ce_gguf_file *file, const char *name);

#endif
