/* ops_functions.c - the operations of cspeed/ops.h that models other than GPT-2 and Llama need: activation functions,
 * gates, factors, soft caps, and the order of heads. As in ops.c, shapes and types are checked here. */
#include "device/run.h"

static void check_function(cs_activation function)
{
    CE_ASSERT(function > CS_USUAL_ACTIVATION && function <= CS_RELU2);
}

void cs_op_activation(cs_stream *stream, cs_tensor y, cs_tensor x, cs_activation function)
{
    check_function(function);
    if (function == CS_GELU_TANH) {
        cs_op_gelu(stream, y, x);
        return;
    }
    CE_ASSERT(is_compute(x) && is_shaped(x, y));
    RUN(stream, activation, y, x, function);
}

void cs_op_activation_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_activation function)
{
    check_function(function);
    if (function == CS_GELU_TANH) {
        cs_op_gelu_grad(stream, dx, dy, x);
        return;
    }
    CE_ASSERT(is_compute(x) && is_shaped(x, dx) && is_shaped(x, dy));
    RUN(stream, activation_grad, dx, dy, x, function);
}

void cs_op_gated(cs_stream *stream, cs_tensor y, cs_tensor x, cs_activation function)
{
    check_function(function);
    if (function == CS_SILU) {
        cs_op_swiglu(stream, y, x);
        return;
    }
    CE_ASSERT(is_compute(x) && is_compute(y) && is_matrix(x, cs_rows(y), 2 * cs_columns(y)));
    RUN(stream, gated, y, x, function);
}

void cs_op_gated_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_activation function)
{
    check_function(function);
    if (function == CS_SILU) {
        cs_op_swiglu_grad(stream, dx, dy, x);
        return;
    }
    CE_ASSERT(is_compute(x) && is_shaped(x, dx));
    CE_ASSERT(is_compute(dy) && is_matrix(x, cs_rows(dy), 2 * cs_columns(dy)));
    RUN(stream, gated_grad, dx, dy, x, function);
}

void cs_op_scale(cs_stream *stream, cs_tensor y, cs_tensor x, float factor)
{
    CE_ASSERT(is_compute(x) && is_shaped(x, y));
    RUN_IN(stream, convert, y, x, factor);
}

void cs_op_softcap(cs_stream *stream, cs_tensor y, cs_tensor x, float cap)
{
    CE_ASSERT(is_compute(x) && is_shaped(x, y) && cap > 0);
    RUN(stream, softcap, y, x, cap);
}

void cs_op_softcap_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x, float cap)
{
    CE_ASSERT(is_compute(x) && is_shaped(x, dx) && is_shaped(x, dy) && cap > 0);
    RUN(stream, softcap_grad, dx, dy, x, cap);
}

static void regroup(cs_stream *stream, cs_tensor y, cs_tensor x, cs_heads heads, bool back)
{
    CE_ASSERT(is_compute(x) && is_shaped(x, y) && x.dtype == y.dtype && x.data != y.data);
    CE_ASSERT(heads.keys > 0 && heads.queries % heads.keys == 0);
    CE_ASSERT(cs_columns(x) % (heads.queries + 2 * heads.keys) == 0);
    RUN(stream, regroup, y, x, heads, back);
}

void cs_op_ungroup_heads(cs_stream *stream, cs_tensor y, cs_tensor x, cs_heads heads)
{
    regroup(stream, y, x, heads, false);
}

void cs_op_group_heads(cs_stream *stream, cs_tensor y, cs_tensor x, cs_heads heads)
{
    regroup(stream, y, x, heads, true);
}
