/* mlp.c - two linears with GELU between. */
#include "layer/layer.h"

#include <stdio.h>

void cs_mlp_declare(cs_mlp *mlp, cs_unit *unit, const char *name, const cs_mlp_sizes *sizes)
{
    char full[128];
    snprintf(full, sizeof full, "%s.c_fc", name);
    cs_linear_declare(&mlp->up, unit, full, sizes->width, sizes->hidden, sizes->init, CS_IN_OUT, CS_BIAS);
    snprintf(full, sizeof full, "%s.c_proj", name);
    cs_linear_declare(&mlp->down, unit, full, sizes->hidden, sizes->width, sizes->down_init, CS_IN_OUT, CS_BIAS);
}

cs_tensor cs_mlp_forward(const cs_mlp *mlp, cs_pass *pass, cs_tensor x)
{
    cs_tensor h = cs_linear_forward(&mlp->up, pass, x);
    cs_tensor g = cs_pass_like(pass, h);
    cs_op_gelu(cs_pass_stream(pass), g, h);
    cs_pass_keep(pass, h);
    return cs_linear_forward(&mlp->down, pass, g);
}

cs_tensor cs_mlp_backward(const cs_mlp *mlp, cs_pass *pass, cs_tensor dy)
{
    cs_tensor dg = cs_linear_backward(&mlp->down, pass, dy);
    cs_tensor h  = cs_pass_take(pass);
    cs_op_gelu_grad(cs_pass_stream(pass), dg, dg, h);
    return cs_linear_backward(&mlp->up, pass, dg);
}
