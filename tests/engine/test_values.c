/* test_values.c - cs_param_read, cs_param_write, cs_gradient_read, first values by a function, and weights of a model of
 * one's own from a checkpoint to a folder and back: at every stage, with accumulation, masks, loss scaling and tensor
 * parallelism the values are those of one rank. */
#include "cspeed/layer.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 24000 };

/* What a run saw: parameters and gradients of its second step, and the sum of the squares of these gradients. */
typedef struct {
    int64_t count;
    float value[ELEMENTS], gradient[ELEMENTS], written[ELEMENTS];
    double norm, squares, loss;
} seen;

typedef struct {
    run_spec spec;
    seen *out; /* of each rank */
} order;

static int64_t elements_of(const cs_engine *engine, const char *name)
{
    cs_param_part part;
    CS_MUST(cs_param_local(engine, name, &part));
    return cs_count(part.shape);
}

/* Performs one step, reads all gradients before its update, then all parameters; then writes the parameters times -2, and
 * reads them again. */
static int look(void *argument)
{
    const order *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    seen *out = &job->out[cs_rank(engine)];
    for (int micro = 0; micro < job->spec.accumulation; micro++) {
        cs_batch batch = run_batch(engine, &job->spec, micro);
        cs_forward(engine, &batch);
        cs_backward(engine);
        if (micro + 1 == job->spec.accumulation)
            for (int64_t i = 0; i < cs_param_count(engine); i++) {
                CS_MUST(cs_gradient_read(engine, cs_param_name(engine, i), out->gradient + out->count));
                out->count += elements_of(engine, cs_param_name(engine, i));
            }
        cs_step(engine);
    }
    for (int64_t i = 0; i < out->count; i++)
        out->squares += (double)out->gradient[i] * out->gradient[i];
    out->norm = cs_last_step(engine).grad_norm;
    for (int64_t i = 0, at = 0; i < cs_param_count(engine); i++) {
        const char *name = cs_param_name(engine, i);
        int64_t count = elements_of(engine, name);
        CS_MUST(cs_param_read(engine, name, out->value + at));
        for (int64_t e = at; e < at + count; e++)
            out->written[e] = -2 * out->value[e];
        CS_MUST(cs_param_write(engine, name, out->written + at));
        memset(out->written + at, 0, (size_t)count * sizeof(float));
        CS_MUST(cs_param_read(engine, name, out->written + at));
        at += count;
    }
    run_step(engine, &job->spec); /* the new values are those that the model computes with */
    out->loss = cs_last_step(engine).loss;
    cs_destroy(engine);
    return 0;
}

static run_spec spec_of(int world, int stage, int accumulation, const char *precision)
{
    return (run_spec){ .world = world,
                       .stage = stage,
                       .steps = 2,
                       .micro = 12 / world / accumulation,
                       .accumulation = accumulation,
                       .precision = precision,
                       .recompute = "none",
                       .prefetch = 1,
                       .masked = true };
}

static seen *run(run_spec spec)
{
    order job = { .spec = spec, .out = run_share((size_t)spec.world * sizeof(seen)) };
    run_ranks(spec.world, look, &job);
    for (int rank = 1; rank < spec.world; rank++)
        ck_assert_msg(memcmp(&job.out[0], &job.out[rank], sizeof(seen)) == 0, "ranks 0 and %d differ", rank);
    return job.out;
}

static void compare(const run_spec *spec, const seen *got, const seen *wanted, double bound)
{
    double largest = 0;
    ck_assert_int_gt(got->count, 1000);
    ck_assert_int_le(got->count, ELEMENTS);
    ck_assert_int_eq(got->count, wanted->count);
    ck_assert_msg(fabs(sqrt(got->squares) - got->norm) <= 2e-6 * got->norm, "the gradients' norm is %.9g, not %.9g",
                  sqrt(got->squares), got->norm);
    for (int64_t i = 0; i < got->count; i++)
        largest = fmax(largest, fabs((double)wanted->gradient[i]));
    for (int64_t i = 0; i < got->count; i++) {
        ck_assert_msg(fabs((double)got->gradient[i] - wanted->gradient[i]) <= bound * largest,
                      "world %d, stage %d, %s: gradient %lld is %g, not %g", spec->world, spec->stage, spec->precision,
                      (long long)i, got->gradient[i], wanted->gradient[i]);
        ck_assert_msg(got->written[i] == -2 * got->value[i], "element %lld is %g after writing %g", (long long)i,
                      got->written[i], -2 * got->value[i]);
    }
    ck_assert_msg(fabs(got->loss - wanted->loss) <= bound * wanted->loss, "loss %.9g, not %.9g", got->loss,
                  wanted->loss);
}

START_TEST(values_do_not_depend_on_the_layout)
{
    run_spec one = spec_of(1, 0, 1, "fp32");
    seen *wanted = run(one);
    for (int stage = 0; stage <= 3; stage++)
        for (int world = 1; world <= 3; world++) {
            run_spec spec = spec_of(world, stage, 2, "fp32");
            seen *got = run(spec);
            compare(&spec, got, wanted, 2e-6);
            run_unshare(got, (size_t)world * sizeof *got);
        }
    for (int stage = 0; stage <= 3; stage += 3) {
        run_spec spec = spec_of(4, stage, 1, "fp32");
        spec.micro = 6;
        spec.set[0] = "cspeed.mesh.tp=2";
        seen *got = run(spec);
        compare(&spec, got, wanted, 1e-5);
        run_unshare(got, 4 * sizeof *got);
    }
    run_unshare(wanted, sizeof *wanted);
}
END_TEST

START_TEST(loss_scale_and_clipping_do_not_change_gradients)
{
    static const char *const precisions[] = { "fp16", "bf16" };
    for (int i = 0; i < 2; i++) {
        run_spec one = spec_of(1, 0, 1, precisions[i]), spec = spec_of(2, 2, 2, precisions[i]);
        spec.set[0] = "gradient_clipping=0.01";
        seen *wanted = run(one), *got = run(spec);
        for (int64_t e = 0; e < got->count; e++) {
            got->value[e] = wanted->value[e]; /* clipping changes the update */
            got->written[e] = wanted->written[e];
        }
        got->loss = wanted->loss;
        compare(&spec, got, wanted, 2e-2);
        run_unshare(wanted, sizeof *wanted);
        run_unshare(got, 2 * sizeof *got);
    }
}
END_TEST

/* ---- a model of one's own ---- */

enum { ROWS = 6, COLUMNS = 5 };

/* The argument of `first` is a table. */
static float first(int64_t row, int64_t column, const void *argument)
{
    return ((const float *)argument)[row * COLUMNS + column];
}

static const float table[ROWS * COLUMNS] = { 1, -2, 3.5f, 4, 5, 6, [17] = 0.25f, [29] = -7 };

static void declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_param **w = cs_unit_self(unit, sizeof *w);
    *w = cs_unit_param(unit, "w", ROWS, COLUMNS, (cs_init){ CS_ZEROS, 0 });
    (*w)->initial = first;
    (*w)->argument = table;
}

/* The loss of a row is the squared length of x W. */
static void forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_param **w = cs_unit_self(unit, sizeof *w);
    cs_tensor h = cs_pass_make(pass, CS_F32, cs_rows(x), COLUMNS), none = { 0 };
    cs_op_matmul(cs_pass_stream(pass), h, x, (*w)->value, none, CS_IN_OUT);
    for (int64_t r = 0; r < cs_rows(x) && !cs_pass_measuring(pass); r++) {
        const float *row = (const float *)h.data + r * COLUMNS;
        ((float *)y.data)[r] = 0;
        for (int c = 0; c < COLUMNS; c++)
            ((float *)y.data)[r] += row[c] * row[c];
    }
    cs_pass_keep(pass, h);
    cs_pass_keep(pass, x);
}

static void backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    cs_param **w = cs_unit_self(unit, sizeof *w);
    cs_tensor x = cs_pass_take(pass), h = cs_pass_take(pass), none = { 0 };
    (void)dx;
    for (int64_t r = 0; r < cs_rows(x) && !cs_pass_measuring(pass); r++)
        for (int c = 0; c < COLUMNS; c++)
            ((float *)h.data)[r * COLUMNS + c] *= 2 * ((const float *)dy.data)[r];
    cs_op_matmul_grad_weight(cs_pass_stream(pass), (*w)->grad, none, x, h, CS_IN_OUT);
}

static cs_engine *open_own(int world, int stage)
{
    static const cs_kind kind = { "own", declare, forward, backward, NULL };
    run_spec spec = spec_of(world, stage, 1, "fp32");
    cs_model *model;
    CS_MUST(cs_model_new(&model, ROWS));
    cs_model_floats(model, ROWS, 1);
    cs_model_add(model, &kind, "own", NULL);
    return run_open(&spec, model);
}

/* Returns true if the parameter is the table times `factor`. */
static bool is_table(cs_engine *engine, float factor)
{
    float got[ROWS * COLUMNS];
    CS_MUST(cs_param_read(engine, "own.w", got));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (got[i] != factor * table[i])
            return false;
    return true;
}

static int save(void *argument)
{
    float twice[ROWS * COLUMNS];
    (void)argument;
    cs_engine *engine = open_own(3, 3);
    bool right = is_table(engine, 1);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        twice[i] = 2 * table[i];
    CS_MUST(cs_param_write(engine, "own.w", twice));
    CS_MUST(cs_save_checkpoint(engine, "saved", NULL, NULL));
    CS_MUST(cs_export(engine, "saved", NULL, "exported"));
    cs_destroy(engine);
    return !right;
}

static int load(void *argument)
{
    (void)argument;
    cs_engine *engine = open_own(2, 1);
    bool right = is_table(engine, 1);
    CS_MUST(cs_load_weights(engine, "exported"));
    right = right && is_table(engine, 2);
    right = right && cs_load_weights(engine, "saved") == CS_NOT_FOUND && strstr(cs_error(), "no weights");
    cs_destroy(engine);
    return !right;
}

START_TEST(weights_of_an_own_model_come_back)
{
    shell_enter();
    run_ranks(3, save, NULL);
    ck_assert_int_eq(shell_run("ls exported | tr '\\n' ' '"), 0);
    ck_assert(shell_says("ds_config.json model.safetensors"));
    run_ranks(2, load, NULL);
    shell_leave();
}
END_TEST

START_TEST(mistakes_are_named)
{
    float values[ROWS * COLUMNS];
    cs_engine *engine = open_own(1, 0);
    ck_assert_int_eq(cs_param_read(engine, "own.v", values), CS_NOT_FOUND);
    ck_assert(strstr(cs_error(), "the most similar name is own.w") != NULL);
    ck_assert_int_eq(cs_param_write(engine, "w", values), CS_NOT_FOUND);
    ck_assert_int_eq(cs_load_weights(engine, "nowhere"), CS_NOT_FOUND);
    cs_destroy(engine);
}
END_TEST

SUITE_MAIN("values", values_do_not_depend_on_the_layout, loss_scale_and_clipping_do_not_change_gradients,
           weights_of_an_own_model_come_back, mistakes_are_named)
