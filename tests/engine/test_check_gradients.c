/* test_check_gradients.c - cs_check_gradients: right gradients pass at every stage, with dropout, recomputation and
 * accumulation; each wrong one is named with its parameter; and the engine's state keeps its bits. */
#include "core/engine.h"
#include "cspeed/layer.h"
#include "endings.h"
#include "runs.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, WIDTH = 5, CLASSES = 3 };

/* ---- a model of one's own: h = gelu(x w + b), classes = h v ---- */

typedef enum { RIGHT, WEIGHT_TWICE, ONE_ELEMENT, NO_BIAS, WRONG_DX, WRONG_LAST } fault;
static fault fault_now;
static const cs_tensor absent;

typedef struct {
    cs_param *weight, *bias;
} parts;

static void hidden_declare(cs_unit *unit, const void *sizes)
{
    parts *self = cs_unit_self(unit, sizeof *self);
    (void)sizes;
    self->weight = cs_unit_param(unit, "w", WIDTH, WIDTH, (cs_init){ CS_NORMAL, 0.6f });
    self->bias = cs_unit_param(unit, "b", WIDTH, 0, (cs_init){ CS_NORMAL, 0.1f });
}

static void hidden_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    parts *self = cs_unit_self(unit, sizeof *self);
    cs_tensor h = cs_pass_like(pass, y);
    cs_op_matmul(cs_pass_stream(pass), h, x, self->weight->value, self->bias->value, CS_IN_OUT);
    cs_op_gelu(cs_pass_stream(pass), y, h);
    cs_pass_keep(pass, x);
    cs_pass_keep(pass, h);
}

static void hidden_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    parts *self = cs_unit_self(unit, sizeof *self);
    cs_stream *stream = cs_pass_stream(pass);
    cs_tensor h = cs_pass_take(pass), x = cs_pass_take(pass), dh = cs_pass_like(pass, h);
    bool second = dx.data;
    cs_op_gelu_grad(stream, dh, dy, h);
    cs_op_matmul_grad_weight(stream, self->weight->grad, second && fault_now == NO_BIAS ? absent : self->bias->grad, x,
                             dh, CS_IN_OUT);
    if (second && fault_now == WEIGHT_TWICE)
        cs_op_matmul_grad_weight(stream, self->weight->grad, absent, x, dh, CS_IN_OUT);
    if (second && fault_now == ONE_ELEMENT && !cs_pass_measuring(pass))
        ((float *)self->weight->grad.data)[7] *= 1.5f;
    if (!second)
        return;
    cs_op_matmul_grad_input(stream, dx, dh, self->weight->value, CS_IN_OUT);
    if (fault_now == WRONG_DX)
        cs_op_add(stream, dx, dx, dy);
}

static void last_declare(cs_unit *unit, const void *sizes)
{
    parts *self = cs_unit_self(unit, sizeof *self);
    (void)sizes;
    self->weight = cs_unit_param(unit, "v", WIDTH, CLASSES, (cs_init){ CS_NORMAL, 0.7f });
}

static void last_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    parts *self = cs_unit_self(unit, sizeof *self);
    cs_tensor logits = cs_pass_make(pass, CS_F32, cs_rows(x), CLASSES);
    cs_op_matmul(cs_pass_stream(pass), logits, x, self->weight->value, absent, CS_IN_OUT);
    cs_op_cross_entropy(cs_pass_stream(pass), y, logits, cs_pass_targets(pass), CLASSES, cs_pass_dloss(pass));
    cs_pass_keep(pass, x);
    cs_pass_keep(pass, logits);
}

static void last_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    parts *self = cs_unit_self(unit, sizeof *self);
    cs_tensor dlogits = cs_pass_take(pass), x = cs_pass_take(pass);
    (void)dy;
    if (fault_now == WRONG_LAST)
        cs_op_scale(cs_pass_stream(pass), dlogits, dlogits, 1.02f);
    cs_op_matmul_grad_weight(cs_pass_stream(pass), self->weight->grad, absent, x, dlogits, CS_IN_OUT);
    cs_op_matmul_grad_input(cs_pass_stream(pass), dx, dlogits, self->weight->value, CS_IN_OUT);
}

static const cs_kind hidden = { "hidden", hidden_declare, hidden_forward, hidden_backward, NULL };
static const cs_kind last = { "last", last_declare, last_forward, last_backward, NULL };

static cs_model *own_model(void)
{
    cs_model *model;
    CS_MUST(cs_model_new(&model, WIDTH));
    cs_model_classifies(model, WIDTH);
    cs_model_add(model, &hidden, "first", NULL);
    cs_model_add(model, &hidden, "second", NULL);
    cs_model_add(model, &last, "third", NULL);
    return model;
}

typedef struct {
    float inputs[ROWS * WIDTH];
    int32_t targets[ROWS];
} data;

static cs_batch batch_of(data *d, int rank)
{
    for (int i = 0; i < ROWS * WIDTH; i++)
        d->inputs[i] = (float)sin(1.7 * i + rank);
    for (int i = 0; i < ROWS; i++)
        d->targets[i] = i == 2 ? -1 : (i * 5 + rank) % CLASSES;
    return (cs_batch){ .inputs = cs_matrix(d->inputs, CS_F32, ROWS, WIDTH),
                       .targets = cs_matrix(d->targets, CS_I32, ROWS, 1) };
}

/* ---- runs ---- */

typedef struct {
    run_spec spec;
    bool own;
    fault wrong;
    struct {
        cs_status status;
        char said[512];
        bool same; /* parameters, optimizer state and the next step have the bits of a run without the check */
    } * out;
} job;

typedef struct {
    uint32_t masters, slots;
    double loss, norm;
} state;

static void step(cs_engine *engine, const job *j)
{
    data d;
    cs_batch batch = batch_of(&d, cs_rank(engine));
    if (!j->own) {
        run_step(engine, &j->spec);
        return;
    }
    do {
        cs_forward(engine, &batch);
        cs_backward(engine);
    } while (!cs_step(engine));
}

static state run(job *j, bool checks)
{
    cs_engine *engine = run_open(&j->spec, j->own ? own_model() : NULL);
    int rank = cs_rank(engine);
    data d;
    step(engine, j);
    cs_batch batch = j->own ? batch_of(&d, rank) : run_batch(engine, &j->spec, 0);
    if (checks) {
        j->out[rank].status = cs_check_gradients(engine, &batch, 1e-3);
        snprintf(j->out[rank].said, sizeof j->out[rank].said, "%s", cs_error());
    }
    step(engine, j);
    cs_metrics metrics = cs_last_step(engine);
    state after = { run_masters(engine), run_slots(engine), metrics.loss, metrics.grad_norm };
    cs_destroy(engine);
    return after;
}

static int rank_of_run(void *argument)
{
    job *j = argument;
    fault_now = j->wrong;
    state checked = run(j, true), plain = run(j, false);
    j->out[cs_launched_rank()].same = memcmp(&checked, &plain, sizeof plain) == 0;
    return 0;
}

static void perform(job *j, cs_status status, const char *says)
{
    j->out = run_share(RUN_RANKS * sizeof *j->out);
    run_ranks(j->spec.world, rank_of_run, j);
    for (int rank = 0; rank < j->spec.world; rank++) {
        ck_assert_msg(j->out[rank].status == status, "stage %d: status %d: %s", j->spec.stage, j->out[rank].status,
                      j->out[rank].said);
        ck_assert_msg(!says || strstr(j->out[rank].said, says), "said \"%s\", not \"%s\"", j->out[rank].said, says);
        ck_assert_msg(j->out[rank].same, "stage %d, rank %d: the check has changed the state", j->spec.stage, rank);
    }
    run_unshare(j->out, RUN_RANKS * sizeof *j->out);
}

static job job_of(int world, int stage, int accumulation, bool own)
{
    return (job){ .own = own,
                  .spec = { .world = world,
                            .stage = stage,
                            .steps = 2,
                            .micro = own ? ROWS : 4,
                            .accumulation = accumulation,
                            .precision = "fp32",
                            .recompute = "none" } };
}

START_TEST(right_gradients_pass)
{
    static const int worlds[][3] = { { 1, 0, 1 }, { 2, 0, 1 }, { 2, 1, 2 }, { 2, 2, 2 }, { 2, 3, 1 }, { 1, 3, 2 } };
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        job j = job_of(worlds[i][0], worlds[i][1], worlds[i][2], true);
        perform(&j, CS_OK, NULL);
    }
}
END_TEST

START_TEST(a_gpt2_with_dropout_and_recomputation_passes)
{
    job j = job_of(2, 3, 1, false);
    j.spec.dropout = 0.2;
    j.spec.recompute = "unit";
    perform(&j, CS_OK, NULL);
}
END_TEST

START_TEST(wrong_gradients_are_named)
{
    static const struct {
        fault wrong;
        const char *says;
    } cases[] = {
        { WRONG_LAST, "the gradient of third.v is wrong" },
        { WEIGHT_TWICE, "the gradient of second.w is wrong, the sum over all elements" },
        { ONE_ELEMENT, "the gradient of second.w is wrong" },
        { NO_BIAS, "the gradient of second.b is wrong" },
        { WRONG_DX, "the gradient of first.w is wrong" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int stage = 0; stage <= 3; stage += 3) {
            job j = job_of(1 + stage / 3, stage, 1, true);
            j.wrong = cases[i].wrong;
            perform(&j, CS_MISUSE, cases[i].says);
        }
}
END_TEST

START_TEST(what_cannot_be_checked_is_refused)
{
    job j = job_of(1, 0, 1, true);
    j.spec.precision = "bf16";
    j.own = false;
    perform(&j, CS_UNSUPPORTED, "not supported: cs_check_gradients in 16 bits");
}
END_TEST

SUITE_MAIN("check_gradients", right_gradients_pass, a_gpt2_with_dropout_and_recomputation_passes,
           wrong_gradients_are_named, what_cannot_be_checked_is_refused)
