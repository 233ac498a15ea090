/* gguf_parts.h - the parts of a GGUF file that is written: keys with values, tensors. */
#ifndef CE_INTERCHANGE_GGUF_PARTS_H
#define CE_INTERCHANGE_GGUF_PARTS_H

#include "gguf/family.h"
#include "interchange/gguf.h"

#include <stdio.h>

/* ---- keys (gguf_keys.c) ---- */

typedef struct {
    FILE *out;
    int64_t count;
    const char *arch; /* prefix of the keys whose name begins with '.' */
} ce_gguf_keys;

void ce_gguf_number(FILE *out, uint64_t value, int bytes); /* little-endian */
void ce_gguf_text(FILE *out, const char *text, size_t length);
void ce_gguf_key_count(ce_gguf_keys *keys, const char *name, int64_t value);
void ce_gguf_key_real(ce_gguf_keys *keys, const char *name, double value);
void ce_gguf_key_truth(ce_gguf_keys *keys, const char *name, bool value);
void ce_gguf_key_text(ce_gguf_keys *keys, const char *name, const char *value);
/* Begins an array; the caller writes `count` elements. */
typedef enum { CE_GGUF_INT32 = 5, CE_GGUF_FLOAT32 = 6, CE_GGUF_STRING = 8 } ce_gguf_element;
void ce_gguf_key_array(ce_gguf_keys *keys, const char *name, ce_gguf_element type, int64_t count);

/* ---- the model (gguf_families.c) ---- */

/* Sizes of the model, from the shapes of its tensors. */
typedef struct {
    int64_t vocabulary, heads, key_heads, width; /* `width`: number of columns of a head */
} ce_gguf_sizes;

cs_status ce_gguf_sizes_read(ce_gguf_sizes *sizes, const ce_source *source, const json_t *config);
/* Adds the keys of the model. */
cs_status ce_gguf_family_keys(ce_gguf_keys *keys, const ce_gguf_family *family, const json_t *config,
                              const ce_gguf_sizes *sizes);
/* Returns the factors by which llama.cpp divides the rotary frequencies (scaling of Llama 3), malloc'ed, and their
 * number; NULL if the model has none. */
float *ce_gguf_family_factors(int64_t *count, const json_t *config, int64_t width);

/* ---- the tokenizer (gguf_tokenizer.c) ---- */

/* `size` is the number of tokens that the model has. */
cs_status ce_gguf_tokenizer_keys(ce_gguf_keys *keys, const ce_gguf_output *output, int64_t size);

#endif
