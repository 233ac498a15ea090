/* nonfinite.h - parameters that hold an infinity or a NaN are not saved. */
#ifndef CS_CHECKPOINT_NONFINITE_H
#define CS_CHECKPOINT_NONFINITE_H

#include "checkpoint/write_plan.h"

/* CS_NOT_FINITE names the first parameter among the file's chunks that has such an element. The optimizer's state is
 * not looked at. Reads host memory. */
cs_status cs_nonfinite_refuse(const cs_outline_file *file);

#endif
