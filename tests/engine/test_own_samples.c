/* test_own_samples.c - cs_data_from: a program's own samples, for a model of numbers and a model of tokens. An evaluation
 * counts each sample once, whatever the number of ranks and the size of the last batch; an epoch has each sample once; a
 * resumed training continues with the next sample. */
#include "cspeed/layer.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include <math.h>
#include <string.h>

enum { COUNT = 13, INPUTS = 3, TARGETS = 2, STEPS = 6, READ = 256 };

/* ---- a linear regression ---- */

static void declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_linear_declare(cs_unit_self(unit, sizeof(cs_linear)), unit, "linear", INPUTS, TARGETS, (cs_init){ CS_NORMAL, 1 },
                      CS_IN_OUT, CS_BIAS);
}

static void forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_tensor guess = cs_linear_forward(cs_unit_self(unit, sizeof(cs_linear)), pass, x);
    cs_op_squared_error(cs_pass_stream(pass), y, guess, cs_pass_targets(pass));
    cs_pass_keep(pass, guess);
}

static void backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    cs_tensor guess = cs_pass_take(pass), dguess = cs_pass_like(pass, guess);
    (void)dx;
    cs_op_squared_error_grad(cs_pass_stream(pass), dguess, dy, guess, cs_pass_targets(pass));
    cs_linear_backward_weights(cs_unit_self(unit, sizeof(cs_linear)), pass, dguess);
}

static float input_at(int64_t sample, int64_t column)
{
    return (float)((7 * sample + 3 * column) % 11) / 5 - 1;
}

static float target_at(int64_t sample, int64_t column)
{
    return (float)((5 * sample + column) % 7) / 3;
}

/* What the ranks have read, in order, and what they computed. */
typedef struct {
    int64_t sample[READ];
    int count;
    double loss, wanted, rows;
} seen;

static void read_numbers(void *argument, int64_t index, void *inputs, void *targets)
{
    seen *out = argument;
    for (int c = 0; c < INPUTS; c++)
        ((float *)inputs)[c] = input_at(index, c);
    for (int c = 0; c < TARGETS; c++)
        ((float *)targets)[c] = target_at(index, c);
    if (out->count < READ)
        out->sample[out->count++] = index;
}

typedef struct {
    int world, steps;
    const char *load, *save;
    seen *out;
} order;

static run_spec spec_of(const order *job)
{
    return (run_spec){ .world = job->world,
                       .stage = 2,
                       .steps = STEPS,
                       .micro = 6 / job->world,
                       .accumulation = 1,
                       .precision = "fp32",
                       .recompute = "none",
                       .prefetch = 1 };
}

static cs_model *regression(void)
{
    static const cs_kind kind = { "regression", declare, forward, backward, NULL };
    cs_model *model;
    CS_MUST(cs_model_new(&model, 1));
    cs_model_floats(model, INPUTS, TARGETS);
    cs_model_add(model, &kind, "only", NULL);
    return model;
}

/* Computes the mean loss of all samples in double precision. */
static double mean_loss(cs_engine *engine)
{
    float weight[INPUTS * TARGETS], bias[TARGETS];
    double sum = 0;
    CS_MUST(cs_param_read(engine, "only.linear.weight", weight));
    CS_MUST(cs_param_read(engine, "only.linear.bias", bias));
    for (int64_t s = 0; s < COUNT; s++)
        for (int c = 0; c < TARGETS; c++) {
            double guess = bias[c];
            for (int i = 0; i < INPUTS; i++)
                guess += (double)input_at(s, i) * weight[i * TARGETS + c];
            sum += pow(guess - target_at(s, c), 2) / TARGETS;
        }
    return sum / COUNT;
}

/* Returns the sum of the losses of six samples, which the ranks compute together. */
static double row_losses(cs_engine *engine, cs_data *data)
{
    float losses[6];
    double sum = 0;
    cs_batch batch = cs_data_next(data);
    CS_MUST(cs_losses(engine, &batch, losses));
    for (int64_t b = 0; b < batch.inputs.shape[0]; b++)
        sum += losses[b];
    return sum;
}

static int run_numbers(void *argument)
{
    const order *job = argument;
    run_spec spec = spec_of(job);
    cs_engine *engine = run_open(&spec, regression());
    seen *out = &job->out[cs_rank(engine)], ignored = { 0 };
    cs_data *train, *valid;
    cs_samples samples = { .count = COUNT, .read = read_numbers, .argument = out, .train = true, .shuffle = true };
    CS_MUST(cs_data_from(&train, engine, &samples));
    CS_MUST(cs_data_from(&valid, engine, &(cs_samples){ .count = COUNT, .read = read_numbers, .argument = &ignored }));
    if (job->load)
        CS_MUST(cs_load_checkpoint(engine, job->load, NULL, NULL, NULL));
    for (int i = 0; i < job->steps; i++) {
        cs_batch batch = cs_data_next(train);
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
    }
    CS_MUST(cs_evaluate(engine, valid, 0, &out->loss));
    out->rows = row_losses(engine, valid);
    out->wanted = mean_loss(engine);
    if (job->save)
        CS_MUST(cs_save_checkpoint(engine, job->save, NULL, NULL));
    cs_data_close(train);
    cs_data_close(valid);
    cs_destroy(engine);
    return 0;
}

static seen *run(order job, int (*how)(void *))
{
    job.out = run_share((size_t)job.world * sizeof(seen));
    run_ranks(job.world, how, &job);
    return job.out;
}

/* Joins what the ranks of a run have read: the samples of each step, rank after rank. */
static int joined(int64_t *all, const seen *out, int world, int steps)
{
    int micro = 6 / world, count = 0;
    for (int step = 0; step < steps; step++)
        for (int rank = 0; rank < world; rank++)
            for (int b = 0; b < micro; b++)
                all[count++] = out[rank].sample[step * micro + b];
    return count;
}

START_TEST(numbers_are_read_and_evaluated_once)
{
    int64_t all[3][READ];
    double loss[3], rows[3];
    shell_enter();
    for (int world = 1; world <= 3; world++) {
        seen *out = run((order){ .world = world, .steps = STEPS, .save = world == 2 ? "saved" : NULL }, run_numbers);
        ck_assert_int_eq(joined(all[world - 1], out, world, STEPS), 6 * STEPS);
        loss[world - 1] = out->loss;
        ck_assert_msg(fabs(out->loss - out->wanted) <= 1e-6 * out->wanted, "loss %.9g, not %.9g", out->loss,
                      out->wanted);
        rows[world - 1] = 0;
        for (int rank = 0; rank < world; rank++)
            rows[world - 1] += out[rank].rows;
        run_unshare(out, (size_t)world * sizeof *out);
    }
    ck_assert(rows[0] > 0 && fabs(rows[1] - rows[0]) <= 1e-6 * rows[0] && fabs(rows[2] - rows[0]) <= 1e-6 * rows[0]);
    for (int i = 1; i < 3; i++)
        ck_assert(memcmp(all[0], all[i], 6 * STEPS * sizeof **all) == 0 && fabs(loss[i] - loss[0]) <= 1e-6 * loss[0]);
    bool moved = false;
    for (int epoch = 0; epoch < 2; epoch++) {
        int found[COUNT] = { 0 };
        for (int i = 0; i < COUNT; i++) {
            found[all[0][epoch * COUNT + i]]++;
            moved = moved || all[0][epoch * COUNT + i] != i;
        }
        for (int i = 0; i < COUNT; i++)
            ck_assert_int_eq(found[i], 1);
    }
    ck_assert(moved);
    seen *more = run((order){ .world = 3, .steps = 2, .load = "saved" }, run_numbers);
    seen *whole = run((order){ .world = 1, .steps = STEPS + 2 }, run_numbers);
    joined(all[1], more, 3, 2);
    joined(all[2], whole, 1, STEPS + 2);
    ck_assert(memcmp(all[1], all[2] + 6 * STEPS, 12 * sizeof **all) == 0);
    ck_assert_msg(fabs(more->loss - whole->loss) <= 1e-6 * whole->loss, "%.9g, not %.9g", more->loss, whole->loss);
    run_unshare(more, 3 * sizeof *more);
    run_unshare(whole, sizeof *whole);
    shell_leave();
}
END_TEST

/* ---- tokens ---- */

static void read_tokens(void *argument, int64_t index, void *inputs, void *targets)
{
    (void)argument;
    for (int t = 0; t < RUN_LENGTH; t++) {
        ((int32_t *)inputs)[t] = (int32_t)((index * 5 + t * 3) % RUN_VOCABULARY);
        ((int32_t *)targets)[t] = t % 3 == 0 ? -1 : (int32_t)((index * 5 + t * 3 + 3) % RUN_VOCABULARY);
    }
}

static int run_tokens(void *argument)
{
    const order *job = argument;
    run_spec spec = spec_of(job);
    cs_engine *engine = run_open(&spec, NULL);
    cs_data *data;
    cs_scores scores;
    CS_MUST(cs_data_from(&data, engine, &(cs_samples){ .count = COUNT, .read = read_tokens }));
    CS_MUST(cs_score(engine, data, 0, &scores));
    job->out[cs_rank(engine)].loss = scores.loss;
    job->out[cs_rank(engine)].count = (int)scores.tokens;
    cs_data_close(data);
    bool refused = cs_data_from(&data, engine, &(cs_samples){ .count = 0, .read = read_tokens }) == CS_MISUSE;
    cs_destroy(engine);
    return !refused;
}

START_TEST(tokens_are_scored)
{
    double first = 0;
    for (int world = 1; world <= 3; world++) {
        seen *out = run((order){ .world = world }, run_tokens);
        first = world == 1 ? out->loss : first;
        ck_assert_int_eq(out->count, COUNT * RUN_LENGTH * 2 / 3);
        ck_assert_msg(out->loss == first, "world %d: loss %.9g, not %.9g", world, out->loss, first);
        run_unshare(out, (size_t)world * sizeof *out);
    }
}
END_TEST

SUITE_MAIN("own_samples", numbers_are_read_and_evaluated_once, tokens_are_scored)
