/* gguf_parts.h - the parts of a GGUF file: keys with values, tensors, blocks of elements. */
#ifndef CE_INTERCHANGE_GGUF_PARTS_H
#define CE_INTERCHANGE_GGUF_PARTS_H

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

/* ---- families (gguf_families.c) ---- */

typedef struct {
    const char *type;     /* model_type of config.json */
    const char *arch;     /* name of the architecture in llama.cpp */
    bool permuted;        /* the rows of q and k are in the order of pairs, not of halves */
    bool plus_one;        /* the factors of RMSNorm are 1 + weight */
    bool sandwich;        /* norms before and after attention and feed-forward */
    bool after;           /* norms only after them */
    int64_t period;       /* all layers but every n-th have a sliding window; 0: none has */
    const char *function; /* activation function of the feed-forward */
} ce_gguf_family;

/* Finds the family of the model. Returns CS_UNSUPPORTED if llama.cpp does not have it, or it is not written here. */
cs_status ce_gguf_family_find(const ce_gguf_family **family, const json_t *config);
/* Writes the name that llama.cpp gives to a tensor. Returns false if it has no such tensor. */
bool ce_gguf_family_name(char name[128], const ce_gguf_family *family, const char *tensor);
/* Adds the keys of the model. */
cs_status ce_gguf_family_keys(ce_gguf_keys *keys, const ce_gguf_family *family, const json_t *config);
/* Returns the number of heads whose rows a tensor has, if they are permuted; otherwise 0. */
int64_t ce_gguf_family_heads(const ce_gguf_family *family, const char *tensor, const json_t *config);
/* Returns the factors by which llama.cpp divides the rotary frequencies (scaling of Llama 3), malloc'ed, and their
 * number; NULL if the model has none. */
float *ce_gguf_family_factors(int64_t *count, const json_t *config);

/* ---- the tokenizer (gguf_tokenizer.c) ---- */

cs_status ce_gguf_tokenizer_keys(ce_gguf_keys *keys, const ce_gguf_output *output);

/* ---- blocks (gguf_blocks.c) ---- */

enum { CE_GGUF_BLOCK = 32 };
int64_t ce_gguf_row_bytes(ce_gguf_type type, int64_t columns);
/* Converts `count` elements, a multiple of CE_GGUF_BLOCK for block types. `to` may be `from`. */
void ce_gguf_encode(ce_gguf_type type, void *to, const float *from, int64_t count);

#endif
