/* linear.c - y = x W + b. */
#include "layer/layer.h"

#include <stdio.h>

void cs_linear_declare(cs_linear *linear, cs_unit *unit, const char *name, int64_t inputs, int64_t outputs,
                       cs_init init, cs_layout layout, cs_with_bias with_bias)
{
    char full[128];
    snprintf(full, sizeof full, "%s.weight", name);
    linear->layout  = layout;
    linear->outputs = outputs;
    linear->weight  = layout == CS_IN_OUT ? cs_unit_param(unit, full, inputs, outputs, init)
                                          : cs_unit_param(unit, full, outputs, inputs, init);
    if (with_bias == CS_NO_BIAS)
        return;
    snprintf(full, sizeof full, "%s.bias", name);
    linear->bias = cs_unit_param(unit, full, outputs, 0, (cs_init){ CS_ZEROS, 0 });
}

cs_tensor cs_linear_forward(const cs_linear *linear, cs_pass *pass, cs_tensor x)
{
    cs_tensor y = cs_pass_make(pass, cs_pass_dtype(pass), cs_rows(x), linear->outputs);
    cs_op_matmul(cs_pass_stream(pass), y, x, linear->weight->value,
                 linear->bias ? linear->bias->value : (cs_tensor){ 0 }, linear->layout);
    cs_pass_keep(pass, x);
    return y;
}

static void grow_weights(const cs_linear *linear, cs_pass *pass, cs_tensor x, cs_tensor dy)
{
    cs_op_matmul_grad_weight(cs_pass_stream(pass), linear->weight->grad,
                             linear->bias ? linear->bias->grad : (cs_tensor){ 0 }, x, dy, linear->layout);
}

cs_tensor cs_linear_backward(const cs_linear *linear, cs_pass *pass, cs_tensor dy)
{
    cs_tensor x  = cs_pass_take(pass);
    cs_tensor dx = cs_pass_like(pass, x);
    grow_weights(linear, pass, x, dy);
    cs_op_matmul_grad_input(cs_pass_stream(pass), dx, dy, linear->weight->value, linear->layout);
    return dx;
}

void cs_linear_backward_weights(const cs_linear *linear, cs_pass *pass, cs_tensor dy)
{
    grow_weights(linear, pass, cs_pass_take(pass), dy);
}
