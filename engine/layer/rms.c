/* rms.c - the RMSNorm layer. */
#include "layer/linear.h"
#include "base/misuse.h"
#include "layer/rms.h"

#include <stdio.h>

static void declare(cs_rms *rms, cs_unit *unit, const char *name, int64_t width, cs_init init)
{
    char full[128];
    snprintf(full, sizeof full, "%s.weight", name);
    rms->weight = cs_unit_param(unit, full, width, 0, init);
    rms->weight->norm = true;
    cs_param_overwrites(rms->weight, rms->weight);
    ce_cut_rows(rms->weight, unit);
}

void cs_rms_declare(cs_rms *rms, cs_unit *unit, const char *name, int64_t width, float epsilon)
{
    CE_GIVEN(rms, unit);
    declare(rms, unit, name, width, (cs_init){ CS_ONES, 0 });
    rms->epsilon = epsilon;
}

void cs_rms_declare_plus_one(cs_rms *rms, cs_unit *unit, const char *name, int64_t width, float epsilon)
{
    CE_GIVEN(rms, unit);
    declare(rms, unit, name, width, (cs_init){ CS_ZEROS, 0 });
    rms->epsilon = epsilon;
    rms->plus_one = true;
}

cs_tensor ce_rms_factors(const cs_param *weight, bool plus_one, cs_pass *pass)
{
    cs_tensor sum = weight->value;
    if (!plus_one)
        return sum;
    sum.dtype = CS_F32;
    sum = cs_pass_like(pass, sum);
    cs_op_fill(cs_pass_stream(pass), sum, 1);
    cs_op_add(cs_pass_stream(pass), sum, sum, weight->value);
    return sum;
}

static cs_tensor factors(const cs_rms *rms, cs_pass *pass)
{
    return ce_rms_factors(rms->weight, rms->plus_one, pass);
}

cs_tensor cs_rms_forward(const cs_rms *rms, cs_pass *pass, cs_tensor x)
{
    CE_GIVEN(rms, pass);
    cs_tensor y = cs_pass_make(pass, cs_pass_products(pass), cs_rows(x), cs_columns(x));
    cs_tensor stats = cs_pass_make(pass, CS_F32, cs_rows(x), 1);
    cs_op_rms(cs_pass_stream(pass), y, stats, x, factors(rms, pass), 0, rms->epsilon);
    cs_pass_keep(pass, x);
    cs_pass_keep(pass, stats);
    return y;
}

cs_tensor cs_rms_backward(const cs_rms *rms, cs_pass *pass, cs_tensor dy)
{
    CE_GIVEN(rms, pass);
    cs_tensor stats = cs_pass_take(pass);
    cs_tensor x = cs_pass_take(pass);
    cs_tensor dx = cs_pass_like(pass, x);
    cs_op_rms_grad(cs_pass_stream(pass), dx, ce_linear_grown(pass, rms->weight), dy, x, stats, factors(rms, pass), 0);
    return dx;
}

cs_tensor cs_rms_forward_add(const cs_rms *rms, cs_pass *pass, const cs_addition *x)
{
    CE_GIVEN(rms, pass);
    cs_tensor y = cs_pass_make(pass, cs_pass_products(pass), cs_rows(x->sum), cs_columns(x->sum));
    cs_tensor stats = cs_pass_make(pass, CS_F32, cs_rows(x->sum), 1);
    cs_op_add_rms(cs_pass_stream(pass), y, stats, x, factors(rms, pass), rms->epsilon);
    cs_pass_keep(pass, x->sum);
    cs_pass_keep(pass, stats);
    return y;
}

void cs_rms_backward_add(const cs_rms *rms, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor beside)
{
    CE_GIVEN(rms, pass);
    cs_tensor stats = cs_pass_take(pass);
    cs_tensor x = cs_pass_take(pass);
    cs_op_rms_grad_add(cs_pass_stream(pass), dx, ce_linear_grown(pass, rms->weight), dy, x, stats, factors(rms, pass),
                       beside);
}
