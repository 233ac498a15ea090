/* experts.c - a mixture of experts: router, experts, shared expert.
 *
 * Forward copies the rows to the slots of their experts (cs_routing). The tensors of all experts together have one row
 * for each slot. The number of slots does not depend on how the router divides the slots among the experts, so memory
 * does not depend on the data. The router gives each slot a factor. The factor is applied before the down projection,
 * whose input is narrower than its result. Backward computes the activation function between the two products again.
 *
 * With tensor parallelism the ranks divide the inner width of every expert. The router is the same on all ranks. Each
 * rank computes a part of the sums that make up y, dx and the gradients of the factors; these parts are added over the
 * ranks.
 *
 * An expert has matrices of its own, with the names of published weights, although transformers 5 has one tensor for all
 * experts: checkpoints, exports and parameter groups then name what a user finds in a file, and Muon gets matrices. */
#include "layer/linear.h"
#include "base/misuse.h"
#include "unit/pass.h"
#include "unit/unit.h"

#include <stdio.h>

/* Declares one matrix of an expert, whose dimension `dim` is the inner width; `inner` are this rank's indices of it. The
 * matrices of all experts that one operation uses together form a group. `with` is the first matrix of the group, or
 * NULL if the declared matrix is the first. Returns the first matrix of the group. */
static cs_param *declare_matrix(cs_unit *unit, const char *full, int64_t rows, int64_t columns, int dim,
                                ce_cut_part inner, cs_init init, cs_param *with)
{
    cs_param *made = cs_unit_param(unit, full, rows, columns, init);
    ce_cut_param(made, dim, &inner, 1);
    cs_param_overwrites(made, with ? with : made);
    return with ? with : made;
}

/* Returns this rank's columns of a matrix in which gate and up alternate. */
static ce_cut_part pairs_of(ce_cut_part inner)
{
    inner.from *= 2;
    inner.count *= 2;
    return inner;
}

/* Declares gate and up of expert e, as one matrix or as two. */
static void declare_gate_up(cs_experts *experts, cs_unit *unit, const char *name, int64_t e,
                            const cs_experts_sizes *sizes)
{
    ce_cut_part inner = ce_cut_share(sizes->hidden, unit->model->tp);
    const char *const parts[] = { sizes->gate, sizes->up };
    char full[160];
    for (int i = 0; sizes->up && i < 2; i++) {
        snprintf(full, sizeof full, "%s.experts.%lld.%s.weight", name, (long long)e, parts[i]);
        experts->gate_up =
            declare_matrix(unit, full, sizes->hidden, sizes->width, 0, inner, sizes->init, experts->gate_up);
    }
    if (sizes->up)
        return;
    snprintf(full, sizeof full, "%s.experts.%lld.%s.weight", name, (long long)e, sizes->gate);
    experts->gate_up =
        declare_matrix(unit, full, sizes->width, 2 * sizes->hidden, 1, pairs_of(inner), sizes->init, experts->gate_up);
}

static void declare_down(cs_experts *experts, cs_unit *unit, const char *name, int64_t e, const cs_experts_sizes *sizes)
{
    ce_cut_part inner = ce_cut_share(sizes->hidden, unit->model->tp);
    bool turned = experts->layout == CS_IN_OUT;
    char full[160];
    snprintf(full, sizeof full, "%s.experts.%lld.%s.weight", name, (long long)e, sizes->down);
    experts->down = declare_matrix(unit, full, turned ? sizes->hidden : sizes->width,
                                   turned ? sizes->width : sizes->hidden, !turned, inner, sizes->init, experts->down);
}

/* Every rank holds all biases of the down projections, and the first rank adds them. */
static void declare_biases(cs_experts *experts, cs_unit *unit, const char *name, const cs_experts_sizes *sizes)
{
    ce_cut_part inner = ce_cut_share(sizes->hidden, unit->model->tp);
    const cs_init zero = { CS_ZEROS, 0 };
    char full[160];
    snprintf(full, sizeof full, "%s.experts.%s_bias", name, sizes->gate);
    experts->gate_up_bias = declare_matrix(unit, full, sizes->count, 2 * sizes->hidden, 1, pairs_of(inner), zero, NULL);
    snprintf(full, sizeof full, "%s.experts.%s_bias", name, sizes->down);
    experts->down_bias = cs_unit_param(unit, full, sizes->count, sizes->width, zero);
    cs_param_overwrites(experts->down_bias, experts->down_bias);
}

static void declare_shared(cs_experts *experts, cs_unit *unit, const char *name, const cs_experts_sizes *sizes)
{
    char full[128];
    cs_gated_sizes shared = { .width = sizes->width,
                              .hidden = sizes->shared,
                              .bias = CS_NO_BIAS,
                              .init = sizes->init,
                              .function = sizes->function };
    snprintf(full, sizeof full, "%s.shared_expert", name);
    cs_gated_declare(&experts->shared, unit, full, &shared);
    snprintf(full, sizeof full, "%s.shared_expert_gate", name);
    cs_linear_declare(&experts->shared_gate, unit, full, sizes->width, 1, sizes->init, CS_OUT_IN, CS_NO_BIAS);
    ce_cut_rows(experts->shared_gate.weight, unit);
}

void cs_experts_declare(cs_experts *experts, cs_unit *unit, const char *name, const cs_experts_sizes *sizes)
{
    CE_GIVEN(experts, unit);
    char full[128];
    *experts = (cs_experts){ .count = sizes->count,
                             .chosen = sizes->chosen,
                             .hidden = ce_cut_share(sizes->hidden, unit->model->tp).count,
                             .function = sizes->function,
                             .normalized = sizes->normalized,
                             .rounded = sizes->rounded,
                             .layout = sizes->up ? CS_OUT_IN : CS_IN_OUT,
                             .clamp = sizes->clamp,
                             .unit = unit };
    int64_t idle = (sizes->count - sizes->chosen) * 3 * sizes->hidden * sizes->width;
    experts->layer = ce_load_add(unit->model, sizes->count, idle, sizes->balance);
    snprintf(full, sizeof full, "%s.%s", name, sizes->router ? sizes->router : "gate");
    cs_linear_declare(&experts->router, unit, full, sizes->width, sizes->count, sizes->init, CS_OUT_IN,
                      sizes->biased ? CS_BIAS : CS_NO_BIAS);
    experts->router.weight->linear = NULL; /* in transformers, the router is no nn.Linear, so it gets no LoRA adapter */
    for (int64_t e = 0; e < sizes->count; e++)
        declare_gate_up(experts, unit, name, e, sizes);
    for (int64_t e = 0; e < sizes->count; e++)
        declare_down(experts, unit, name, e, sizes);
    if (sizes->biased && !sizes->up)
        declare_biases(experts, unit, name, sizes);
    if (sizes->shared > 0)
        declare_shared(experts, unit, name, sizes);
}

/* ---- tensors ---- */

/* Returns the tensor with the gate and up matrices of all experts, which begins where the first matrix begins. */
static cs_tensor gate_up_of(const cs_experts *experts, cs_tensor first)
{
    first.shape[0] *= (experts->layout == CS_OUT_IN ? 2 : 1) * experts->count;
    return first;
}

static cs_tensor down_of(const cs_experts *experts, cs_tensor first)
{
    first.shape[0] *= experts->count;
    return first;
}

/* Returns whether this rank adds the biases of the down projections, whose results are added over the ranks. */
static bool adds_down_bias(const cs_experts *experts)
{
    return experts->down_bias && experts->unit->model->tp.rank == 0;
}

/* The counts of slots and the sums of probabilities are needed after the pass, so they are in the model's ce_load. */
static cs_routing routing_of(const cs_experts *experts, cs_pass *pass, int64_t rows)
{
    const ce_load *load = &experts->unit->model->load;
    int64_t at = experts->layer * experts->count;
    bool sums = cs_pass_training(pass) && load->coefficient > 0;
    return (cs_routing){
        .rows = cs_pass_make(pass, CS_I32, rows * experts->chosen, 1),
        .slots = cs_pass_make(pass, CS_I32, rows, experts->chosen),
        .bounds = cs_pass_make(pass, CS_I32, experts->count + 1, 1),
        .tokens = cs_vector(load->tokens + at, CS_I32, experts->count),
        .probabilities = cs_vector(sums ? load->probabilities + at : NULL, CS_F32, experts->count),
    };
}

/* ---- forward ---- */

static void activate(const cs_experts *experts, cs_pass *pass, cs_tensor g, cs_tensor h)
{
    if (experts->clamp.limit > 0)
        cs_op_clamped(cs_pass_stream(pass), g, h, experts->clamp);
    else
        cs_op_gated(cs_pass_stream(pass), g, h, experts->function);
}

static cs_tensor add_shared(const cs_experts *experts, cs_pass *pass, cs_tensor y, cs_tensor x)
{
    cs_tensor a = cs_gated_forward(&experts->shared, pass, x), z = cs_linear_forward(&experts->shared_gate, pass, x);
    cs_tensor sum = cs_pass_like(pass, y);
    cs_pass_keep(pass, a);
    cs_pass_keep(pass, z);
    cs_op_scale_rows(cs_pass_stream(pass), sum, a, z, true);
    cs_op_add(cs_pass_stream(pass), sum, y, sum);
    return sum;
}

/* Computes the rows of all slots: h before the activation function, and the result. */
static cs_tensor compute(const cs_experts *experts, cs_pass *pass, cs_tensor h, cs_tensor own_x, cs_tensor factors,
                         const cs_routing *routing)
{
    cs_stream *stream = cs_pass_stream(pass);
    cs_tensor g = cs_pass_make(pass, h.dtype, cs_rows(h), experts->hidden), own_y = cs_pass_like(pass, own_x);
    cs_op_experts(stream, h, own_x, ce_linear_factor(pass, gate_up_of(experts, experts->gate_up->value)),
                  experts->layout, routing);
    if (experts->gate_up_bias)
        cs_op_expert_bias(stream, h, experts->gate_up_bias->value, (cs_tensor){ 0 }, routing);
    activate(experts, pass, g, h);
    cs_op_scale_rows(stream, g, g, factors, false);
    cs_op_experts(stream, own_y, g, ce_linear_factor(pass, down_of(experts, experts->down->value)), experts->layout,
                  routing);
    if (adds_down_bias(experts))
        cs_op_expert_bias(stream, own_y, experts->down_bias->value, factors, routing);
    return own_y;
}

cs_tensor cs_experts_forward(const cs_experts *experts, cs_pass *pass, cs_tensor x)
{
    CE_GIVEN(experts, pass);
    cs_stream *stream = cs_pass_stream(pass);
    cs_dtype dtype = cs_pass_products(pass);
    cs_tensor own_rows = ce_linear_factor(pass, x);
    x = ce_pass_gather_rows(pass, own_rows);
    int64_t rows = cs_rows(x), slots = rows * experts->chosen;
    cs_tensor logits = cs_linear_forward(&experts->router, pass, x);
    cs_routing routing = routing_of(experts, pass, rows);
    cs_tensor factors = cs_pass_make(pass, experts->rounded ? dtype : CS_F32, slots, 1);
    cs_tensor own_x = cs_pass_make(pass, dtype, slots, cs_columns(x));
    cs_tensor h = cs_pass_make(pass, dtype, slots, 2 * experts->hidden);
    cs_tensor y = cs_pass_like(pass, x);
    cs_op_route(stream, &routing, factors, logits, experts->normalized);
    cs_op_take_slots(stream, own_x, x, &routing);
    cs_op_add_slots(stream, y, compute(experts, pass, h, own_x, factors, &routing), &routing);
    cs_tensor kept[] = { logits, routing.rows, routing.slots, routing.bounds, factors, h, own_rows };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        cs_pass_keep(pass, kept[i]);
    ce_pass_partial(pass, y, experts->down);
    y = ce_pass_sum_rows(pass, y);
    return experts->shared.gate_up.weight ? add_shared(experts, pass, y, own_rows) : y;
}

/* ---- backward ---- */

/* The tensors that forward of the experts has saved for backward. */
typedef struct {
    cs_routing routing;
    cs_tensor x, h, factors, logits;
} kept_tensors;

static kept_tensors take_kept(cs_pass *pass)
{
    kept_tensors kept;
    kept.x = ce_pass_gather_rows(pass, cs_pass_take(pass));
    kept.h = cs_pass_take(pass);
    kept.factors = cs_pass_take(pass);
    kept.routing.bounds = cs_pass_take(pass);
    kept.routing.slots = cs_pass_take(pass);
    kept.routing.rows = cs_pass_take(pass);
    kept.logits = cs_pass_take(pass);
    return kept;
}

/* Returns the gradient of the shared expert's input. */
static cs_tensor shared_backward(const cs_experts *experts, cs_pass *pass, cs_tensor dy)
{
    cs_tensor z = cs_pass_take(pass), a = cs_pass_take(pass), da = cs_pass_like(pass, dy), dz = cs_pass_like(pass, z);
    cs_op_scale_rows_grad(cs_pass_stream(pass), da, dz, dy, a, z, true);
    cs_tensor dx = cs_linear_backward(&experts->shared_gate, pass, dz);
    cs_tensor more = cs_gated_backward(&experts->shared, pass, da);
    cs_op_add(cs_pass_stream(pass), dx, dx, more);
    return dx;
}

/* Returns the gradient of g, the activation of the experts before the factors of the slots are applied. Adds to the
 * gradients of the down projections, and computes the gradient of the factors. */
static cs_tensor down_backward(const cs_experts *experts, cs_pass *pass, const kept_tensors *kept, cs_tensor own_dy,
                               cs_tensor dfactors)
{
    cs_stream *stream = cs_pass_stream(pass);
    cs_tensor g = cs_pass_make(pass, kept->h.dtype, cs_rows(kept->h), experts->hidden);
    cs_tensor dg = cs_pass_like(pass, g), scaled = cs_pass_like(pass, g);
    activate(experts, pass, g, kept->h);
    cs_op_scale_rows(stream, scaled, g, kept->factors, false);
    cs_op_experts_grad_weight(stream, down_of(experts, cs_param_gradient(experts->down)), scaled, own_dy,
                              experts->layout, &kept->routing);
    cs_op_experts_grad_input(stream, dg, own_dy, ce_linear_factor(pass, down_of(experts, experts->down->value)),
                             experts->layout, &kept->routing);
    cs_op_scale_rows_grad(stream, dg, dfactors, dg, g, kept->factors, false);
    if (experts->down_bias) /* Every rank computes the whole gradient of the biases. */
        cs_op_expert_bias_grad(stream, cs_param_gradient(experts->down_bias),
                               adds_down_bias(experts) ? dfactors : (cs_tensor){ 0 }, own_dy, experts->down_bias->value,
                               kept->factors, &kept->routing);
    ce_pass_partial(pass, dfactors, experts->down);
    ce_pass_sum(pass, dfactors);
    return dg;
}

/* Computes dh, the gradient of the rows before the activation function, and adds to the gradient of their biases. */
static void gate_backward(const cs_experts *experts, cs_pass *pass, const kept_tensors *kept, cs_tensor dh,
                          cs_tensor dg)
{
    cs_stream *stream = cs_pass_stream(pass);
    if (experts->clamp.limit > 0)
        cs_op_clamped_grad(stream, dh, dg, kept->h, experts->clamp);
    else
        cs_op_gated_grad(stream, dh, dg, kept->h, experts->function);
    if (experts->gate_up_bias)
        cs_op_expert_bias_grad(stream, cs_param_gradient(experts->gate_up_bias), (cs_tensor){ 0 }, dh,
                               experts->gate_up_bias->value, (cs_tensor){ 0 }, &kept->routing);
}

static cs_tensor router_backward(const cs_experts *experts, cs_pass *pass, const kept_tensors *kept, cs_tensor dfactors)
{
    ce_load *load = &experts->unit->model->load;
    cs_tensor dlogits = cs_pass_like(pass, kept->logits);
    cs_tensor balance = cs_vector(load->coefficient > 0 ? load->dprobabilities : NULL, CS_F32, experts->count);
    cs_op_route_grad(cs_pass_stream(pass), dlogits, &kept->routing, dfactors, balance, kept->logits,
                     experts->normalized);
    return cs_linear_backward(&experts->router, pass, dlogits);
}

cs_tensor cs_experts_backward(const cs_experts *experts, cs_pass *pass, cs_tensor dy)
{
    CE_GIVEN(experts, pass);
    cs_stream *stream = cs_pass_stream(pass);
    dy = ce_linear_factor(pass, dy);
    cs_tensor shared = experts->shared.gate_up.weight ? shared_backward(experts, pass, dy) : (cs_tensor){ 0 };
    kept_tensors kept = take_kept(pass);
    dy = ce_pass_gather_rows(pass, dy);
    cs_tensor own_dy = cs_pass_make(pass, dy.dtype, cs_rows(kept.h), cs_columns(dy)), own = cs_pass_like(pass, own_dy);
    cs_tensor dfactors = cs_pass_make(pass, CS_F32, cs_rows(kept.h), 1), dh = cs_pass_like(pass, kept.h);
    cs_tensor dx = cs_pass_like(pass, dy);
    cs_op_take_slots(stream, own_dy, dy, &kept.routing);
    cs_tensor dg = down_backward(experts, pass, &kept, own_dy, dfactors);
    gate_backward(experts, pass, &kept, dh, dg);
    cs_op_take_slots(stream, own, kept.x, &kept.routing);
    cs_op_experts_grad_weight(stream, gate_up_of(experts, cs_param_gradient(experts->gate_up)), own, dh,
                              experts->layout, &kept.routing);
    cs_op_experts_grad_input(stream, own_dy, dh, ce_linear_factor(pass, gate_up_of(experts, experts->gate_up->value)),
                             experts->layout, &kept.routing);
    cs_op_add_slots(stream, dx, own_dy, &kept.routing);
    ce_pass_partial(pass, dx, experts->gate_up);
    dx = ce_pass_sum_rows(pass, dx);
    cs_op_add(stream, dx, dx, ce_pass_own_rows(pass, router_backward(experts, pass, &kept, dfactors)));
    if (shared.data)
        cs_op_add(stream, dx, dx, shared);
    return dx;
}

/* ---- the load-balancing loss ---- */

void cs_experts_balance(cs_unit *unit, cs_pass *pass, cs_tensor loss)
{
    CE_GIVEN(unit, pass);
    ce_load *load = &unit->model->load;
    if (load->layers == 0 || load->coefficient <= 0 || !cs_pass_training(pass))
        return;
    cs_balance balance = {
        .tokens = cs_matrix(load->tokens, CS_I32, load->layers, load->experts),
        .probabilities = cs_matrix(load->probabilities, CS_F32, load->layers, load->experts),
        .dprobabilities = cs_vector(load->dprobabilities, CS_F32, load->experts),
        .coefficient = load->coefficient,
    };
    cs_op_balance(cs_pass_stream(pass), &balance, loss, cs_pass_targets(pass), cs_pass_dloss(pass));
}
