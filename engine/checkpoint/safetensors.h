/* safetensors.h - the header of a safetensors file: u64 N, N bytes of JSON, data.
 *
 * Strict where the reference reader is, and stricter where files are hostile: no name twice, no array for an entry, at
 * most 32 dimensions, names of at most 4096 bytes, integers up to 2^63 - 1. */
#ifndef CS_CHECKPOINT_SAFETENSORS_H
#define CS_CHECKPOINT_SAFETENSORS_H

#include "base/json.h"

enum { CS_SAFETENSORS_MAX_HEADER = 100000000, CS_SAFETENSORS_MAX_DIMS = 32, CS_SAFETENSORS_MAX_NAME = 4096 };

typedef struct {
    const char *key;
    const char *dtype; /* "F32" */
    int dims;
    const int64_t *shape;
    int64_t begin, end; /* bytes, from the end of the header */
} cs_safetensors_entry;

typedef struct {
    json_t *root;                  /* owns the keys */
    json_t *metadata;              /* borrowed from root; NULL: none */
    cs_safetensors_entry *entries; /* by begin */
    int64_t count;
    int64_t *shapes; /* of all entries */
} cs_safetensors;

/* How long the header block is, N's own 8 bytes included, from a file's first bytes and its length. */
cs_status cs_safetensors_header_bytes(int64_t *bytes, const uint8_t *start, size_t start_bytes, int64_t file_bytes,
                                      const char *path);

/* The N bytes of JSON; `data_bytes` is all that follows them in the file. */
cs_status cs_safetensors_parse(cs_safetensors *header, const char *text, size_t length, int64_t data_bytes,
                               const char *path);
void cs_safetensors_close(cs_safetensors *header); /* accepts the half-built */

/* The whole header block of a file, malloc'ed, and the file's length. */
cs_status cs_safetensors_load(char **block, size_t *block_bytes, int64_t *file_bytes, const char *path);

/* "F32" and so on: the types a tensor of ours can have. */
const char *cs_safetensors_name(cs_dtype dtype);
bool cs_safetensors_dtype(cs_dtype *dtype, const char *name);

#endif
