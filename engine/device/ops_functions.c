/* ops_functions.c - the operations of cspeed/ops.h that models other than GPT-2 and Llama need: activation functions,
 * gates, factors, soft caps, attention sinks, and the order of heads. As in ops.c, shapes and types are checked here. */
#include "device/run.h"

static void check_function(cs_activation function)
{
    NEED(function > CS_USUAL_ACTIVATION && function <= CS_EXP, "function is %d, which is no cs_activation",
         (int)function);
}

void cs_op_activation(cs_stream *stream, cs_tensor y, cs_tensor x, cs_activation function)
{
    NEED_STREAM(stream);
    check_function(function);
    if (function == CS_GELU_TANH) {
        cs_op_gelu(stream, y, x);
        return;
    }
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(y, x);
    RUN(stream, activation, y, x, function);
}

void cs_op_activation_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_activation function)
{
    NEED_STREAM(stream);
    check_function(function);
    if (function == CS_GELU_TANH) {
        cs_op_gelu_grad(stream, dx, dy, x);
        return;
    }
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(dx, x);
    NEED_SHAPE_OF(dy, x);
    RUN(stream, activation_grad, dx, dy, x, function);
}

void cs_op_gated(cs_stream *stream, cs_tensor y, cs_tensor x, cs_activation function)
{
    NEED_STREAM(stream);
    check_function(function);
    if (function == CS_SILU) {
        cs_op_swiglu(stream, y, x);
        return;
    }
    NEED_NUMBERS(y);
    NEED_NUMBERS(x);
    NEED_MATRIX(x, cs_rows(y), 2 * cs_columns(y));
    RUN(stream, gated, y, x, function);
}

void cs_op_gated_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_activation function)
{
    NEED_STREAM(stream);
    check_function(function);
    if (function == CS_SILU) {
        cs_op_swiglu_grad(stream, dx, dy, x);
        return;
    }
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(dx, x);
    NEED_NUMBERS(dy);
    NEED_MATRIX(x, cs_rows(dy), 2 * cs_columns(dy));
    RUN(stream, gated_grad, dx, dy, x, function);
}

static void check_limit(cs_clamp clamp)
{
    NEED(clamp.limit > 0, "clamp.limit is %g, and a number above 0 is needed", (double)clamp.limit);
}

void cs_op_clamped(cs_stream *stream, cs_tensor y, cs_tensor x, cs_clamp clamp)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    NEED_NUMBERS(x);
    NEED_MATRIX(x, cs_rows(y), 2 * cs_columns(y));
    check_limit(clamp);
    RUN(stream, clamped, y, x, clamp);
}

void cs_op_clamped_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_clamp clamp)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(dx, x);
    NEED_NUMBERS(dy);
    NEED_MATRIX(x, cs_rows(dy), 2 * cs_columns(dy));
    check_limit(clamp);
    RUN(stream, clamped_grad, dx, dy, x, clamp);
}

void cs_op_scale(cs_stream *stream, cs_tensor y, cs_tensor x, float factor)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(y, x);
    RUN_IN(stream, convert, y, x, factor);
}

static void check_cap(float cap)
{
    NEED(cap > 0, "cap is %g, and a number above 0 is needed", (double)cap);
}

void cs_op_softcap(cs_stream *stream, cs_tensor y, cs_tensor x, float cap)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(y, x);
    check_cap(cap);
    RUN(stream, softcap, y, x, cap);
}

void cs_op_softcap_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x, float cap)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(dx, x);
    NEED_SHAPE_OF(dy, x);
    check_cap(cap);
    RUN(stream, softcap_grad, dx, dy, x, cap);
}

static void check_sinks(cs_tensor y, cs_tensor lse, cs_tensor sinks)
{
    int64_t heads = cs_count(sinks);
    NEED_NUMBERS(y);
    NEED_NUMBERS(sinks);
    NEED(heads > 0 && cs_columns(y) % heads == 0, "y has %lld columns, which are not those of %lld heads",
         (long long)cs_columns(y), (long long)heads);
    NEED_VECTOR(lse, CS_F32, cs_rows(y) * heads);
    NEED(cs_rows(lse) % heads == 0, "lse has %lld rows, and a multiple of %lld heads is needed",
         (long long)cs_rows(lse), (long long)heads);
}

void cs_op_sinks(cs_stream *stream, cs_tensor y, cs_tensor lse, cs_tensor sinks)
{
    NEED_STREAM(stream);
    check_sinks(y, lse, sinks);
    RUN(stream, sinks, y, lse, sinks);
}

void cs_op_sinks_grad(cs_stream *stream, cs_tensor dsinks, cs_tensor dy, cs_tensor y, cs_tensor lse, cs_tensor sinks)
{
    NEED_STREAM(stream);
    check_sinks(y, lse, sinks);
    if (!dsinks.data)
        return;
    NEED_VECTOR(dsinks, CS_F32, cs_count(sinks));
    NEED_SHAPE_OF(dy, y);
    RUN(stream, sinks_grad, dsinks, dy, y, lse, sinks);
}

static void regroup(cs_stream *stream, cs_tensor y, cs_tensor x, cs_heads heads, bool back)
{
    NEED_NUMBERS(x);
    NEED_LIKE(y, x);
    NEED(x.data != y.data, "x and y are the same tensor");
    NEED(heads.keys > 0 && heads.queries % heads.keys == 0 && cs_columns(x) % (heads.queries + 2 * heads.keys) == 0,
         "x has %lld columns, which are not those of %lld heads of q and %lld of k and of v", (long long)cs_columns(x),
         (long long)heads.queries, (long long)heads.keys);
    RUN(stream, regroup, y, x, heads, back);
}

void cs_op_ungroup_heads(cs_stream *stream, cs_tensor y, cs_tensor x, cs_heads heads)
{
    NEED_STREAM(stream);
    regroup(stream, y, x, heads, false);
}

void cs_op_group_heads(cs_stream *stream, cs_tensor y, cs_tensor x, cs_heads heads)
{
    NEED_STREAM(stream);
    regroup(stream, y, x, heads, true);
}
