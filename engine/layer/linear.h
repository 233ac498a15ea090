/* linear.h - the operands of a linear layer's products, for layers of this room that compute these products themselves. */
#ifndef CS_LAYER_LINEAR_H
#define CS_LAYER_LINEAR_H

#include "cspeed/layer.h"

/* Each returns a tensor in the type that matrix products take: the tensor itself or a rounded copy, which is valid until
 * the unit's forward or backward returns. The bias is absent if the layer has none. */
cs_tensor ce_linear_factor(cs_pass *pass, cs_tensor x);
cs_tensor ce_linear_weight(const cs_linear *linear, cs_pass *pass);
cs_tensor ce_linear_bias(const cs_linear *linear, cs_pass *pass);
/* Whether backward needs the input: the weight or the bias is trained, or there are adapters. */
bool ce_linear_keeps(const cs_linear *linear);
/* A gradient for operations that write it in any case: that of a trained parameter, or scratch memory for a frozen
 * one. */
cs_tensor ce_linear_grown(cs_pass *pass, cs_param *param);
/* Adds to the gradients of weight and bias that are trained; x and dy are of the type of products. */
void ce_linear_grow(const cs_linear *linear, cs_pass *pass, cs_tensor x, cs_tensor dy);

#endif
