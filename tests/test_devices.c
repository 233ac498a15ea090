/* test_devices.c - the engine on the emulated GPU: stages, runs and schedules of its streams give the same bits, its
 * losses are the CPU's within bounds, and what one device saves the other goes on from. */
#include "near.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 100, HALF = 50, SHORT = 3 };

/* ---- four ranks ---- */

static run_result short_run(int stage, const char *precision, const char *variable, const char *value)
{
    run_result result;
    run_spec   spec = { .world = 4, .stage = stage, .steps = SHORT, .micro = 1, .precision = precision, .prefetch = 1,
                        .recompute = stage % 2 ? "unit" : "none", .set = { "cspeed.device=cuda" } };
    if (variable)
        setenv(variable, value, 1);
    run_train(&spec, &result);
    if (variable)
        unsetenv(variable);
    return result;
}

static void same_bits(const run_result *a, const run_result *b, const char *what)
{
    for (int step = 0; step < SHORT; step++)
        ck_assert_msg(a->loss[step] == b->loss[step] && a->norm[step] == b->norm[step],
                      "%s, step %d: losses %.17g and %.17g, norms %.17g and %.17g", what, step + 1, a->loss[step],
                      b->loss[step], a->norm[step], b->norm[step]);
}

/* They share one GPU, so shm moves what they send each other. */
static void alike(const char *precision)
{
    run_result first = short_run(0, precision, NULL, NULL);
    ck_assert_double_lt(first.loss[SHORT - 1], first.loss[0]);
    for (int stage = 1; stage <= 3; stage++) {
        char       what[64];
        run_result other = short_run(stage, precision, NULL, NULL);
        snprintf(what, sizeof what, "%s, stages 0 and %d", precision, stage);
        same_bits(&first, &other, what);
    }
    run_result again    = short_run(3, precision, NULL, NULL);
    run_result eager    = short_run(3, precision, "CSPEED_EMULATOR_EAGER", "1");
    run_result reversed = short_run(3, precision, "CSPEED_EMULATOR_ORDER", "reverse");
    same_bits(&first, &again, "run to run");
    same_bits(&first, &eager, "streams that do not wait to be waited for");
    same_bits(&first, &reversed, "blocks and threads from the last to the first");
}

START_TEST(stages_and_runs_alike_in_fp32)
{
    if (near_emulated("alike in fp32"))
        alike("fp32");
}
END_TEST

START_TEST(stages_and_runs_alike_in_bf16)
{
    if (near_emulated("alike in bf16"))
        alike("bf16");
}
END_TEST

/* A GPU each: the ranks sum in another order. */
START_TEST(nccl_gives_the_same_but_for_rounding)
{
    if (!near_emulated("nccl"))
        return;
    run_result shared = short_run(2, "fp32", NULL, NULL), own = short_run(2, "fp32", "CSPEED_EMULATOR_DEVICES", "4");
    for (int step = 0; step < SHORT; step++)
        ck_assert_msg(fabs(shared.loss[step] - own.loss[step]) <= 1e-5 * shared.loss[step], "step %d: %.9g and %.9g",
                      step + 1, shared.loss[step], own.loss[step]);
}
END_TEST

/* ---- the CPU and the GPU ---- */

typedef struct {
    run_spec    spec;
    const char *from; /* folder of a checkpoint to go on from, or NULL */
    const char *to;   /* where the state of step HALF is saved, or NULL */
    double      loss[STEPS];
} journey;

static int travel(void *argument)
{
    journey   *j      = argument;
    cs_engine *engine = run_open(&j->spec, NULL);
    if (j->from)
        CS_MUST(cs_load_checkpoint(engine, j->from, "half", NULL, NULL));
    for (int64_t step = cs_last_step(engine).step; step < STEPS; step++) {
        run_step(engine, &j->spec);
        j->loss[step] = cs_last_step(engine).loss;
        if (step + 1 == HALF && j->to)
            CS_MUST(cs_save_checkpoint(engine, j->to, "half", NULL));
    }
    cs_destroy(engine);
    return 0;
}

static journey *go(const char *model, const char *precision, const char *device, const char *from, const char *to)
{
    journey *j = run_share(sizeof *j);
    j->from    = from;
    j->to      = to;
    j->spec    = (run_spec){ .world = 1, .stage = 2, .steps = STEPS, .micro = 1, .precision = precision,
                             .set = { model, device, "cspeed.save_interval=0", "optimizer.params.lr=5e-3" } };
    run_ranks(1, travel, j);
    return j;
}

static double apart(const journey *a, const journey *b, int first)
{
    double worst = 0;
    for (int step = first; step < STEPS; step++)
        worst = fmax(worst, fabs(a->loss[step] - b->loss[step]) / a->loss[step]);
    return worst;
}

/* Of ten losses. */
static double mean(const journey *j, int first)
{
    double sum = 0;
    for (int step = first; step < first + 10; step++)
        sum += j->loss[step];
    return sum / 10;
}

static void check_journeys(const char *name, const char *model, const char *precision, double bound)
{
    static const char *const cpu = "cspeed.device=cpu", *const cuda = "cspeed.device=cuda";
    shell_enter();
    journey *here = go(model, precision, cpu, NULL, "cpu"), *there = go(model, precision, cuda, NULL, "cuda"),
            *out = go(model, precision, cuda, "cpu", NULL), *back = go(model, precision, cpu, "cuda", NULL);
    double   gaps[] = { apart(here, there, 0), apart(here, out, HALF), apart(here, back, HALF) };
    printf("%s, %s: from the CPU's losses at most %.2g on the GPU, %.2g from the CPU's checkpoint on, and %.2g from "
           "the GPU's checkpoint on the CPU\n", name, precision, gaps[0], gaps[1], gaps[2]);
    ck_assert_double_lt(mean(there, STEPS - 10), 0.98 * mean(there, 0));
    ck_assert(memcmp(here->loss, there->loss, sizeof here->loss) != 0); /* else it was the same device */
    for (int i = 0; i < 3; i++)
        ck_assert_msg(gaps[i] <= bound, "%s, %s: losses %.3g apart", name, precision, gaps[i]);
    journey *all[] = { here, there, out, back };
    for (int i = 0; i < 4; i++)
        run_unshare(all[i], sizeof *all[i]);
    shell_leave();
}

#define GPT2                                                                                                           \
    "cspeed.model={\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 16, "      \
    "\"n_positions\": 16, \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0, \"initializer_range\": 0.1}"
#define LLAMA                                                                                                          \
    "cspeed.model={\"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 16, \"intermediate_size\": 24, "    \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "                               \
    "\"max_position_embeddings\": 16, \"initializer_range\": 0.1}"

START_TEST(losses_are_the_cpus)
{
    if (!near_emulated("losses"))
        return;
    check_journeys("GPT-2", GPT2, "fp32", 1e-5);
    check_journeys("GPT-2", GPT2, "bf16", 2e-2);
    check_journeys("Llama", LLAMA, "fp32", 1e-5);
    check_journeys("Llama", LLAMA, "bf16", 2e-2);
}
END_TEST

SUITE_MAIN("devices", stages_and_runs_alike_in_fp32, stages_and_runs_alike_in_bf16,
           nccl_gives_the_same_but_for_rounding, losses_are_the_cpus)
