/* linear.h - the operands of a linear layer's products, for other layers that compute these products themselves. */
#ifndef CE_LAYER_LINEAR_H
#define CE_LAYER_LINEAR_H

#include "cspeed/layer.h"
#include "unit/cut.h"

/* Divide the outputs or the inputs of a declared layer over the ranks of the model's tensor-parallel group; if the group
 * has one rank, they do nothing. A layer whose outputs are cut takes the whole input, and its backward returns the whole
 * gradient of the input. A layer whose inputs are cut takes this rank's columns of the input, and returns the whole
 * result. `parts` are this rank's outputs: parts of the whole layer, or of each part of cs_linear_declare_parts. */
void ce_linear_cut_outputs(cs_linear *linear, cs_unit *unit, const ce_cut_part *parts, int count);
void ce_linear_cut_inputs(cs_linear *linear, cs_unit *unit, ce_cut_part part);
/* Makes a cut layer leave its sum over the ranks to the caller, who adds the results of several layers before their sum.
 * A layer whose inputs are cut then returns this rank's part of all rows of the result, and its backward takes all rows of
 * the gradient. The backward of a layer whose outputs are cut returns this rank's part of all rows of the gradient. */
void ce_linear_join(cs_linear *linear);

/* Each function returns its tensor (x, the weight or the bias) in the type of the operands of matrix products. The
 * result is the tensor itself, or a rounded copy that is valid until the unit's forward or backward returns. If the
 * layer has no bias, ce_linear_bias returns an absent tensor. */
cs_tensor ce_linear_factor(cs_pass *pass, cs_tensor x);
cs_tensor ce_linear_weight(const cs_linear *linear, cs_pass *pass);
cs_tensor ce_linear_bias(const cs_linear *linear, cs_pass *pass);
/* Returns some rows of the weight of a layer with CS_OUT_IN, in the same way. A 4-bit weight is dequantised; the caller
 * then calls ce_pass_let_go. */
cs_tensor ce_linear_rows(const cs_linear *linear, cs_pass *pass, int64_t first, int64_t count);
/* Returns the bias that this rank adds to its result. If the inputs are cut, the results of the ranks are added, so only
 * one rank adds the bias. */
cs_tensor ce_linear_added_bias(const cs_linear *linear, cs_pass *pass);
/* Returns a gradient tensor for an operation that always writes a gradient: the gradient of a trained parameter, or
 * scratch memory if the parameter is frozen. */
cs_tensor ce_linear_grown(cs_pass *pass, cs_param *param);
/* Adds to the gradients of weight and bias, if they are trained. x and dy have the type of the operands of matrix
 * products. */
void ce_linear_grow(const cs_linear *linear, cs_pass *pass, cs_tensor x, cs_tensor dy);

#endif
