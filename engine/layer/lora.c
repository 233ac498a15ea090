/* lora.c - forward and backward of the LoRA adapters of a linear layer. */
#include "layer/lora.h"
#include "layer/linear.h"
#include "layer/residual.h"
#include "unit/pass.h"

static cs_tensor dropped(const cs_linear *linear, cs_pass *pass, cs_tensor x, uint64_t place)
{
    float rate = linear->adapter->rate;
    cs_dropout dropout = linear->cut == CS_CUT_NOTHING ? ce_residual_dropout_rows(pass, rate, place, x)
                                                       : cs_residual_dropout(pass, rate, place);
    if (dropout.rate <= 0)
        return x;
    if (linear->cut == CS_CUT_INPUTS) {
        dropout.from = linear->first;
        dropout.width = linear->whole;
    }
    cs_tensor y = cs_pass_like(pass, x);
    cs_op_dropout(cs_pass_stream(pass), y, x, dropout);
    return y;
}

/* Returns the operands of DoRA for one part of the layer. Each part of a layer has its own rows of the weight. */
static cs_dora dora_of(const cs_linear *linear, cs_pass *pass, const ce_lora_part *part)
{
    int64_t outputs = cs_rows(part->b->value);
    cs_dora dora = { .weight = linear->layout == CS_OUT_IN ? ce_linear_rows(linear, pass, part->first, outputs)
                                                           : ce_linear_weight(linear, pass),
                     .layout = linear->layout,
                     .a = ce_linear_factor(pass, part->a->value),
                     .b = ce_linear_factor(pass, part->b->value),
                     .magnitude = part->magnitude->value,
                     .bias = ce_linear_added_bias(linear, pass),
                     .scale = part->scale,
                     .first = part->first };
    if (dora.bias.data)
        dora.bias.data = (char *)dora.bias.data + (size_t)part->first * cs_dtype_bytes(dora.bias.dtype);
    dora.bias.shape[0] = outputs;
    return dora;
}

/* Releases what dora_of has allocated for the values of a 4-bit weight. */
static void drop_weight(const cs_linear *linear, cs_pass *pass, const cs_dora *dora)
{
    if (linear->weight->four_bit)
        ce_pass_let_go(pass, dora->weight);
}

/* own_y is the adapter's result before scaling. cs_op_dora replaces own_y by what backward needs; own_y and the norms
 * are then saved for backward. */
static void scale_columns(const cs_linear *linear, cs_pass *pass, cs_tensor y, cs_tensor own_y,
                          const ce_lora_part *part)
{
    cs_dora dora = dora_of(linear, pass, part);
    cs_tensor norms = cs_pass_make(pass, CS_F32, cs_columns(own_y), 1);
    cs_op_dora_norms(cs_pass_stream(pass), norms, &dora);
    if (linear->cut == CS_CUT_INPUTS) {
        cs_tensor all = cs_pass_make(pass, CS_F32, ce_pass_ranks(pass), cs_columns(own_y));
        ce_pass_gather(pass, all, norms);
        cs_op_join_norms(cs_pass_stream(pass), norms, all);
    }
    cs_op_dora(cs_pass_stream(pass), y, own_y, norms, &dora);
    drop_weight(linear, pass, &dora);
    cs_pass_keep(pass, own_y);
    cs_pass_keep(pass, norms);
}

/* u = dropout(x) A^T is saved for backward, because the gradient of B needs u. The dropout is computed again in
 * backward. Backward pops what DoRA saved for all parts before it pops the first u. */
void ce_lora_forward(const cs_linear *linear, cs_pass *pass, cs_tensor y, cs_tensor x)
{
    const cs_adapter *adapter = linear->adapter;
    cs_stream *stream = cs_pass_stream(pass);
    cs_tensor u[CE_LORA_PARTS];
    for (int i = 0; adapter && i < adapter->count; i++) {
        const ce_lora_part *part = &adapter->part[i];
        cs_tensor a = ce_linear_factor(pass, part->a->value);
        u[i] = cs_pass_make(pass, x.dtype, cs_rows(x), cs_rows(a));
        cs_op_matmul(stream, u[i], dropped(linear, pass, x, part->place), a, (cs_tensor){ 0 }, CS_OUT_IN);
        cs_pass_keep(pass, u[i]);
    }
    for (int i = 0; adapter && i < adapter->count; i++) {
        const ce_lora_part *part = &adapter->part[i];
        cs_tensor b = ce_linear_factor(pass, part->b->value);
        cs_tensor own_y = cs_pass_make(pass, x.dtype, cs_rows(x), cs_rows(b));
        cs_op_matmul(stream, own_y, u[i], b, (cs_tensor){ 0 }, CS_OUT_IN);
        if (part->magnitude)
            scale_columns(linear, pass, y, own_y, part);
        else
            cs_op_add_columns(stream, y, part->first, own_y, part->scale);
    }
}

cs_tensor ce_lora_backward_scaled(const cs_linear *linear, cs_pass *pass, cs_tensor dy)
{
    const cs_adapter *adapter = linear->adapter;
    if (!adapter || !adapter->part[0].magnitude)
        return dy;
    cs_tensor scaled = cs_pass_like(pass, dy);
    cs_op_take_columns(cs_pass_stream(pass), scaled, dy, 0, 1);
    for (int i = adapter->count - 1; i >= 0; i--) {
        cs_tensor norms = cs_pass_take(pass), z = cs_pass_take(pass);
        cs_dora dora = dora_of(linear, pass, &adapter->part[i]);
        cs_op_dora_grad(cs_pass_stream(pass), scaled, cs_param_gradient(adapter->part[i].magnitude), z, norms, &dora);
        drop_weight(linear, pass, &dora);
    }
    return scaled;
}

static void add_dx(const cs_linear *linear, cs_pass *pass, cs_tensor dx, cs_tensor du, const ce_lora_part *part)
{
    cs_tensor own_dx = cs_pass_like(pass, dx);
    cs_op_matmul_grad_input(cs_pass_stream(pass), own_dx, du, ce_linear_factor(pass, part->a->value), CS_OUT_IN);
    own_dx = dropped(linear, pass, own_dx, part->place);
    cs_op_add_columns(cs_pass_stream(pass), dx, 0, own_dx, 1);
}

void ce_lora_backward(const cs_linear *linear, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    const cs_adapter *adapter = linear->adapter;
    cs_stream *stream = cs_pass_stream(pass);
    for (int i = adapter ? adapter->count - 1 : -1; i >= 0; i--) {
        const ce_lora_part *part = &adapter->part[i];
        cs_tensor b = ce_linear_factor(pass, part->b->value), u = cs_pass_take(pass), du = cs_pass_like(pass, u);
        cs_tensor own_dy = cs_pass_make(pass, dy.dtype, cs_rows(dy), cs_rows(b));
        cs_op_take_columns(stream, own_dy, dy, part->first, part->scale);
        cs_op_matmul_grad_weight(stream, cs_param_gradient(part->b), (cs_tensor){ 0 }, u, own_dy, CS_OUT_IN);
        cs_op_matmul_grad_input(stream, du, own_dy, b, CS_OUT_IN);
        cs_op_matmul_grad_weight(stream, cs_param_gradient(part->a), (cs_tensor){ 0 },
                                 dropped(linear, pass, x, part->place), du, CS_OUT_IN);
        if (dx.data)
            add_dx(linear, pass, dx, du, part);
    }
}
