/* test_finite.c - training in which losses, gradients or parameters become NaN or infinite: the run prints a message,
 * keeps the good checkpoints, and ends. */
#include "pieces.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"
#include "data/tokens.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the program, from the command line ---- */

static const char *const config_text =
    "{ \"train_batch_size\": 4, \"train_micro_batch_size_per_gpu\": 2,\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-3 } },\n"
    "  \"cspeed\": { \"steps\": 40, \"output\": \"out\", \"save_interval\": 2, \"keep_last\": 2,\n"
    "    \"data\": { \"train\": \"text.txt\", \"seq_len\": 16 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 16, \"n_positions\": 16,\n"
    "               \"vocab_size\": 256 } } }\n";

static void prepare(void)
{
    char text[4096];
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = "the quick brown fox jumps over the lazy dog\n"[i * i % 44];
    text[sizeof text - 1] = 0;
    shell_enter();
    shell_write("text.txt", text);
    shell_write("config.json", config_text);
}

static char *train(int code, int ranks, const char *options)
{
    int got = shell_run("OMP_NUM_THREADS=1 %s/cspeed --num_gpus %d --oversubscribe --max_restarts 2 --restart_delay "
                        "0.1 train --config config.json %s",
                        CS_BIN, ranks, options);
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(got == code, "%s: exit code %d, not %d; it printed:\n%.3000s", options, got, code, out);
    return out;
}

static void check_latest(const char *name)
{
    char *latest = shell_read("out/latest", NULL);
    latest[strcspn(latest, "\n")] = 0;
    ck_assert_str_eq(latest, name);
    free(latest);
}

#define FP32 "--set zero_optimization.stage=0 "
#define BF16 "--set 'bf16={\"enabled\": true}' --set zero_optimization.stage=2 "
#define FP16 "--set 'fp16={\"enabled\": true, \"loss_scale\": 16}' --set zero_optimization.stage=1 "
#define STEEP "--set optimizer.params.lr=1e30 "
#define FIRST " is not finite is transformer.wte.weight"
#define IN_ROW "were not finite in 10 steps in a row, the first of them step "

/* Four good steps, then steps whose loss or gradients are not finite: the checkpoints of the good steps are kept, and
 * the launcher does not restart the job. */
START_TEST(a_run_that_is_not_finite_ends)
{
    static const struct {
        int ranks;
        const char *all, *bad; /* options of both runs; more options of the second run */
        /* Expected words: `first` occurs at least once in the output; `step` and `why` occur once. `step` is in the
         * message about the first step whose loss or gradients are not finite, `why` is in the last message. */
        const char *first, *step, *why;
    } cases[] = {
        { 1, FP32, STEEP, FIRST, "warning: step 6: the loss is nan", IN_ROW "6 " },
        { 2, "--set zero_optimization.stage=3 --set cspeed.async_save=true ", STEEP, FIRST,
          "warning: step 6: the loss is nan", IN_ROW "6 " },
        { 2, BF16, STEEP, FIRST, "warning: step 6: the loss is nan", IN_ROW "6 " },
        { 1, BF16 "--set bf16.check_grad_overflow=false ", STEEP, FIRST, "warning: step 6: the loss is nan",
          IN_ROW "6 " },
        { 1, FP16, "--set fp16.loss_scale=1e12 ", FIRST, "warning: step 5: the loss is 5.", IN_ROW "5 " },
        { 2, "--set 'fp16={\"enabled\": true}' ", STEEP, FIRST, "warning: step 6: the loss is nan", IN_ROW "6 " },
        { 2, FP16 "--set fp16.hysteresis=1 ",
          "--set fp16.loss_scale=0 --set fp16.initial_scale_power=40 --set fp16.min_loss_scale=549755813888 ",
          "OVERFLOW! Rank 0 Skipping step.", "Attempted loss scale: 1099511627776",
          "cspeed: gradients overflow at the smallest loss scale" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char both[1024];
        prepare();
        snprintf(both, sizeof both, "%s--steps 4", cases[i].all);
        free(train(0, cases[i].ranks, both));
        snprintf(both, sizeof both, "%s%s", cases[i].all, cases[i].bad);
        char *out = train(1, cases[i].ranks, both);
        ck_assert_msg(shell_count_of(out, cases[i].first) >= 1 && shell_count_of(out, cases[i].step) == 1 &&
                          shell_count_of(out, cases[i].why) == 1,
                      "%.3000s", out);
        ck_assert_msg(shell_count_of(out, "its last checkpoint with finite values is global_step4 in out\n") == 1,
                      "%.3000s", out);
        ck_assert_msg(shell_count_of(out, "starts again") == 0, "%.3000s", out);
        check_latest("global_step4");
        ck_assert_int_eq(access("out/global_step2/manifest.json", F_OK), 0);
        free(out);
        shell_leave();
    }
}
END_TEST

#define O3 "--set 'amp={\"enabled\": true, \"opt_level\": \"O3\"}' "

/* Apex's O3 with AdamW's defaults: the second moment underflows in fp16. */
START_TEST(o3_does_not_end_in_silence)
{
    prepare();
    char *out = train(1, 1, O3 "--steps 200");
    /* A bad step is a step whose loss or gradients are not finite. Good steps may separate several sequences of bad
     * steps. Each sequence is reported by one message, and the end of the run by one more message. */
    int streaks = shell_count_of(out, "warning: step ");
    ck_assert_msg(streaks >= 1 && shell_count_of(out, "keep fp32 masters") == streaks + 1, "%.3000s", out);
    free(out);
    /* The run reaches its last step before nan_patience ends the run. The parameters are finite after the last step,
     * but the loss of a further step would not be finite. */
    out = train(0, 1, O3 "--steps 5 --fresh --set optimizer.params.lr=1000");
    ck_assert_msg(strstr(out, "train: the loss or the gradients of the last step, 5, are not finite") != NULL,
                  "%.3000s", out);
    free(out);
    shell_leave();
}
END_TEST

#define HALF "--set 'fp16={\"enabled\": true, \"fp16_master_weights_and_grads\": true}' "

/* The update of the last step makes parameters overflow in fp16, and no loss has been computed since: the save detects
 * it. */
START_TEST(what_is_not_finite_is_not_saved)
{
    prepare();
    free(train(0, 2, HALF "--steps 3 --set cspeed.save_interval=1"));
    for (int background = 0; background < 2; background++) {
        char options[256];
        snprintf(options, sizeof options, HALF STEEP "--set cspeed.async_save=%s --steps 4",
                 background ? "true" : "false");
        char *out = train(1, 2, options);
        ck_assert_msg(strstr(out, "cspeed: the checkpoint of step 4 was not saved: parameter transformer.") != NULL,
                      "%.3000s", out);
        ck_assert_msg(strstr(out, "; the last checkpoint with finite values is global_step3 in out") != NULL, "%.3000s",
                      out);
        ck_assert_msg(strstr(out, "starts again") == NULL, "%.3000s", out);
        check_latest("global_step3");
        ck_assert_int_eq(access("out/global_step2/manifest.json", F_OK), 0);
        ck_assert_int_ne(access("out/global_step4", F_OK), 0);
        free(out);
    }
    shell_leave();
}
END_TEST

/* nan_patience 0: the run continues to its last step and fails only when it cannot save. */
START_TEST(patience_may_be_endless_or_short)
{
    prepare();
    char *out = train(1, 1, STEEP "--steps 20 --set cspeed.nan_patience=0");
    ck_assert_msg(strstr(out, "\nstep 20/20 ") && strstr(out, "  loss nan"), "%.3000s", out);
    ck_assert_msg(shell_count_of(out, "train: no checkpoint of step 10: its loss or its gradients are not finite") == 1,
                  "%.3000s", out);
    ck_assert_msg(strstr(out, "such steps in a row") == NULL, "%.3000s", out);
    ck_assert_int_ne(access("out/latest", F_OK), 0);
    free(out);
    out = train(1, 1, STEEP "--steps 20 --set cspeed.nan_patience=2");
    ck_assert_msg(strstr(out, "in 2 steps in a row, the first of them step 2 ") != NULL, "%.3000s", out);
    ck_assert_msg(strstr(out, "the run ends here, and it has saved no checkpoint with finite values") != NULL,
                  "%.3000s", out);
    free(out);
    shell_leave();
}
END_TEST

/* Steps without a target, and steps whose gradients are all zero, end the run too. */
START_TEST(a_run_that_moves_nothing_ends)
{
    static const struct {
        const char *options, *why;
    } cases[] = {
        { "--set cspeed.data.train=masked.bin ",
          "cspeed: no sample had a target in 10 steps in a row, the first of them "
          "step 1 (cspeed.nan_patience)" },
        { FP16 "--set fp16.loss_scale=1e-12 --set fp16.min_loss_scale=1e-12 --set cspeed.nan_patience=3 ",
          "cspeed: all gradients were zero in 3 steps in a row, the first of them step 1 (cspeed.nan_patience)" },
    };
    const bool learnt = false;
    ce_tokens_writer *writer = NULL;
    prepare();
    CS_MUST(ce_tokens_create(&writer, "masked.bin", 256));
    for (int32_t i = 0; i < 257; i++)
        CS_MUST(ce_tokens_append_masked(writer, &(int32_t){ i % 256 }, &learnt, 1));
    CS_MUST(ce_tokens_finish(writer));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char both[1024];
        snprintf(both, sizeof both, "%s--fresh", cases[i].options);
        char *out = train(1, 2, both);
        ck_assert_msg(shell_count_of(out, cases[i].why) == 1, "%.3000s", out);
        ck_assert_msg(shell_count_of(out, "starts again") == 0, "%.3000s", out);
        free(out);
    }
    char *out = train(0, 1, "--set cspeed.data.train=masked.bin --fresh --steps 3");
    ck_assert_msg(strstr(out, "train: 3 of 3 steps were skipped") != NULL, "%.3000s", out);
    free(out);
    out = train(0, 1, "--set cspeed.data.train=masked.bin --fresh --set cspeed.nan_patience=0");
    ck_assert_msg(strstr(out, "train: 40 of 40 steps were skipped") != NULL, "%.3000s", out);
    free(out);
    shell_leave();
}
END_TEST

/* The loss of the first steps is about log(256) = 5.5. */
START_TEST(a_high_loss_ends_the_run)
{
    prepare();
    char *out = train(1, 2, "--fresh --set cspeed.loss_watchdog_threshold=1 --set cspeed.loss_watchdog_patience=4");
    ck_assert_msg(strstr(out, "cspeed: the loss was above 1 (cspeed.loss_watchdog_threshold) in 4 steps in a row, the "
                              "first of them step 1") != NULL,
                  "%.3000s", out);
    ck_assert_msg(shell_count_of(out, "starts again") == 0, "%.3000s", out);
    free(out);
    free(train(0, 1, "--fresh --steps 5 --set cspeed.loss_watchdog_threshold=9"));
    free(train(0, 1, "--fresh --steps 3 --set cspeed.loss_watchdog_threshold=1 --set cspeed.loss_watchdog_patience=4"));
    shell_leave();
}
END_TEST

/* ---- the engine: which step and which parameter ---- */

enum { WORLD = 2, STEPS = 5, POISONED = 2, UNIT = 2 };

typedef struct {
    run_spec spec;
    int64_t not_finite[STEPS];
    char name[128]; /* name of the parameter that was set to a bad value */
} job;

/* Sets an element of the last parameter in the last rank's part. All ranks call it; it returns the earlier value. */
static float poke(cs_engine *engine, float value, char *name)
{
    ce_shard_piece pieces[32];
    int count = pieces_take(engine, UNIT, pieces);
    float before = 0;
    if (count > 0 && cs_rank(engine) == WORLD - 1) {
        float *master = pieces[count - 1].master;
        before = *master;
        *master = value;
        strcpy(name, pieces[count - 1].entry->full_name);
    }
    pieces_put(engine, UNIT, pieces, count);
    return before;
}

static int run(void *argument)
{
    job *j = argument;
    cs_engine *engine = run_open(&j->spec, NULL);
    if (cs_rank(engine) == 0 && !freopen("said.txt", "w", stderr))
        return 1;
    for (int step = 0; step < STEPS; step++) {
        float before = step == POISONED ? poke(engine, INFINITY, j->name) : 0;
        run_step(engine, &j->spec);
        if (cs_rank(engine) == 0)
            j->not_finite[step] = cs_last_step(engine).not_finite;
        if (step == POISONED)
            poke(engine, before, j->name);
    }
    cs_destroy(engine);
    return 0;
}

START_TEST(the_step_and_the_parameter_are_named)
{
    for (int stage = 0; stage <= 3; stage++) {
        job *j = run_share(sizeof *j);
        j->spec = (run_spec){ .world = WORLD, .stage = stage, .steps = STEPS, .precision = "bf16", .prefetch = 1 };
        char wanted[256];
        shell_enter();
        run_ranks(WORLD, run, j);
        char *said = shell_read("said.txt", NULL);
        snprintf(wanted, sizeof wanted,
                 "warning: step %d: the loss is nan and the norm of the gradients is inf; the "
                 "first parameter whose value is not finite is %s;",
                 POISONED + 1, j->name);
        ck_assert_msg(shell_count_of(said, wanted) == 1 && shell_count_of(said, "warning: step ") == 1,
                      "stage %d: %s\nnot %s", stage, said, wanted);
        for (int step = 0; step < STEPS; step++)
            ck_assert_int_eq(j->not_finite[step], step == POISONED);
        free(said);
        shell_leave();
        run_unshare(j, sizeof *j);
    }
}
END_TEST

SUITE_MAIN("finite", a_run_that_is_not_finite_ends, o3_does_not_end_in_silence, what_is_not_finite_is_not_saved,
           patience_may_be_endless_or_short, a_run_that_moves_nothing_ends, a_high_loss_ends_the_run,
           the_step_and_the_parameter_are_named)
