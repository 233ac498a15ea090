/* blocks.h - the elements of a GGUF file: numbers of 16 and 32 bits, and blocks of 32 or 256 numbers with common
 * scales. */
#ifndef CE_GGUF_BLOCKS_H
#define CE_GGUF_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* The values are those of the enum ggml_type. */
typedef enum {
    CE_GGUF_F32 = 0,
    CE_GGUF_F16 = 1,
    CE_GGUF_Q4_0 = 2,
    CE_GGUF_Q4_1 = 3,
    CE_GGUF_Q5_0 = 6,
    CE_GGUF_Q5_1 = 7,
    CE_GGUF_Q8_0 = 8,
    CE_GGUF_Q4_K = 12,
    CE_GGUF_Q5_K = 13,
    CE_GGUF_Q6_K = 14,
    CE_GGUF_BF16 = 30
} ce_gguf_type;

enum { CE_GGUF_BLOCK = 32, CE_GGUF_SUPERBLOCK = 256 };

/* Finds the type that a user named for writing: "f32", "f16", "bf16", "q8_0" or "q4_0". */
bool ce_gguf_type_find(ce_gguf_type *type, const char *name);
/* Returns the value of general.file_type for a file of this type. */
int64_t ce_gguf_file_type(ce_gguf_type type);

/* Returns the number of elements of a block of the type `number`, or 0 if such a type is not read. */
int64_t ce_gguf_block_elements(int64_t number);
int64_t ce_gguf_row_bytes(ce_gguf_type type, int64_t columns);
/* Writes "Q2_K" or, for a type without a known name, "type 99". */
enum { CE_GGUF_TYPE_NAME = 32 };
const char *ce_gguf_type_name(char name[CE_GGUF_TYPE_NAME], int64_t number);
/* The names of the types that are read. */
extern const char ce_gguf_types_read[];

/* Converts `count` elements, a multiple of CE_GGUF_BLOCK for block types. `to` may be `from`. */
void ce_gguf_encode(ce_gguf_type type, void *to, const float *from, int64_t count);
/* Converts `count` elements, which begin with a block and end with one. */
void ce_gguf_decode(ce_gguf_type type, float *to, const void *from, int64_t count);

#endif
