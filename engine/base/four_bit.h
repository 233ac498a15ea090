/* four_bit.h - weights of 4 bits as bitsandbytes stores them: NF4 (Dettmers et al. 2023), whose 16 values are quantiles of
 * the normal distribution, and FP4, floating-point numbers of 4 bits.
 *
 * The elements of a matrix, in row-major order, are divided into blocks of 64. A block has its absmax, the greatest
 * absolute value of its elements, and for each element the code of the value that is nearest to element / absmax. Two
 * codes are one byte, and the element with the even index has the high half.
 *
 * With double quantisation the absmax of a block is a byte: the code, in a table of 256 values, of (absmax - offset) /
 * nested. `offset` is the mean of all absmax of the matrix, and `nested` the greatest absolute value of a group of 256
 * differences. An element then takes 4 + 8/64 + 32/(64 * 256) bits. */
#ifndef CE_BASE_FOUR_BIT_H
#define CE_BASE_FOUR_BIT_H

#include <stdint.h>

typedef enum { CE_NOT_FOUR_BIT, CE_NF4, CE_FP4, CE_FOUR_BIT_TYPES } ce_four_bit_type;
extern const char *const ce_four_bit_names[CE_FOUR_BIT_TYPES + 1]; /* "nf4", "fp4"; the first is "" and the last NULL */

enum { CE_FOUR_BIT_BLOCK = 64, CE_FOUR_BIT_GROUP = 256 };

/* The values of the 16 codes, and the 256 values of the codes of absmax in ascending order. */
const float *ce_four_bit_values(ce_four_bit_type type);
const float *ce_four_bit_scales(void);

/* Quantises one block: writes `count` / 2 bytes of codes and returns the block's absmax. `count` is even and at most
 * CE_FOUR_BIT_BLOCK. */
float ce_four_bit_encode(uint8_t *codes, const float *values, int count, ce_four_bit_type type);
/* Quantises the absmax of `blocks` blocks: writes a code for each block, and to `nested` one number for each group and
 * then the offset. */
void ce_four_bit_encode_absmax(uint8_t *codes, float *nested, const float *absmax, int64_t blocks);
/* Returns the absmax of a block from what ce_four_bit_encode_absmax has written; `blocks` is the number of blocks. */
float ce_four_bit_absmax(const uint8_t *codes, const float *nested, int64_t block, int64_t blocks);
/* Returns the value of element `index` divided by its absmax. */
float ce_four_bit_value(const uint8_t *codes, int64_t index, ce_four_bit_type type);

#endif
