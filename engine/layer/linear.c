/* linear.c - the linear layer: y = x W + b. */
#include "layer/linear.h"
#include "base/misuse.h"
#include "layer/lora.h"
#include "base/must.h"
#include "unit/pass.h"
#include "unit/unit.h"

#include <stdio.h>

void cs_linear_declare(cs_linear *linear, cs_unit *unit, const char *name, int64_t inputs, int64_t outputs,
                       cs_init init, cs_layout layout, cs_with_bias with_bias)
{
    CE_GIVEN(linear, unit);
    char full[128];
    snprintf(full, sizeof full, "%s.weight", name);
    linear->layout = layout;
    linear->outputs = outputs;
    linear->weight = layout == CS_IN_OUT ? cs_unit_param(unit, full, inputs, outputs, init)
                                         : cs_unit_param(unit, full, outputs, inputs, init);
    linear->weight->linear = linear;
    cs_param_overwrites(linear->weight, linear->weight);
    if (with_bias == CS_NO_BIAS)
        return;
    snprintf(full, sizeof full, "%s.bias", name);
    linear->bias = cs_unit_param(unit, full, outputs, 0, (cs_init){ CS_ZEROS, 0 });
    cs_param_overwrites(linear->bias, linear->bias);
}

/* Parameters that are declared consecutively are consecutive in memory. So the weights of the layer's parts form one
 * matrix, and the biases of the parts form one vector. */
void cs_linear_declare_parts(cs_linear *linear, cs_unit *unit, const char *name, int64_t inputs,
                             const cs_linear_part *parts, int count, cs_init init, cs_with_bias with_bias)
{
    CE_GIVEN(linear, unit);
    char full[128];
    linear->layout = CS_OUT_IN;
    for (int i = 0; i < count; i++) {
        snprintf(full, sizeof full, "%s.%s.weight", name, parts[i].name);
        cs_param *weight = cs_unit_param(unit, full, parts[i].outputs, inputs, init);
        linear->weight = i == 0 ? weight : linear->weight;
        weight->linear = linear;
        cs_param_overwrites(weight, linear->weight);
        linear->outputs += parts[i].outputs;
    }
    for (int i = 0; i < count && with_bias == CS_BIAS; i++) {
        snprintf(full, sizeof full, "%s.%s.bias", name, parts[i].name);
        cs_param *bias = cs_unit_param(unit, full, parts[i].outputs, 0, (cs_init){ CS_ZEROS, 0 });
        linear->bias = i == 0 ? bias : linear->bias;
        cs_param_overwrites(bias, linear->bias);
    }
}

/* ---- tensor parallelism ---- */

static int index_of(const cs_unit *unit, const cs_param *param)
{
    int at = 0;
    while (&unit->entries[at]->param != param)
        at++;
    return at;
}

/* Cuts `names` consecutive parameters: each has its own part, or the only one has all parts. */
static void cut_each(cs_unit *unit, const cs_param *first, int dim, int names, const ce_cut_part *parts, int count)
{
    int at = index_of(unit, first);
    for (int i = 0; i < names; i++)
        ce_cut_param(&unit->entries[at + i]->param, dim, parts + i, names > 1 ? 1 : count);
}

void ce_linear_cut_outputs(cs_linear *linear, cs_unit *unit, const ce_cut_part *parts, int count)
{
    int at = index_of(unit, linear->weight), names = 0;
    if (unit->model->tp.size == 1)
        return;
    while (at + names < unit->entry_count && unit->entries[at + names]->param.linear == linear)
        names++;
    CE_ASSERT(names == 1 || names == count);
    cut_each(unit, linear->weight, linear->layout == CS_OUT_IN ? 0 : 1, names, parts, count);
    if (linear->bias)
        cut_each(unit, linear->bias, 0, names, parts, count);
    linear->cut = CS_CUT_OUTPUTS;
    linear->first = parts[0].from;
    linear->whole = linear->outputs;
    linear->outputs = 0;
    for (int i = 0; i < count; i++)
        linear->outputs += parts[i].count;
}

void ce_linear_cut_inputs(cs_linear *linear, cs_unit *unit, ce_cut_part part)
{
    if (unit->model->tp.size == 1)
        return;
    int dim = linear->layout == CS_OUT_IN ? 1 : 0;
    linear->cut = CS_CUT_INPUTS;
    linear->first = part.from;
    linear->whole = linear->weight->value.shape[dim];
    ce_cut_param(linear->weight, dim, &part, 1);
}

void ce_linear_join(cs_linear *linear)
{
    linear->joined = linear->cut != CS_CUT_NOTHING;
}

cs_tensor ce_linear_added_bias(const cs_linear *linear, cs_pass *pass)
{
    bool other = linear->cut == CS_CUT_INPUTS && ce_pass_rank(pass) > 0;
    return other ? (cs_tensor){ 0 } : ce_linear_bias(linear, pass);
}

/* Returns one tensor for all parts of the layer, which begins where the tensor of the first part begins. */
static cs_tensor whole_weight(const cs_linear *linear, cs_tensor first)
{
    if (linear->layout == CS_OUT_IN)
        first.shape[0] = linear->outputs;
    return first;
}

static cs_tensor whole_bias(const cs_linear *linear, cs_tensor first)
{
    first.shape[0] = linear->outputs;
    return first;
}

/* Returns true if backward needs the input: if the weight or the bias is trained, or there are adapters. */
static bool keeps_input(const cs_linear *linear)
{
    return !linear->weight->frozen || (linear->bias && !linear->bias->frozen) || linear->adapter;
}

cs_tensor ce_linear_grown(cs_pass *pass, cs_param *param)
{
    cs_tensor scratch;
    if (!param->frozen)
        return cs_param_gradient(param);
    scratch = cs_pass_like(pass, param->grad);
    scratch.overwrite = true;
    return scratch;
}

cs_tensor ce_linear_factor(cs_pass *pass, cs_tensor x)
{
    cs_tensor copy = x;
    copy.dtype = cs_pass_products(pass);
    if (!x.data || x.dtype == copy.dtype)
        return x;
    copy = cs_pass_like(pass, copy);
    cs_op_cast(cs_pass_stream(pass), copy, x);
    return copy;
}

/* ---- 4-bit weights ---- */

static int64_t inputs_of(const cs_linear *linear)
{
    cs_tensor weight = linear->weight->value;
    if (linear->weight->four_bit)
        return linear->weight->four_bit->columns;
    return linear->layout == CS_IN_OUT ? cs_rows(weight) : cs_columns(weight);
}

static cs_four_bit matrix_of(const cs_param *weight)
{
    const ce_four_bit_weight *packed = weight->four_bit;
    return (cs_four_bit){ .rows = packed->rows,
                          .columns = packed->columns,
                          .codes = weight->value.data,
                          .absmax = packed->absmax->value.data,
                          .nested = packed->nested ? packed->nested->value.data : NULL,
                          .fp4 = packed->type == CE_FP4 };
}

/* Computes some rows and columns of a 4-bit weight in the type of the operands of products. The rows of the layer's parts
 * follow each other. ce_pass_let_go releases the result. */
static cs_tensor dequantize(const cs_linear *linear, cs_pass *pass, ce_range rows, ce_range columns)
{
    cs_tensor panel = cs_pass_make(pass, cs_pass_products(pass), ce_range_length(rows), ce_range_length(columns));
    int64_t begin = 0;
    for (const cs_param *part = linear->weight; part; part = part->four_bit->next) {
        ce_range both = ce_range_overlap(rows, (ce_range){ begin, begin + part->four_bit->rows });
        cs_four_bit matrix = matrix_of(part);
        if (ce_range_length(both) > 0)
            cs_op_dequantize(cs_pass_stream(pass), cs_matrix_rows(panel, both.from - rows.from, ce_range_length(both)),
                             &matrix, both.from - begin, columns.from);
        begin += part->four_bit->rows;
    }
    return panel;
}

/* Sets y to x times the weight, plus the bias. A 4-bit weight is dequantised some rows at a time, which give some columns
 * of y. */
static void multiply(const cs_linear *linear, cs_pass *pass, cs_tensor y, cs_tensor x, cs_tensor bias)
{
    int64_t inputs = inputs_of(linear), outputs = linear->outputs;
    if (!linear->weight->four_bit) {
        cs_op_matmul(cs_pass_stream(pass), y, x, ce_linear_weight(linear, pass), bias, linear->layout);
        return;
    }
    int64_t most = cs_pass_chunk(pass, x.dtype, outputs, inputs);
    for (int64_t from = 0, to; from < outputs; from = to) {
        to = from + most < outputs ? from + most : outputs;
        cs_tensor panel = dequantize(linear, pass, (ce_range){ from, to }, (ce_range){ 0, inputs });
        cs_tensor own = cs_vector((char *)bias.data + (size_t)from * cs_dtype_bytes(bias.dtype), bias.dtype, to - from);
        cs_op_matmul_columns(cs_pass_stream(pass), y, from, x, panel, bias.data ? own : bias, CS_OUT_IN);
        ce_pass_let_go(pass, panel);
    }
}

/* Sets dx to dy times the transposed weight. A 4-bit weight is dequantised some columns at a time, which give some columns
 * of dx, so that no sum of a product is divided. */
static void multiply_back(const cs_linear *linear, cs_pass *pass, cs_tensor dx, cs_tensor dy)
{
    int64_t inputs = inputs_of(linear), outputs = linear->outputs;
    if (!linear->weight->four_bit) {
        cs_op_matmul_grad_input(cs_pass_stream(pass), dx, dy, ce_linear_weight(linear, pass), linear->layout);
        return;
    }
    int64_t most = cs_pass_chunk(pass, dy.dtype, inputs, outputs);
    for (int64_t from = 0, to; from < inputs; from = to) {
        to = from + most < inputs ? from + most : inputs;
        cs_tensor panel = dequantize(linear, pass, (ce_range){ 0, outputs }, (ce_range){ from, to });
        cs_op_matmul_grad_input_columns(cs_pass_stream(pass), dx, from, dy, panel, CS_OUT_IN);
        ce_pass_let_go(pass, panel);
    }
}

cs_tensor ce_linear_rows(const cs_linear *linear, cs_pass *pass, int64_t first, int64_t count)
{
    return linear->weight->four_bit
               ? dequantize(linear, pass, (ce_range){ first, first + count }, (ce_range){ 0, inputs_of(linear) })
               : cs_matrix_rows(ce_linear_weight(linear, pass), first, count);
}

cs_tensor ce_linear_weight(const cs_linear *linear, cs_pass *pass)
{
    CE_ASSERT(!linear->weight->four_bit);
    return ce_linear_factor(pass, whole_weight(linear, linear->weight->value));
}

cs_tensor ce_linear_bias(const cs_linear *linear, cs_pass *pass)
{
    return linear->bias ? ce_linear_factor(pass, whole_bias(linear, linear->bias->value)) : (cs_tensor){ 0 };
}

static void keep_input(const cs_linear *linear, cs_pass *pass, cs_tensor x)
{
    if (keeps_input(linear))
        cs_pass_keep(pass, x);
}

static cs_tensor take_input(const cs_linear *linear, cs_pass *pass)
{
    return keeps_input(linear) ? cs_pass_take(pass) : (cs_tensor){ 0 };
}

/* Allocates the result of the layer, of which a rank computes only its terms if the inputs are cut; the caller of a
 * joined layer says so of the sum. */
static cs_tensor make_y(const cs_linear *linear, cs_pass *pass, cs_tensor x)
{
    cs_tensor y = cs_pass_make(pass, cs_pass_products(pass), cs_rows(x), linear->outputs);
    if (linear->cut == CS_CUT_INPUTS && !linear->joined)
        ce_pass_partial(pass, y, linear->weight);
    return y;
}

/* Allocates the gradient of the layer's input, of which a rank computes only its terms if the outputs are cut. */
static cs_tensor make_dx(const cs_linear *linear, cs_pass *pass, cs_tensor dy)
{
    cs_tensor dx = cs_pass_make(pass, cs_pass_products(pass), cs_rows(dy), inputs_of(linear));
    if (linear->cut == CS_CUT_OUTPUTS && !linear->joined)
        ce_pass_partial(pass, dx, linear->weight);
    return dx;
}

/* Returns all rows of the input x. A layer whose inputs are cut has them already, because the layer before it, whose
 * outputs are cut, has computed all rows. */
static cs_tensor whole_input(const cs_linear *linear, cs_pass *pass, cs_tensor x)
{
    return linear->cut == CS_CUT_OUTPUTS ? ce_pass_gather_rows(pass, x) : x;
}

/* Returns all rows of the gradient of the result, in the type of the operands of products. */
static cs_tensor whole_gradient(const cs_linear *linear, cs_pass *pass, cs_tensor dy)
{
    dy = ce_linear_factor(pass, dy);
    return linear->cut == CS_CUT_INPUTS && !linear->joined ? ce_pass_gather_rows(pass, dy) : dy;
}

/* Returns true if this layer, cut like `cut`, adds up its result or its gradient over the ranks. */
static bool adds_up(const cs_linear *linear, int cut)
{
    return (int)linear->cut == cut && !linear->joined;
}

cs_tensor cs_linear_forward(const cs_linear *linear, cs_pass *pass, cs_tensor x)
{
    CE_GIVEN(linear, pass);
    cs_tensor all = whole_input(linear, pass, x = ce_linear_factor(pass, x));
    cs_tensor y = make_y(linear, pass, all);
    multiply(linear, pass, y, all, ce_linear_added_bias(linear, pass));
    ce_lora_forward(linear, pass, y, all);
    keep_input(linear, pass, x);
    return adds_up(linear, CS_CUT_INPUTS) ? ce_pass_sum_rows(pass, y) : y;
}

/* Returns true if GELU cannot be fused with the layer's products, because there are several of them. */
static bool is_composed(const cs_linear *linear)
{
    return linear->adapter || linear->weight->four_bit;
}

cs_tensor cs_linear_forward_gelu(const cs_linear *linear, cs_pass *pass, cs_tensor x)
{
    CE_GIVEN(linear, pass);
    cs_tensor all = whole_input(linear, pass, x = ce_linear_factor(pass, x));
    cs_tensor pre = make_y(linear, pass, all);
    cs_tensor bias = ce_linear_bias(linear, pass), y = cs_pass_like(pass, pre);
    if (is_composed(linear)) {
        multiply(linear, pass, pre, all, bias);
        ce_lora_forward(linear, pass, pre, all);
        cs_op_gelu(cs_pass_stream(pass), y, pre);
    } else {
        cs_op_matmul_gelu(cs_pass_stream(pass), y, pre, all, ce_linear_weight(linear, pass), bias, linear->layout);
    }
    keep_input(linear, pass, x);
    cs_pass_keep(pass, pre);
    return y;
}

void ce_linear_grow(const cs_linear *linear, cs_pass *pass, cs_tensor x, cs_tensor dy)
{
    cs_op_matmul_grad_weight(cs_pass_stream(pass), whole_weight(linear, cs_param_gradient(linear->weight)),
                             linear->bias ? whole_bias(linear, cs_param_gradient(linear->bias)) : (cs_tensor){ 0 }, x,
                             dy, linear->layout);
}

/* With tensor parallelism, the input is gathered beside the product of its gradient, and this gradient is added up over
 * the ranks beside the product of the weight's gradient. */
cs_tensor cs_linear_backward(const cs_linear *linear, cs_pass *pass, cs_tensor dy)
{
    CE_GIVEN(linear, pass);
    cs_tensor x = take_input(linear, pass);
    x = linear->cut == CS_CUT_OUTPUTS ? ce_pass_begin_gather_rows(pass, x) : x;
    dy = whole_gradient(linear, pass, dy);
    cs_tensor dx = make_dx(linear, pass, dy), scaled = ce_lora_backward_scaled(linear, pass, dy);
    multiply_back(linear, pass, dx, scaled);
    ce_pass_finish(pass);
    ce_lora_backward(linear, pass, dx, scaled, x);
    dx = adds_up(linear, CS_CUT_OUTPUTS) ? ce_pass_begin_sum_rows(pass, dx) : dx;
    ce_linear_grow(linear, pass, x, dy);
    ce_pass_finish(pass);
    return dx;
}

cs_tensor cs_linear_backward_gelu(const cs_linear *linear, cs_pass *pass, cs_tensor dy)
{
    CE_GIVEN(linear, pass);
    if (is_composed(linear)) {
        cs_tensor dx = cs_linear_backward(linear, pass, dy);
        cs_op_gelu_grad(cs_pass_stream(pass), dx, dx, cs_pass_take(pass));
        return dx;
    }
    cs_tensor x = take_input(linear, pass), pre = cs_pass_take(pass);
    dy = whole_gradient(linear, pass, dy);
    cs_tensor dpre = make_dx(linear, pass, dy);
    ce_linear_grow(linear, pass, x, dy);
    cs_op_matmul_grad_input_gelu(cs_pass_stream(pass), dpre, dy, ce_linear_weight(linear, pass), pre, linear->layout);
    return dpre;
}

void cs_linear_backward_weights(const cs_linear *linear, cs_pass *pass, cs_tensor dy)
{
    CE_GIVEN(linear, pass);
    cs_tensor x = take_input(linear, pass);
    dy = ce_linear_factor(pass, dy);
    ce_linear_grow(linear, pass, x, dy);
    dy = ce_lora_backward_scaled(linear, pass, dy);
    ce_lora_backward(linear, pass, (cs_tensor){ 0 }, dy, x);
}
