/* test_overwrite.c - gradients of parameters are not cleared before a backward: the first operation sets them, and later
 * ones add. Tested with parameters that two operations use, that none uses, and that do not take part, over
 * micro-batches and steps. */
#include "core/engine.h"
#include "pieces.h"
#include "runs.h"
#include "suite.h"

#include <string.h>

enum { WIDTH = 8, IDLE = 16, UNITS = 3, STEPS = 2, ACCUMULATION = 2, ROWS = 2 };

/* ---- units of equal length, which use one buffer of the pool in turn. Every second unit has its parameters in reverse
 * order, so that its weights are where the other units have the parameters without a gradient ---- */

typedef struct {
    cs_param *weight, *idle, *plain;
    int uses;
} parts;

static void declare(cs_unit *unit, const void *sizes)
{
    parts *self = cs_unit_self(unit, sizeof *self);
    cs_init zeros = { CS_ZEROS, 0 };
    bool first = *(const int *)sizes % 2 == 0;
    self->uses = 1 + *(const int *)sizes;
    if (first)
        self->weight = cs_unit_param(unit, "weight", WIDTH, WIDTH, zeros);
    self->idle = cs_unit_param(unit, "idle", IDLE, 0, zeros);
    self->plain = cs_unit_param(unit, "plain", IDLE, 0, zeros);
    if (!first)
        self->weight = cs_unit_param(unit, "weight", WIDTH, WIDTH, zeros);
    cs_param_overwrites(self->weight, self->weight);
    cs_param_overwrites(self->idle, self->idle);
}

static void forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    (void)unit, (void)x;
    cs_op_fill(cs_pass_stream(pass), y, 0);
}

/* Each use of the weights adds the number of rows to each element of their gradient. */
static void backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    parts *self = cs_unit_self(unit, sizeof *self);
    cs_tensor ones = cs_pass_make(pass, CS_F32, cs_rows(dy), WIDTH);
    cs_op_fill(cs_pass_stream(pass), ones, 1);
    ck_assert_msg(!self->weight->grad.data && !self->idle->grad.data && self->plain->grad.data,
                  "a gradient that was not cleared is there for operations that add to it");
    for (int i = 0; i < self->uses; i++)
        cs_op_matmul_grad_weight(cs_pass_stream(pass), cs_param_gradient(self->weight), (cs_tensor){ 0 }, ones, ones,
                                 CS_IN_OUT);
    if (dx.data)
        cs_op_fill(cs_pass_stream(pass), dx, 0);
}

static cs_model *make_model(void)
{
    static const cs_kind kind = { "used", declare, forward, backward, NULL };
    static const char *const names[] = { "unit.0", "unit.1", "unit.2" };
    cs_model *model;
    CS_MUST(cs_model_new(&model, WIDTH));
    cs_model_floats(model, 1, 1);
    for (int i = 0; i < UNITS; i++)
        cs_model_add(model, &kind, names[i], &i);
    return model;
}

/* ---- results ---- */

static void check_unit(cs_engine *engine, int number, int micro_batches)
{
    ce_shard_piece pieces[3];
    int count = pieces_take(engine, number, pieces);
    for (int i = 0; i < count; i++) {
        bool used = strstr(pieces[i].entry->full_name, "weight") != NULL;
        float wanted = used ? (float)((1 + number) * ROWS * micro_batches) : 0;
        for (int64_t at = 0; at < ce_range_length(pieces[i].range); at++)
            ck_assert_msg(((const float *)pieces[i].gradient)[at] == wanted,
                          "%s, element %d of %d micro-batches: %g, not %g", pieces[i].entry->full_name, (int)at,
                          micro_batches, (double)((const float *)pieces[i].gradient)[at], (double)wanted);
    }
}

static void check_stage(int stage)
{
    run_spec spec = { .world = 1,
                      .stage = stage,
                      .precision = "fp32",
                      .steps = STEPS,
                      .micro = ROWS,
                      .accumulation = ACCUMULATION,
                      .set = { "cspeed.model=null" } };
    cs_engine *engine = run_open(&spec, make_model());
    float some[2] = { 0 };
    cs_batch batch = { .inputs = cs_matrix(some, CS_F32, ROWS, 1), .targets = cs_matrix(some, CS_F32, ROWS, 1) };
    for (int micro = 0; micro < STEPS * ACCUMULATION; micro++) {
        cs_forward(engine, &batch);
        cs_backward(engine);
        for (int i = 0; i < UNITS; i++)
            check_unit(engine, i, 1 + micro % ACCUMULATION);
        cs_step(engine);
    }
    cs_destroy(engine);
}

START_TEST(the_first_gradient_overwrites)
{
    for (int stage = 0; stage < 4; stage++)
        check_stage(stage);
}
END_TEST

SUITE_MAIN("overwrite", the_first_gradient_overwrites)
