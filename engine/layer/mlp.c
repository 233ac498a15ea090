/* mlp.c - the feed-forward layer of GPT-2: linear, GELU, linear. */
#include "cspeed/layer.h"

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
    return cs_linear_forward(&mlp->down, pass, cs_linear_forward_gelu(&mlp->up, pass, x));
}

cs_tensor cs_mlp_backward(const cs_mlp *mlp, cs_pass *pass, cs_tensor dy)
{
    return cs_linear_backward(&mlp->up, pass, cs_linear_backward_gelu(&mlp->down, pass, dy));
}
