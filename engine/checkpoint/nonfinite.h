/* nonfinite.h - checks for non-finite values (infinity, NaN) in parameters before they are saved. */
#ifndef CS_CHECKPOINT_NONFINITE_H
#define CS_CHECKPOINT_NONFINITE_H

#include "checkpoint/checkpoint.h"

/* CS_NOT_FINITE, with the name of the piece, if `bytes` bytes of its elements at `data` (host memory) contain an
 * infinity or a NaN. */
cs_status cs_nonfinite_refuse(const cs_piece *piece, const char *data, int64_t bytes);

#endif
