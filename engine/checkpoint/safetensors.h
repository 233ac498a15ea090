/* safetensors.h - parses the header of a safetensors file. The file begins with a number N of 64 bits and N bytes of
 * JSON; the data follow.
 *
 * The parser accepts no file that the reference reader rejects, and is stricter against hostile files: no duplicate
 * names, entries must be objects, at most 32 dimensions, names of at most 4096 bytes, integers up to 2^63 - 1. */
#ifndef CE_CHECKPOINT_SAFETENSORS_H
#define CE_CHECKPOINT_SAFETENSORS_H

#include "json/json.h"

enum { CE_SAFETENSORS_MAX_HEADER = 100000000, CE_SAFETENSORS_MAX_DIMS = 32, CE_SAFETENSORS_MAX_NAME = 4096 };

typedef struct {
    const char *key;
    const char *dtype; /* name of the data type, for example "F32" */
    int dims;
    const int64_t *shape;
    int64_t begin, end; /* offsets of the tensor's data, in bytes from the end of the header */
} ce_safetensors_entry;

typedef struct {
    json_t *root;                  /* the parsed JSON, which owns the keys */
    json_t *metadata;              /* the header's metadata, borrowed from root; NULL if there is none */
    ce_safetensors_entry *entries; /* the tensors, sorted by `begin` */
    int64_t count;
    int64_t *shapes; /* storage of the shapes of all entries */
} ce_safetensors;

/* Computes the length of the header block, including the 8 bytes of the number N, from the first bytes and the length
 * of a file. */
cs_status ce_safetensors_header_bytes(int64_t *bytes, const uint8_t *start, size_t start_bytes, int64_t file_bytes,
                                      const char *path);

/* Parses the `length` bytes of JSON at `text`. Exactly `data_bytes` bytes of the file must follow them. */
cs_status ce_safetensors_parse(ce_safetensors *header, const char *text, size_t length, int64_t data_bytes,
                               const char *path);
void ce_safetensors_close(ce_safetensors *header); /* frees the header's memory; allowed after a failed parse */

/* Reads the whole header block of a file into *block, which the caller frees, and sets *file_bytes to the length of the
 * file. */
cs_status ce_safetensors_load(char **block, size_t *block_bytes, int64_t *file_bytes, const char *path);

/* Convert between data types and their names ("F32" and so on). ce_safetensors_dtype returns false for types that
 * cspeed does not have. */
const char *ce_safetensors_name(cs_dtype dtype);
json_t *ce_safetensors_numbers(const int64_t *numbers, int count); /* returns a shape or offsets as a JSON array */
bool ce_safetensors_dtype(cs_dtype *dtype, const char *name);

#endif
