/* nonfinite.h - parameters that hold an infinity or a NaN are not saved. */
#ifndef CS_CHECKPOINT_NONFINITE_H
#define CS_CHECKPOINT_NONFINITE_H

#include "checkpoint/checkpoint.h"

/* CS_NOT_FINITE names the piece if these bytes of its elements, in the host's memory, hold such a one. */
cs_status cs_nonfinite_refuse(const cs_piece *piece, const char *data, int64_t bytes);

#endif
