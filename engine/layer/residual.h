/* residual.h - dropout of tensors between layers. */
#ifndef CE_LAYER_RESIDUAL_H
#define CE_LAYER_RESIDUAL_H

#include "cspeed/layer.h"

/* Returns the dropout of the tensor x, which has this rank's rows or all rows. If these are not all rows, only
 * cs_op_dropout accepts it. */
cs_dropout ce_residual_dropout_rows(cs_pass *pass, float rate, uint64_t place, cs_tensor x);

#endif
