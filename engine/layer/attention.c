/* attention.c - causal self-attention with its projections. */
#include "layer/layer.h"

#include <stdio.h>

void cs_attention_declare(cs_attention *attention, cs_unit *unit, const char *name, const cs_attention_sizes *sizes)
{
    char full[128];
    snprintf(full, sizeof full, "%s.c_attn", name);
    cs_linear_declare(&attention->qkv, unit, full, sizes->width, 3 * sizes->width, sizes->init, CS_IN_OUT, CS_BIAS);
    snprintf(full, sizeof full, "%s.c_proj", name);
    cs_linear_declare(&attention->out, unit, full, sizes->width, sizes->width, sizes->out_init, CS_IN_OUT, CS_BIAS);
    attention->heads = sizes->heads;
    attention->rate  = sizes->dropout;
    attention->place = cs_residual_place(unit, name);
}

cs_tensor cs_attention_forward(const cs_attention *attention, cs_pass *pass, cs_tensor x)
{
    cs_tensor qkv = cs_linear_forward(&attention->qkv, pass, x);
    cs_tensor y   = cs_pass_like(pass, x);
    cs_tensor lse = cs_pass_make(pass, CS_F32, cs_pass_batch(pass) * attention->heads, cs_pass_length(pass));
    cs_op_attention(cs_pass_stream(pass), y, lse, qkv, attention->heads,
                    cs_residual_dropout(pass, attention->rate, attention->place));
    cs_pass_keep(pass, qkv);
    cs_pass_keep(pass, y);
    cs_pass_keep(pass, lse);
    return cs_linear_forward(&attention->out, pass, y);
}

cs_tensor cs_attention_backward(const cs_attention *attention, cs_pass *pass, cs_tensor dy)
{
    cs_tensor dout = cs_linear_backward(&attention->out, pass, dy);
    cs_tensor lse  = cs_pass_take(pass);
    cs_tensor y    = cs_pass_take(pass);
    cs_tensor qkv  = cs_pass_take(pass);
    cs_tensor dqkv = cs_pass_like(pass, qkv);
    cs_op_attention_grad(cs_pass_stream(pass), dqkv, dout, y, lse, qkv, attention->heads,
                         cs_residual_dropout(pass, attention->rate, attention->place));
    return cs_linear_backward(&attention->qkv, pass, dqkv);
}
