/* residual.h - dropout of tensors between layers. */
#ifndef CE_LAYER_RESIDUAL_H
#define CE_LAYER_RESIDUAL_H

#include "cspeed/layer.h"

/* Returns the dropout of the tensor x, which has this rank's rows or all rows. If these are not all rows, only
 * cs_op_dropout accepts it. */
cs_dropout ce_residual_dropout_rows(cs_pass *pass, float rate, uint64_t place, cs_tensor x);

/* A parallel residual with tensor parallelism: y = x + the sum over the ranks of dropout(a) + dropout(b), where a and b are
 * this rank's parts of all rows of two results (ce_linear_join); `with` is a matrix of which the parts are terms. All ranks
 * drop the same elements. */
void ce_residual_forward_joined(const cs_residual *first, const cs_residual *second, cs_pass *pass, cs_tensor y,
                                cs_tensor x, cs_tensor a, cs_tensor b, const cs_param *with);

#endif
