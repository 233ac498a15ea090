/* mlp.c - the feed-forward layer of GPT-2: a linear layer, GELU or another function, and a second linear layer. */
#include "layer/linear.h"
#include "base/misuse.h"

#include <stdio.h>

void cs_mlp_declare(cs_mlp *mlp, cs_unit *unit, const char *name, const cs_mlp_sizes *sizes)
{
    CE_GIVEN(mlp, unit);
    char full[128];
    cs_with_bias bias = sizes->unbiased ? CS_NO_BIAS : CS_BIAS;
    snprintf(full, sizeof full, "%s.%s", name, sizes->up ? sizes->up : "c_fc");
    cs_linear_declare(&mlp->up, unit, full, sizes->width, sizes->hidden, sizes->init, sizes->layout, bias);
    snprintf(full, sizeof full, "%s.%s", name, sizes->down ? sizes->down : "c_proj");
    cs_linear_declare(&mlp->down, unit, full, sizes->hidden, sizes->width, sizes->down_init, sizes->layout, bias);
    mlp->function = sizes->function;
    ce_cut_part inner = ce_cut_share(sizes->hidden, ce_cut_group_of(unit));
    ce_linear_cut_outputs(&mlp->up, unit, &inner, 1);
    ce_linear_cut_inputs(&mlp->down, unit, inner);
}

/* Returns true for the tanh form of GELU, which is computed together with the matrix products. */
static bool is_usual(const cs_mlp *mlp)
{
    return mlp->function == CS_USUAL_ACTIVATION || mlp->function == CS_GELU_TANH;
}

cs_tensor cs_mlp_forward(const cs_mlp *mlp, cs_pass *pass, cs_tensor x)
{
    CE_GIVEN(mlp, pass);
    if (is_usual(mlp))
        return cs_linear_forward(&mlp->down, pass, cs_linear_forward_gelu(&mlp->up, pass, x));
    cs_tensor h = cs_linear_forward(&mlp->up, pass, x), y = cs_pass_like(pass, h);
    cs_op_activation(cs_pass_stream(pass), y, h, mlp->function);
    cs_pass_keep(pass, h);
    return cs_linear_forward(&mlp->down, pass, y);
}

cs_tensor cs_mlp_backward(const cs_mlp *mlp, cs_pass *pass, cs_tensor dy)
{
    CE_GIVEN(mlp, pass);
    if (is_usual(mlp))
        return cs_linear_backward(&mlp->up, pass, cs_linear_backward_gelu(&mlp->down, pass, dy));
    cs_tensor dh = cs_linear_backward(&mlp->down, pass, dy);
    cs_tensor h = cs_pass_take(pass);
    cs_op_activation_grad(cs_pass_stream(pass), dh, dh, h, mlp->function);
    return cs_linear_backward(&mlp->up, pass, dh);
}
