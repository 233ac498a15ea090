/* test_evaluate.c - evaluation and prediction: the same bits at every world size; padding is not counted; evaluation
 * does not change the training. */
#include "suite.h"
#include "near.h"
#include "runs.h"
#include "shell.h"
#include "core/engine.h"
#include "data/tokens.h"

#include <math.h>
#include <string.h>

enum { WINDOWS = 11, STEPS = 6, MAX_WORLD = 3, RANKS = 4 };

static const char *const valid = "cspeed.data.valid=[\"valid.bin\"]";

static void enter_with_tokens(void)
{
    ce_tokens_writer *writer = NULL;
    shell_enter();
    CS_MUST(ce_tokens_create(&writer, "valid.bin", RUN_VOCABULARY));
    for (int32_t i = 0; i < WINDOWS * RUN_LENGTH + 1; i++) {
        int32_t token = (i * i + i / 5) % RUN_VOCABULARY;
        CS_MUST(ce_tokens_append_masked(writer, &token, NULL, 1));
    }
    CS_MUST(ce_tokens_finish(writer));
}

/* ---- evaluation ---- */

typedef struct {
    run_spec spec;
    int64_t batches;
    double loss[RANKS];
    int64_t agreed[RANKS], windows;
    double flops[RANKS]; /* floating-point operations of the evaluation, by rank */
} evaluation;

static const char *where = "cspeed.eval_on=all", *transport = "cspeed.comm=auto", *groups;
static double flops[RANKS]; /* floating-point operations of the last evaluation, by rank */

static int evaluate(void *argument)
{
    evaluation *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    cs_data *data = NULL;
    int rank = cs_rank(engine);
    CS_MUST(cs_data_open(&data, engine, "valid"));
    double before = ce_device_flops(engine->device);
    CS_MUST(cs_evaluate(engine, data, job->batches, &job->loss[rank]));
    job->flops[rank] = ce_device_flops(engine->device) - before;
    job->agreed[rank] = cs_agree(engine, (int64_t)5000000000 + rank);
    job->windows = cs_data_windows(data);
    cs_data_close(data);
    cs_destroy(engine);
    return 0;
}

static double evaluated(int world, int stage, int micro, const char *precision, int64_t batches)
{
    evaluation *job = run_share(sizeof *job);
    job->batches = batches;
    job->spec = (run_spec){ .world = world,
                            .stage = stage,
                            .micro = micro,
                            .steps = 1,
                            .precision = precision,
                            .dropout = 0.2,
                            .prefetch = 1,
                            .set = { valid, where, transport, groups } };
    run_ranks(world, evaluate, job);
    ck_assert_int_eq(job->windows, WINDOWS);
    for (int rank = 0; rank < world; rank++) {
        ck_assert_msg(job->loss[rank] == job->loss[0], "rank %d of %d has another loss", rank, world);
        ck_assert_int_eq(job->agreed[rank], 5000000000);
    }
    double loss = job->loss[0];
    memcpy(flops, job->flops, sizeof flops);
    ck_assert(isfinite(loss) && loss > 3 && loss < 6); /* before training the loss is about log(61), for 61 classes */
    run_unshare(job, sizeof *job);
    return loss;
}

/* 11 windows are five and a half micro-batches of 2, distributed over 1, 2 and 3 ranks. In each round a rank evaluates
 * one micro-batch; with 5 micro-batches, some ranks have no micro-batch in the last round. */
START_TEST(every_world_evaluates_to_the_same_bits)
{
    enter_with_tokens();
    for (int64_t batches = 0; batches <= 5; batches += 5)
        for (int half = 0; half < 2; half++) {
            const char *precision = half ? "bf16" : "fp32";
            double alone = evaluated(1, 0, 2, precision, batches);
            for (int world = 2; world <= MAX_WORLD; world++)
                for (int stage = 0; stage <= 3; stage += 3) {
                    double loss = evaluated(world, stage, 2, precision, batches);
                    ck_assert_msg(loss == alone, "%s, world %d, stage %d, %d batches: %.17g, not %.17g", precision,
                                  world, stage, (int)batches, loss, alone);
                }
        }
    shell_leave();
}
END_TEST

/* cspeed.eval_on "rank0": the other ranks compute nothing, except where rank 0 needs their parts of the parameters. */
START_TEST(rank_0_may_evaluate_alone)
{
    enter_with_tokens();
    double alone = evaluated(1, 0, 2, "fp32", 5);
    where = "cspeed.eval_on=rank0";
    for (int world = 2; world <= MAX_WORLD; world++)
        for (int row = 0; row < 3; row++) {
            transport = row == 2 ? "cspeed.comm=tcp" : "cspeed.comm=shm";
            ck_assert(evaluated(world, row == 0 ? 1 : 3, 2, "fp32", 5) == alone);
            ck_assert(flops[0] > 0 && (flops[world - 1] > 0) == (row == 2));
        }
    groups = "zero_optimization.mics_shard_size=2"; /* ranks 2 and 3 hold no part that rank 0 needs */
    ck_assert(evaluated(4, 3, 2, "fp32", 5) == alone);
    ck_assert(flops[0] > 0 && flops[1] > 0 && flops[2] <= 0 && flops[3] <= 0);
    where = "cspeed.eval_on=all";
    ck_assert(evaluated(4, 3, 2, "fp32", 5) == alone);
    groups = NULL;
    transport = "cspeed.comm=auto";
    shell_leave();
}
END_TEST

/* Evaluations of the same windows have the same mean with and without padding. Micro-batches of one window need no
 * padding. An evaluation of fewer windows has another mean. */
START_TEST(padding_does_not_count)
{
    enter_with_tokens();
    double single = evaluated(1, 0, 1, "fp32", 0);
    ck_assert_double_eq_tol(evaluated(1, 0, 2, "fp32", 0), single, 1e-6);
    ck_assert_double_eq_tol(evaluated(3, 3, 2, "fp32", 0), single, 1e-6);
    ck_assert_double_eq_tol(evaluated(2, 2, 8, "fp32", 0), single, 1e-6);
    ck_assert_double_eq_tol(evaluated(2, 2, 2, "fp32", 3), evaluated(1, 0, 1, "fp32", 6), 1e-6);
    ck_assert(fabs(evaluated(2, 2, 2, "fp32", 3) - single) > 1e-4);
    shell_leave();
}
END_TEST

/* ---- evaluation during training ---- */

typedef struct {
    run_spec spec;
    bool looks;
    double loss[STEPS], norm[STEPS];
    uint32_t masters[MAX_WORLD];
} training;

/* Evaluates also between the micro-batches of a step. */
static int train(void *argument)
{
    training *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    cs_data *data = NULL;
    double ignored;
    CS_MUST(cs_data_open(&data, engine, "valid"));
    for (int step = 0; step < STEPS; step++) {
        for (int micro = 0; micro < job->spec.accumulation; micro++) {
            if (job->looks) {
                cs_batch batch = run_batch(engine, &job->spec, micro);
                cs_tensor output;
                CS_MUST(cs_evaluate(engine, data, step % 3, &ignored));
                CS_MUST(cs_predict(engine, &batch, &output));
            }
            cs_batch batch = run_batch(engine, &job->spec, micro);
            cs_forward(engine, &batch);
            cs_backward(engine);
            cs_step(engine);
        }
        job->loss[step] = cs_last_step(engine).loss;
        job->norm[step] = cs_last_step(engine).grad_norm;
    }
    job->masters[cs_rank(engine)] = run_masters(engine);
    cs_data_close(data);
    cs_destroy(engine);
    return 0;
}

START_TEST(training_does_not_notice)
{
    enter_with_tokens();
    training *without = run_share(sizeof *without), *with = run_share(sizeof *with);
    for (int stage = 0; stage <= 3; stage++) {
        without->spec = (run_spec){ .world = 2,
                                    .stage = stage,
                                    .steps = STEPS,
                                    .accumulation = 2,
                                    .precision = "bf16",
                                    .dropout = 0.1,
                                    .prefetch = 1,
                                    .recompute = stage % 2 ? "unit" : "none",
                                    .set = { valid } };
        with->spec = without->spec;
        with->looks = true;
        run_ranks(2, train, without);
        run_ranks(2, train, with);
        for (int step = 0; step < STEPS; step++) {
            ck_assert_msg(with->loss[step] == without->loss[step], "stage %d, step %d: another loss", stage, step);
            ck_assert_msg(with->norm[step] == without->norm[step], "stage %d, step %d: another norm", stage, step);
        }
        ck_assert_mem_eq(with->masters, without->masters, sizeof with->masters);
        ck_assert_double_lt(with->loss[STEPS - 1], with->loss[0]);
    }
    run_unshare(without, sizeof *without);
    run_unshare(with, sizeof *with);
    shell_leave();
}
END_TEST

/* ---- prediction ---- */

enum { LOGITS = 2 * RUN_LENGTH * RUN_VOCABULARY };

typedef struct {
    run_spec spec;
    int64_t rows, columns;
    float logits[MAX_WORLD][LOGITS];
} prediction;

static int predict(void *argument)
{
    prediction *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    int32_t tokens[2 * RUN_LENGTH];
    cs_tensor output;
    for (int i = 0; i < 2 * RUN_LENGTH; i++)
        tokens[i] = i * 17 % RUN_VOCABULARY;
    cs_batch batch = { .inputs = cs_matrix(tokens, CS_I32, 2, RUN_LENGTH) };
    CS_MUST(cs_predict(engine, &batch, &output));
    job->rows = cs_rows(output);
    job->columns = cs_columns(output);
    for (int64_t i = 0; i < cs_count(output) && i < LOGITS; i++)
        job->logits[cs_rank(engine)][i] = cs_element(output, i);
    cs_destroy(engine);
    return 0;
}

START_TEST(every_world_predicts_the_same_bits)
{
    prediction *alone = run_share(sizeof *alone), *job = run_share(sizeof *job);
    alone->spec = (run_spec){ .world = 1, .steps = 1, .precision = "fp32", .dropout = 0.2 };
    run_ranks(1, predict, alone);
    ck_assert_int_eq(alone->rows, 2 * RUN_LENGTH);
    ck_assert_int_eq(alone->columns, RUN_VOCABULARY);
    ck_assert(alone->logits[0][0] != alone->logits[0][LOGITS - 1]);
    for (int world = 2; world <= MAX_WORLD; world++)
        for (int stage = 0; stage <= 3; stage++) {
            memset(job, 0, sizeof *job);
            job->spec = alone->spec;
            job->spec.world = world;
            job->spec.stage = stage;
            run_ranks(world, predict, job);
            for (int rank = 0; rank < world; rank++)
                ck_assert_mem_eq(job->logits[rank], alone->logits[0], sizeof alone->logits[0]);
        }
    run_unshare(alone, sizeof *alone);
    run_unshare(job, sizeof *job);
}
END_TEST

/* Returns the mean cross-entropy of logits in double precision. */
static double loss_of(cs_tensor logits, cs_tensor targets)
{
    const float *row = logits.data;
    double loss = 0;
    for (int64_t r = 0; r < cs_rows(logits); r++, row += cs_columns(logits)) {
        double sum = 0;
        for (int64_t v = 0; v < cs_columns(logits); v++)
            sum += exp((double)row[v]);
        loss += log(sum) - (double)row[((const int32_t *)targets.data)[r]];
    }
    return loss / (double)cs_rows(logits);
}

/* A CPU computes the loss of this vocabulary in chunks of 64 rows, and a step's memory has no room for all logits: the
 * first prediction allocates memory of its own. */
START_TEST(a_prediction_has_memory_of_its_own)
{
    run_spec spec = { .world = 1,
                      .steps = 1,
                      .micro = 12,
                      .precision = "fp32",
                      .recompute = "unit",
                      .set = { "cspeed.model.vocab_size=131072" } };
    if (strcmp(near_device(), "cpu") != 0)
        return;
    cs_engine *engine = run_open(&spec, NULL);
    cs_batch batch = run_batch(engine, &spec, 0);
    size_t before = ce_device_allocated(engine->device), workspace = ce_device_workspace(engine->device);
    cs_tensor output;
    CS_MUST(cs_predict(engine, &batch, &output));
    size_t after = ce_device_allocated(engine->device) + workspace - ce_device_workspace(engine->device);
    ck_assert_uint_ge(cs_memory_of(engine).prediction, 144 * 131072 * sizeof(float));
    ck_assert_uint_eq(after - before, cs_memory_of(engine).prediction);
    double loss = loss_of(output, batch.targets);
    run_step(engine, &spec);
    ck_assert_msg(fabs(cs_last_step(engine).loss - loss) <= 1e-6 * loss, "the logits' loss is %.9g, the step's %.9g",
                  loss, cs_last_step(engine).loss);
    CS_MUST(cs_predict(engine, &batch, &output));
    ck_assert(loss_of(output, batch.targets) < loss);
    cs_destroy(engine);
}
END_TEST

SUITE_MAIN("evaluate", every_world_evaluates_to_the_same_bits, rank_0_may_evaluate_alone, padding_does_not_count,
           training_does_not_notice, every_world_predicts_the_same_bits, a_prediction_has_memory_of_its_own)
