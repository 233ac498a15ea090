/* norm.c - the LayerNorm layer. */
#include "layer/linear.h"

#include <stdio.h>

void cs_norm_declare(cs_norm *norm, cs_unit *unit, const char *name, int64_t width, float epsilon)
{
    char full[128];
    snprintf(full, sizeof full, "%s.weight", name);
    norm->weight = cs_unit_param(unit, full, width, 0, (cs_init){ CS_ONES, 0 });
    snprintf(full, sizeof full, "%s.bias", name);
    norm->bias = cs_unit_param(unit, full, width, 0, (cs_init){ CS_ZEROS, 0 });
    norm->weight->norm = norm->bias->norm = true;
    cs_param_overwrites(norm->weight, norm->weight);
    cs_param_overwrites(norm->bias, norm->bias);
    norm->epsilon = epsilon;
    ce_cut_rows(norm->weight, unit);
    ce_cut_rows(norm->bias, unit);
}

cs_tensor cs_norm_forward(const cs_norm *norm, cs_pass *pass, cs_tensor x)
{
    cs_tensor y = cs_pass_make(pass, cs_pass_products(pass), cs_rows(x), cs_columns(x));
    cs_tensor stats = cs_pass_make(pass, CS_F32, cs_rows(x), 2);
    cs_op_norm(cs_pass_stream(pass), y, stats, x, norm->weight->value, norm->bias->value, norm->epsilon);
    cs_pass_keep(pass, x);
    cs_pass_keep(pass, stats);
    return y;
}

cs_tensor cs_norm_backward(const cs_norm *norm, cs_pass *pass, cs_tensor dy)
{
    cs_tensor stats = cs_pass_take(pass);
    cs_tensor x = cs_pass_take(pass);
    cs_tensor dx = cs_pass_like(pass, x);
    cs_op_norm_grad(cs_pass_stream(pass), dx, ce_linear_grown(pass, norm->weight), ce_linear_grown(pass, norm->bias),
                    dy, x, stats, norm->weight->value);
    return dx;
}

cs_tensor cs_norm_forward_add(const cs_norm *norm, cs_pass *pass, const cs_addition *x)
{
    cs_tensor y = cs_pass_make(pass, cs_pass_products(pass), cs_rows(x->sum), cs_columns(x->sum));
    cs_tensor stats = cs_pass_make(pass, CS_F32, cs_rows(x->sum), 2);
    cs_op_add_norm(cs_pass_stream(pass), y, stats, x, norm->weight->value, norm->bias->value, norm->epsilon);
    cs_pass_keep(pass, x->sum);
    cs_pass_keep(pass, stats);
    return y;
}

void cs_norm_backward_add(const cs_norm *norm, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor beside)
{
    cs_tensor stats = cs_pass_take(pass);
    cs_tensor x = cs_pass_take(pass);
    cs_op_norm_grad_add(cs_pass_stream(pass), dx, ce_linear_grown(pass, norm->weight),
                        ce_linear_grown(pass, norm->bias), dy, x, stats, norm->weight->value, beside);
}
