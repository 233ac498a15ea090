/* dropout.h - the random bits of dropout, many at a time. */
#ifndef CS_DEVICE_CPU_DROPOUT_H
#define CS_DEVICE_CPU_DROPOUT_H

#include "cspeed/ops.h"

/* The 16 bits of elements [from, from + count) of a sample into bits; scratch holds 16 more than count. Returns
 * where they begin. */
const uint16_t *cs_dropout_bits(uint16_t *scratch, uint64_t key, uint64_t from, int64_t count);
uint64_t cs_dropout_key(cs_dropout dropout, int64_t sample);
uint32_t cs_dropout_threshold(cs_dropout dropout); /* an element is kept where its bits are not below it */

#endif
