/* gated.c - the gated feed-forward layer: gate and up projection in one matrix product, then SwiGLU or a gate with
 * another function, then the down projection. */
#include "layer/linear.h"
#include "base/misuse.h"

#include <stdio.h>

void cs_gated_declare(cs_gated *gated, cs_unit *unit, const char *name, const cs_gated_sizes *sizes)
{
    CE_GIVEN(gated, unit);
    cs_linear_part parts[] = { { "gate_proj", sizes->hidden }, { "up_proj", sizes->hidden } };
    char full[128];
    gated->function = sizes->function == CS_USUAL_ACTIVATION ? CS_SILU : sizes->function;
    if (sizes->fused) {
        snprintf(full, sizeof full, "%s.%s", name, sizes->fused);
        cs_linear_declare(&gated->gate_up, unit, full, sizes->width, 2 * sizes->hidden, sizes->init, CS_OUT_IN,
                          sizes->bias);
    } else {
        cs_linear_declare_parts(&gated->gate_up, unit, name, sizes->width, parts, 2, sizes->init, sizes->bias);
    }
    snprintf(full, sizeof full, "%s.down_proj", name);
    cs_linear_declare(&gated->down, unit, full, sizes->hidden, sizes->width, sizes->init, CS_OUT_IN, sizes->bias);
    ce_cut_part gate = ce_cut_share(sizes->hidden, ce_cut_group_of(unit)), up = gate;
    up.from += sizes->fused ? sizes->hidden : 0;
    ce_linear_cut_outputs(&gated->gate_up, unit, (ce_cut_part[]){ gate, up }, 2);
    ce_linear_cut_inputs(&gated->down, unit, gate);
}

cs_tensor cs_gated_forward(const cs_gated *gated, cs_pass *pass, cs_tensor x)
{
    CE_GIVEN(gated, pass);
    cs_tensor h = cs_linear_forward(&gated->gate_up, pass, x);
    cs_tensor g = cs_pass_make(pass, h.dtype, cs_rows(h), cs_columns(h) / 2);
    cs_op_gated(cs_pass_stream(pass), g, h, gated->function);
    cs_pass_keep(pass, h);
    return cs_linear_forward(&gated->down, pass, g);
}

cs_tensor cs_gated_backward(const cs_gated *gated, cs_pass *pass, cs_tensor dy)
{
    CE_GIVEN(gated, pass);
    cs_tensor dg = cs_linear_backward(&gated->down, pass, dy);
    cs_tensor h = cs_pass_take(pass);
    cs_tensor dh = cs_pass_like(pass, h);
    cs_op_gated_grad(cs_pass_stream(pass), dh, dg, h, gated->function);
    return cs_linear_backward(&gated->gate_up, pass, dh);
}
