/* ops_experts.c - the operations of cspeed/ops.h for mixtures of experts. As in ops.c, shapes and types are checked
 * here. */
#include "device/run.h"

static void check_routing(const cs_routing *routing, int64_t rows)
{
    CE_ASSERT(routing->slots.data && routing->slots.dtype == CS_I32 && cs_rows(routing->slots) == rows);
    CE_ASSERT(is_vector(routing->rows, CS_I32, cs_count(routing->slots)));
}

void cs_op_route(cs_stream *stream, const cs_routing *routing, cs_tensor factors, cs_tensor logits, bool normalized)
{
    int64_t experts = cs_columns(logits);
    CE_ASSERT(is_compute(logits) && is_compute(factors));
    check_routing(routing, cs_rows(logits));
    CE_ASSERT(cs_count(factors) == cs_count(routing->slots) && cs_columns(routing->slots) <= experts);
    CE_ASSERT(is_vector(routing->bounds, CS_I32, experts + 1) && is_vector(routing->tokens, CS_I32, experts));
    CE_ASSERT(experts <= CS_MAX_EXPERTS &&
              (!routing->probabilities.data || is_vector(routing->probabilities, CS_F32, experts)));
    RUN(stream, route, routing, factors, logits, normalized);
}

void cs_op_route_grad(cs_stream *stream, cs_tensor dlogits, const cs_routing *routing, cs_tensor dfactors,
                      cs_tensor dprobabilities, cs_tensor logits, bool normalized)
{
    CE_ASSERT(is_compute(logits) && is_shaped(logits, dlogits));
    check_routing(routing, cs_rows(logits));
    CE_ASSERT(is_vector(dfactors, CS_F32, cs_count(routing->slots)));
    CE_ASSERT(!dprobabilities.data || is_vector(dprobabilities, CS_F32, cs_columns(logits)));
    RUN(stream, route_grad, dlogits, routing, dfactors, dprobabilities, logits, normalized);
}

void cs_op_take_slots(cs_stream *stream, cs_tensor y, cs_tensor x, const cs_routing *routing)
{
    CE_ASSERT(is_compute(x) && is_compute(y) && x.dtype == y.dtype);
    check_routing(routing, cs_rows(x));
    CE_ASSERT(is_matrix(y, cs_count(routing->rows), cs_columns(x)));
    RUN(stream, take_slots, y, x, routing);
}

void cs_op_add_slots(cs_stream *stream, cs_tensor y, cs_tensor x, const cs_routing *routing)
{
    CE_ASSERT(is_compute(x) && is_compute(y));
    check_routing(routing, cs_rows(y));
    CE_ASSERT(is_matrix(x, cs_count(routing->rows), cs_columns(y)));
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
    CE_ASSERT(is_vector(routing->bounds, CS_I32, experts + 1) && cs_rows(product->a) == slots);
    CE_ASSERT(cs_rows(product->transpose_a ? product->c : product->b) % experts == 0);
    double flops = 2.0 * (double)slots * (double)cs_columns(product->a) *
                   (double)(product->transpose_a ? cs_columns(product->b) : cs_columns(product->c));
    stream->device->flops += flops;
    stream->device->gradient_flops += gradient ? flops : 0;
    RUN(stream, experts, &job);
}

/* Returns whether w has as many matrices of shape (outputs, inputs) as there are experts. */
static bool is_weight(cs_tensor w, const cs_routing *routing, int64_t outputs, int64_t inputs)
{
    return w.data && is_matrix(w, (cs_count(routing->bounds) - 1) * outputs, inputs);
}

void cs_op_experts(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor w, const cs_routing *routing)
{
    CE_ASSERT(is_compute(x) && x.dtype == y.dtype && x.dtype == w.dtype && cs_rows(x) == cs_rows(y));
    CE_ASSERT(is_weight(w, routing, cs_columns(y), cs_columns(x)));
    run_experts(stream, &(ce_product){ .c = y, .a = x, .b = w, .transpose_b = true }, routing, false);
}

void cs_op_experts_grad_input(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor w, const cs_routing *routing)
{
    CE_ASSERT(is_compute(dy) && dy.dtype == dx.dtype && dy.dtype == w.dtype && cs_rows(dx) == cs_rows(dy));
    CE_ASSERT(is_weight(w, routing, cs_columns(dy), cs_columns(dx)));
    run_experts(stream, &(ce_product){ .c = dx, .a = dy, .b = w }, routing, true);
}

void cs_op_experts_grad_weight(cs_stream *stream, cs_tensor dw, cs_tensor x, cs_tensor dy, const cs_routing *routing)
{
    if (!dw.data)
        return;
    CE_ASSERT(dw.dtype == CS_F32 && is_compute(x) && x.dtype == dy.dtype && cs_rows(x) == cs_rows(dy));
    CE_ASSERT(is_weight(dw, routing, cs_columns(dy), cs_columns(x)));
    run_experts(stream, &(ce_product){ .c = dw, .a = dy, .b = x, .transpose_a = true, .add = !dw.overwrite }, routing,
                true);
}

/* ---- factors of rows, and the load-balancing loss ---- */

void cs_op_scale_rows(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor factors, bool logistic)
{
    CE_ASSERT(is_compute(x) && is_shaped(x, y) && is_compute(factors) && cs_count(factors) == cs_rows(x));
    RUN(stream, scale_rows, y, x, factors, logistic);
}

void cs_op_scale_rows_grad(cs_stream *stream, cs_tensor dx, cs_tensor dfactors, cs_tensor dy, cs_tensor x,
                           cs_tensor factors, bool logistic)
{
    CE_ASSERT(is_compute(x) && is_shaped(x, dx) && is_shaped(x, dy));
    CE_ASSERT(is_compute(factors) && is_compute(dfactors));
    CE_ASSERT(cs_count(factors) == cs_rows(x) && cs_count(dfactors) == cs_rows(x));
    RUN(stream, scale_rows_grad, dx, dfactors, dy, x, factors, logistic);
}

void cs_op_balance(cs_stream *stream, const cs_balance *balance, cs_tensor loss, cs_tensor targets, cs_tensor dloss)
{
    int64_t rows = cs_rows(loss), experts = cs_columns(balance->tokens);
    CE_ASSERT(is_vector(loss, CS_F32, rows) && is_vector(targets, CS_I32, rows) && is_vector(dloss, CS_F32, rows));
    CE_ASSERT(is_vector(balance->tokens, CS_I32, cs_count(balance->probabilities)));
    CE_ASSERT(is_vector(balance->probabilities, CS_F32, cs_count(balance->tokens)) &&
              is_vector(balance->dprobabilities, CS_F32, experts));
    RUN(stream, balance, balance, loss, targets, dloss);
}
