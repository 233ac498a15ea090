/* norm.c - the LayerNorm layer. */
#include "layer/linear.h"
#include "base/misuse.h"

#include <stdio.h>

static cs_param *declare(cs_unit *unit, const char *name, const char *part, int64_t width, cs_init init)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", name, part);
    cs_param *param = cs_unit_param(unit, full, width, 0, init);
    param->norm = true;
    cs_param_overwrites(param, param);
    ce_cut_rows(param, unit);
    return param;
}

void cs_norm_declare_unbiased(cs_norm *norm, cs_unit *unit, const char *name, int64_t width, float epsilon)
{
    CE_GIVEN(norm, unit);
    *norm = (cs_norm){ declare(unit, name, "weight", width, (cs_init){ CS_ONES, 0 }), NULL, epsilon };
}

void cs_norm_declare(cs_norm *norm, cs_unit *unit, const char *name, int64_t width, float epsilon)
{
    CE_GIVEN(norm, unit);
    cs_norm_declare_unbiased(norm, unit, name, width, epsilon);
    norm->bias = declare(unit, name, "bias", width, (cs_init){ CS_ZEROS, 0 });
}

/* The operations have a bias in any case: a norm without bias gives them zeros, and lets them compute a gradient that
 * nothing reads. */
static cs_tensor zeros(cs_pass *pass, cs_tensor shape)
{
    cs_tensor made = cs_pass_like(pass, shape);
    cs_op_fill(cs_pass_stream(pass), made, 0);
    return made;
}

static cs_tensor bias_of(const cs_norm *norm, cs_pass *pass)
{
    return norm->bias ? norm->bias->value : zeros(pass, norm->weight->value);
}

static cs_tensor grown_bias(const cs_norm *norm, cs_pass *pass, cs_tensor dweight)
{
    return norm->bias ? ce_linear_grown(pass, norm->bias) : zeros(pass, dweight);
}

cs_tensor cs_norm_forward(const cs_norm *norm, cs_pass *pass, cs_tensor x)
{
    CE_GIVEN(norm, pass);
    cs_tensor y = cs_pass_make(pass, cs_pass_products(pass), cs_rows(x), cs_columns(x));
    cs_tensor stats = cs_pass_make(pass, CS_F32, cs_rows(x), 2);
    cs_op_norm(cs_pass_stream(pass), y, stats, x, norm->weight->value, bias_of(norm, pass), norm->epsilon);
    cs_pass_keep(pass, x);
    cs_pass_keep(pass, stats);
    return y;
}

cs_tensor cs_norm_backward(const cs_norm *norm, cs_pass *pass, cs_tensor dy)
{
    CE_GIVEN(norm, pass);
    cs_tensor stats = cs_pass_take(pass);
    cs_tensor x = cs_pass_take(pass);
    cs_tensor dx = cs_pass_like(pass, x);
    cs_tensor dweight = ce_linear_grown(pass, norm->weight);
    cs_op_norm_grad(cs_pass_stream(pass), dx, dweight, grown_bias(norm, pass, dweight), dy, x, stats,
                    norm->weight->value);
    return dx;
}

cs_tensor cs_norm_forward_add(const cs_norm *norm, cs_pass *pass, const cs_addition *x)
{
    CE_GIVEN(norm, pass);
    cs_tensor y = cs_pass_make(pass, cs_pass_products(pass), cs_rows(x->sum), cs_columns(x->sum));
    cs_tensor stats = cs_pass_make(pass, CS_F32, cs_rows(x->sum), 2);
    cs_op_add_norm(cs_pass_stream(pass), y, stats, x, norm->weight->value, bias_of(norm, pass), norm->epsilon);
    cs_pass_keep(pass, x->sum);
    cs_pass_keep(pass, stats);
    return y;
}

void cs_norm_backward_add(const cs_norm *norm, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor beside)
{
    CE_GIVEN(norm, pass);
    cs_tensor stats = cs_pass_take(pass);
    cs_tensor x = cs_pass_take(pass);
    cs_tensor dweight = ce_linear_grown(pass, norm->weight);
    cs_op_norm_grad_add(cs_pass_stream(pass), dx, dweight, grown_bias(norm, pass, dweight), dy, x, stats,
                        norm->weight->value, beside);
}
