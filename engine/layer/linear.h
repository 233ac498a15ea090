/* linear.h - the operands of a linear layer's products, for other layers that compute these products themselves. */
#ifndef CE_LAYER_LINEAR_H
#define CE_LAYER_LINEAR_H

#include "cspeed/layer.h"

/* Each function returns its tensor (x, the weight or the bias) in the type of the operands of matrix products. The
 * result is the tensor itself, or a rounded copy that is valid until the unit's forward or backward returns. If the
 * layer has no bias, ce_linear_bias returns an absent tensor. */
cs_tensor ce_linear_factor(cs_pass *pass, cs_tensor x);
cs_tensor ce_linear_weight(const cs_linear *linear, cs_pass *pass);
cs_tensor ce_linear_bias(const cs_linear *linear, cs_pass *pass);
/* Returns a gradient tensor for an operation that always writes a gradient: the gradient of a trained parameter, or
 * scratch memory if the parameter is frozen. */
cs_tensor ce_linear_grown(cs_pass *pass, cs_param *param);
/* Adds to the gradients of weight and bias, if they are trained. x and dy have the type of the operands of matrix
 * products. */
void ce_linear_grow(const cs_linear *linear, cs_pass *pass, cs_tensor x, cs_tensor dy);

#endif
