/* any_norm.c - calls the functions of the kind of norm that was declared. */
#include "models/any_norm.h"

void ce_any_norm_declare(ce_any_norm *norm, cs_unit *unit, ce_norm_kind kind, const char *name, int64_t width,
                         float epsilon)
{
    if (!name)
        return;
    if (kind == CE_RMS_NORM)
        cs_rms_declare(&norm->rms, unit, name, width, epsilon);
    else if (kind == CE_RMS_NORM_PLUS_ONE)
        cs_rms_declare_plus_one(&norm->rms, unit, name, width, epsilon);
    else if (kind == CE_LAYER_NORM)
        cs_norm_declare(&norm->layer, unit, name, width, epsilon);
    else
        cs_norm_declare_unbiased(&norm->layer, unit, name, width, epsilon);
}

bool ce_any_norm_exists(const ce_any_norm *norm)
{
    return norm->rms.weight || norm->layer.weight;
}

cs_tensor ce_any_norm_forward(const ce_any_norm *norm, cs_pass *pass, cs_tensor x)
{
    return norm->rms.weight ? cs_rms_forward(&norm->rms, pass, x) : cs_norm_forward(&norm->layer, pass, x);
}

cs_tensor ce_any_norm_backward(const ce_any_norm *norm, cs_pass *pass, cs_tensor dy)
{
    return norm->rms.weight ? cs_rms_backward(&norm->rms, pass, dy) : cs_norm_backward(&norm->layer, pass, dy);
}

cs_tensor ce_any_norm_forward_add(const ce_any_norm *norm, cs_pass *pass, const cs_addition *x)
{
    if (norm->rms.weight)
        return cs_rms_forward_add(&norm->rms, pass, x);
    if (norm->layer.weight)
        return cs_norm_forward_add(&norm->layer, pass, x);
    cs_op_add_dropout(cs_pass_stream(pass), x->sum, x->a, x->b, x->dropout);
    return x->sum;
}

void ce_any_norm_backward_add(const ce_any_norm *norm, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor beside)
{
    if (norm->rms.weight)
        cs_rms_backward_add(&norm->rms, pass, dx, dy, beside);
    else if (norm->layer.weight)
        cs_norm_backward_add(&norm->layer, pass, dx, dy, beside);
    else
        cs_op_add(cs_pass_stream(pass), dx, beside, dy);
}
