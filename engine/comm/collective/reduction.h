/* reduction.h - reduction of several vectors by the fixed binary tree over ranks, ((0 1) (2 3)) ...; if a level has an
 * odd number of operands, the last one moves up to the next level unchanged.
 *
 * Sums of 16-bit floats are computed in fp32 and rounded once. Integers wrap around. A minimum or maximum is NaN if any
 * rank's value is NaN; if zeros with different signs are compared, the zero of the higher rank is the result. CS_AVG
 * divides the sum by the number of inputs. An element of the result depends only on the same element of the inputs. */
#ifndef CE_COMM_COLLECTIVE_REDUCTION_H
#define CE_COMM_COLLECTIVE_REDUCTION_H

#include "cspeed/comm.h"

/* Divides a sum over `ranks` ranks by their number, as CS_AVG does. The quotients of 16-bit floats are rounded. */
void ce_reduce_divide(void *data, int64_t count, cs_dtype dtype, int ranks);

/* Reduces inputs[0 .. ranks - 1] and writes the result to each output. An output may be the same memory as an input,
 * but must not overlap an input in part. */
void ce_reduce(void *const *outputs, int output_count, const void *const *inputs, int ranks, int64_t count,
               cs_dtype dtype, cs_reduce_op op);

#endif
