/* convert.h - converts arrays of elements between data types. */
#ifndef CE_CHECKPOINT_CONVERT_H
#define CE_CHECKPOINT_CONVERT_H

#include "cspeed/cspeed.h"

/* The existing conversions are from each type to itself, and among fp32, bf16 and fp16. */
bool ce_convert_can(cs_dtype to, cs_dtype from);
void ce_convert_elements(void *to, cs_dtype to_dtype, const void *from, cs_dtype from_dtype, int64_t count);

#endif
