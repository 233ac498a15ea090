/* test_masked.c - a step in which no row has a target: parameters, optimizer state, schedule and loss scale do not
 * change, and the next step continues as if the step without targets had not happened. Also cs_score without any
 * target. */
#include "suite.h"
#include "runs.h"
#include "shell.h"
#include "core/engine.h"
#include "data/tokens.h"

#include <math.h>

enum { STEPS = 5, EMPTY = 3, MAX_WORLD = 3 };

typedef struct {
    cs_metrics metrics;
    uint32_t masters, slots;
    double scale;
} seen;

typedef struct {
    run_spec spec;
    seen of[MAX_WORLD][STEPS];
} run;

static void hide(cs_batch *batch)
{
    int32_t *target = batch->targets.data;
    for (int64_t i = 0; i < cs_count(batch->targets); i++)
        target[i] = -1;
}

static int train(void *argument)
{
    run *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    for (int step = 0; step < STEPS; step++) {
        for (int micro = 0; micro < job->spec.accumulation; micro++) {
            cs_batch batch = run_batch(engine, &job->spec, micro);
            if (step == EMPTY)
                hide(&batch);
            cs_forward(engine, &batch);
            cs_backward(engine);
            cs_step(engine);
        }
        job->of[cs_rank(engine)][step] =
            (seen){ cs_last_step(engine), run_masters(engine), run_slots(engine), engine->scaler.scale };
    }
    cs_destroy(engine);
    return 0;
}

static void check(const seen *of)
{
    for (int step = 0; step < STEPS; step++) {
        const cs_metrics *now = &of[step].metrics;
        ck_assert_int_eq(now->skipped, step >= EMPTY);
        ck_assert(step == EMPTY ? isnan(now->loss) : isfinite(now->loss) && now->loss > 0);
        if (step < 2) /* the first update has learning rate 0 */
            continue;
        const seen *before = &of[step - 1];
        ck_assert_int_eq(now->tokens > before->metrics.tokens, step != EMPTY);
        ck_assert_int_eq(of[step].masters != before->masters, step != EMPTY);
        ck_assert_int_eq(of[step].slots != before->slots, step != EMPTY);
    }
    ck_assert_double_eq(of[EMPTY].metrics.grad_norm, 0);
    ck_assert_double_eq(of[EMPTY].scale, of[EMPTY - 1].scale);
    ck_assert_double_eq(of[EMPTY + 1].metrics.learning_rate, of[EMPTY].metrics.learning_rate);
    ck_assert_double_gt(of[EMPTY].metrics.learning_rate, of[EMPTY - 1].metrics.learning_rate);
}

START_TEST(a_step_without_a_target_moves_nothing)
{
    static const char *const precisions[] = { "fp32", "bf16", "fp16" };
    static const char *const schedule =
        "\"scheduler\": { \"type\": \"WarmupLR\", \"params\": { \"warmup_max_lr\": 2e-3, \"warmup_num_steps\": 10,"
        " \"warmup_type\": \"linear\" } },";
    for (int world = 1; world <= MAX_WORLD; world++)
        for (int stage = world % 2; stage <= 3; stage += 2) {
            run *job = run_share(sizeof *job);
            job->spec = (run_spec){ .world = world,
                                    .stage = stage,
                                    .steps = STEPS,
                                    .accumulation = 2,
                                    .precision = precisions[(world + stage) % 3],
                                    .more = schedule,
                                    .set = { "fp16.initial_scale_power=8" } };
            run_ranks(world, train, job);
            for (int rank = 0; rank < world; rank++)
                check(job->of[rank]);
            run_unshare(job, sizeof *job);
        }
}
END_TEST

/* ---- evaluation ---- */

static int score(void *argument)
{
    cs_scores *scores = argument;
    run_spec spec = {
        .world = 2, .stage = 2, .steps = 1, .precision = "fp32", .set = { "cspeed.data.valid=[\"valid.bin\"]" }
    };
    cs_engine *engine = run_open(&spec, NULL);
    cs_data *data;
    CS_MUST(cs_data_open(&data, engine, "valid"));
    CS_MUST(cs_score(engine, data, 0, &scores[cs_rank(engine)]));
    cs_data_close(data);
    cs_destroy(engine);
    return 0;
}

START_TEST(a_score_of_nothing_is_none)
{
    enum { WINDOWS = 3 };
    const bool learnt = false;
    cs_scores *scores = run_share(2 * sizeof *scores);
    ce_tokens_writer *writer = NULL;
    shell_enter();
    CS_MUST(ce_tokens_create(&writer, "valid.bin", RUN_VOCABULARY));
    for (int32_t i = 0; i < WINDOWS * RUN_LENGTH + 1; i++)
        CS_MUST(ce_tokens_append_masked(writer, &i, &learnt, 1));
    CS_MUST(ce_tokens_finish(writer));
    run_ranks(2, score, scores);
    for (int rank = 0; rank < 2; rank++) {
        ck_assert(isnan(scores[rank].loss));
        ck_assert_int_eq(scores[rank].tokens, 0);
        ck_assert_int_eq(scores[rank].correct, 0);
    }
    run_unshare(scores, 2 * sizeof *scores);
    shell_leave();
}
END_TEST

SUITE_MAIN("masked", a_step_without_a_target_moves_nothing, a_score_of_nothing_is_none)
