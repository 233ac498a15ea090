/* ops_experts.c - the operations of cspeed/ops.h for mixtures of experts. As in ops.c, shapes and types are checked
 * here. */
#include "device/run.h"

static void check_routing(const cs_routing *routing, int64_t rows)
{
    NEED(routing, "routing is NULL");
    NEED_TYPE(routing->slots, CS_I32);
    NEED_ROWS(routing->slots, rows);
    NEED_VECTOR(routing->rows, CS_I32, cs_count(routing->slots));
}

void cs_op_route(cs_stream *stream, const cs_routing *routing, cs_tensor factors, cs_tensor logits, bool normalized)
{
    NEED_STREAM(stream);
    int64_t experts = cs_columns(logits);
    NEED_NUMBERS(logits);
    NEED_NUMBERS(factors);
    check_routing(routing, cs_rows(logits));
    NEED_COUNT(factors, cs_count(routing->slots));
    NEED(experts <= CS_MAX_EXPERTS && cs_columns(routing->slots) <= experts,
         "%lld experts of a row are chosen of %lld, and %d experts are possible", (long long)cs_columns(routing->slots),
         (long long)experts, CS_MAX_EXPERTS);
    NEED_VECTOR(routing->bounds, CS_I32, experts + 1);
    NEED_VECTOR(routing->tokens, CS_I32, experts);
    if (routing->probabilities.data)
        NEED_VECTOR(routing->probabilities, CS_F32, experts);
    RUN(stream, route, routing, factors, logits, normalized);
}

void cs_op_route_grad(cs_stream *stream, cs_tensor dlogits, const cs_routing *routing, cs_tensor dfactors,
                      cs_tensor dprobabilities, cs_tensor logits, bool normalized)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(logits);
    NEED_SHAPE_OF(dlogits, logits);
    check_routing(routing, cs_rows(logits));
    NEED_VECTOR(dfactors, CS_F32, cs_count(routing->slots));
    if (dprobabilities.data)
        NEED_VECTOR(dprobabilities, CS_F32, cs_columns(logits));
    RUN(stream, route_grad, dlogits, routing, dfactors, dprobabilities, logits, normalized);
}

void cs_op_take_slots(cs_stream *stream, cs_tensor y, cs_tensor x, const cs_routing *routing)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_TYPE(y, x.dtype);
    check_routing(routing, cs_rows(x));
    NEED_MATRIX(y, cs_count(routing->rows), cs_columns(x));
    RUN(stream, take_slots, y, x, routing);
}

void cs_op_add_slots(cs_stream *stream, cs_tensor y, cs_tensor x, const cs_routing *routing)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_NUMBERS(y);
    check_routing(routing, cs_rows(y));
    NEED_MATRIX(x, cs_count(routing->rows), cs_columns(y));
    RUN(stream, add_slots, y, x, routing);
}

/* ---- products ---- */

static cs_tensor rows_of(cs_tensor x, ce_range rows)
{
    return cs_matrix_rows(x, rows.from, ce_range_length(rows));
}

ce_product ce_experts_part(const ce_experts *job, int64_t e, ce_range slots)
{
    ce_product part = job->product;
    int64_t experts = cs_count(job->bounds) - 1;
    cs_tensor *shared = part.transpose_a ? &part.c : &part.b;
    int64_t each = cs_rows(*shared) / experts;
    *shared = rows_of(*shared, (ce_range){ e * each, (e + 1) * each });
    part.a = rows_of(part.a, slots);
    if (part.transpose_a)
        part.b = rows_of(part.b, slots);
    else
        part.c = rows_of(part.c, slots);
    return part;
}

/* Each slot is multiplied by the matrix of one expert, so the number of floating-point operations does not depend on
 * the routing. */
static void run_experts(cs_stream *stream, const ce_product *product, const cs_routing *routing, bool gradient)
{
    ce_experts job = { .product = *product, .bounds = routing->bounds };
    int64_t slots = cs_count(routing->rows), experts = cs_count(routing->bounds) - 1;
    NEED_VECTOR(routing->bounds, CS_I32, experts + 1);
    ce_need_rows("the matrix of slots", product->a, slots);
    double flops = 2.0 * (double)slots * (double)cs_columns(product->a) *
                   (double)(product->transpose_a ? cs_columns(product->b) : cs_columns(product->c));
    stream->device->flops += flops;
    stream->device->gradient_flops += gradient ? flops : 0;
    RUN(stream, experts, &job);
}

/* Checks that w has as many matrices of this layout as there are experts. */
static void check_weight(cs_tensor w, cs_layout layout, const cs_routing *routing, int64_t outputs, int64_t inputs)
{
    NEED(routing, "routing is NULL");
    int64_t experts = cs_count(routing->bounds) - 1;
    NEED_MATRIX(w, experts * (layout == CS_OUT_IN ? outputs : inputs), layout == CS_OUT_IN ? inputs : outputs);
}

void cs_op_experts(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor w, cs_layout layout,
                   const cs_routing *routing)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_TYPE(y, x.dtype);
    NEED_TYPE(w, x.dtype);
    NEED_ROWS(y, cs_rows(x));
    check_weight(w, layout, routing, cs_columns(y), cs_columns(x));
    run_experts(stream, &(ce_product){ .c = y, .a = x, .b = w, .transpose_b = layout == CS_OUT_IN }, routing, false);
}

void cs_op_experts_grad_input(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor w, cs_layout layout,
                              const cs_routing *routing)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(dy);
    NEED_TYPE(dx, dy.dtype);
    NEED_TYPE(w, dy.dtype);
    NEED_ROWS(dx, cs_rows(dy));
    check_weight(w, layout, routing, cs_columns(dy), cs_columns(dx));
    run_experts(stream, &(ce_product){ .c = dx, .a = dy, .b = w, .transpose_b = layout == CS_IN_OUT }, routing, true);
}

void cs_op_experts_grad_weight(cs_stream *stream, cs_tensor dw, cs_tensor x, cs_tensor dy, cs_layout layout,
                               const cs_routing *routing)
{
    NEED_STREAM(stream);
    if (!dw.data)
        return;
    NEED_TYPE(dw, CS_F32);
    NEED_NUMBERS(x);
    NEED_TYPE(dy, x.dtype);
    NEED_ROWS(dy, cs_rows(x));
    check_weight(dw, layout, routing, cs_columns(dy), cs_columns(x));
    cs_tensor a = layout == CS_OUT_IN ? dy : x, b = layout == CS_OUT_IN ? x : dy;
    run_experts(stream, &(ce_product){ .c = dw, .a = a, .b = b, .transpose_a = true, .add = !dw.overwrite }, routing,
                true);
}

static void check_bias(cs_tensor y, cs_tensor bias, cs_tensor factors, const cs_routing *routing)
{
    NEED(routing, "routing is NULL");
    int64_t slots = cs_count(routing->rows);
    NEED_NUMBERS(y);
    NEED_ROWS(y, slots);
    NEED_NUMBERS(bias);
    NEED_MATRIX(bias, cs_count(routing->bounds) - 1, cs_columns(y));
    if (factors.data) {
        NEED_NUMBERS(factors);
        NEED_COUNT(factors, slots);
    }
}

void cs_op_expert_bias(cs_stream *stream, cs_tensor y, cs_tensor bias, cs_tensor factors, const cs_routing *routing)
{
    NEED_STREAM(stream);
    check_bias(y, bias, factors, routing);
    RUN(stream, expert_bias, y, bias, factors, routing);
}

void cs_op_expert_bias_grad(cs_stream *stream, cs_tensor dbias, cs_tensor dfactors, cs_tensor dy, cs_tensor bias,
                            cs_tensor factors, const cs_routing *routing)
{
    NEED_STREAM(stream);
    check_bias(dy, bias, factors, routing);
    if (dbias.data) {
        NEED_TYPE(dbias, CS_F32);
        NEED_MATRIX(dbias, cs_rows(bias), cs_columns(bias));
    }
    if (dfactors.data)
        NEED_VECTOR(dfactors, CS_F32, cs_rows(dy));
    RUN(stream, expert_bias_grad, dbias, dfactors, dy, bias, factors, routing);
}

/* ---- factors of rows, and the load-balancing loss ---- */

void cs_op_scale_rows(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor factors, bool logistic)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(y, x);
    NEED_NUMBERS(factors);
    NEED_COUNT(factors, cs_rows(x));
    RUN(stream, scale_rows, y, x, factors, logistic);
}

void cs_op_scale_rows_grad(cs_stream *stream, cs_tensor dx, cs_tensor dfactors, cs_tensor dy, cs_tensor x,
                           cs_tensor factors, bool logistic)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(dx, x);
    NEED_SHAPE_OF(dy, x);
    NEED_NUMBERS(factors);
    NEED_COUNT(factors, cs_rows(x));
    NEED_NUMBERS(dfactors);
    NEED_COUNT(dfactors, cs_rows(x));
    RUN(stream, scale_rows_grad, dx, dfactors, dy, x, factors, logistic);
}

void cs_op_balance(cs_stream *stream, const cs_balance *balance, cs_tensor loss, cs_tensor targets, cs_tensor dloss)
{
    NEED_STREAM(stream);
    int64_t rows = cs_rows(loss), experts = cs_columns(balance->tokens);
    NEED_VECTOR(loss, CS_F32, rows);
    NEED_VECTOR(targets, CS_I32, rows);
    NEED_VECTOR(dloss, CS_F32, rows);
    NEED_VECTOR(balance->tokens, CS_I32, cs_count(balance->probabilities));
    NEED_TYPE(balance->probabilities, CS_F32);
    NEED_VECTOR(balance->dprobabilities, CS_F32, experts);
    RUN(stream, balance, balance, loss, targets, dloss);
}
