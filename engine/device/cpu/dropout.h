/* dropout.h - the random bits of dropout, computed for many elements at a time. */
#ifndef CE_DEVICE_CPU_DROPOUT_H
#define CE_DEVICE_CPU_DROPOUT_H

#include "cspeed/ops.h"

/* Computes the 16 random bits of each of the elements [from, from + count) of a sample. `scratch` has room for count +
 * 16 values. Returns the address in `scratch` of the first element's bits. */
const uint16_t *ce_dropout_bits(uint16_t *scratch, uint64_t key, uint64_t from, int64_t count);
uint64_t ce_dropout_key(cs_dropout dropout, int64_t sample);
/* Returns the threshold: an element is kept if its bits are at least this number. */
uint32_t ce_dropout_threshold(cs_dropout dropout);

#endif
