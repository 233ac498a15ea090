/* fold.h - the one order of adding: a balanced binary tree over ranks, ((0 1) (2 3)) ..., an odd one carried up.
 *
 * Sums of 16-bit floats are taken in fp32 and rounded once. Integers wrap. A least or greatest value is a NaN if any
 * rank has one; of equal zeros the higher rank's counts. An element's result depends on nothing but its inputs. */
#ifndef CS_COMM_FOLD_H
#define CS_COMM_FOLD_H

#include "cspeed/comm.h"

/* Writes the tree over inputs[0 .. ranks-1] to each of the outputs. An output may be an input, but not overlap one. */
void cs_fold(void *const *outputs, int output_count, const void *const *inputs, int ranks, int64_t count,
             cs_dtype dtype, cs_reduce_op op);

#endif
