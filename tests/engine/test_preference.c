/* test_preference.c - preference training: ten steps of a tiny Llama compared with TRL's DPOTrainer (golden/dpo.golden,
 * written by peers/dpo_same.py), and stages, chunks and precisions compared with each other. */
#include "suite.h"
#include "golden.h"
#include "near.h"
#include "pieces.h"
#include "runs.h"
#include "core/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 10, MICROS = 4, SEQUENCES = 4, LENGTH = 40, MAX_WORLD = 4 };

/* The trainings of the golden file, and their keys of cspeed.dpo. */
static const struct {
    const char *name, *keys;
} kinds[] = {
    { "sigmoid", "" },
    { "hinge", ", \"loss_type\": \"hinge\"" },
    { "ipo", ", \"loss_type\": \"ipo\"" },
    { "robust", ", \"loss_type\": \"robust\", \"label_smoothing\": 0.1" },
    { "exo_pair", ", \"loss_type\": \"exo_pair\", \"label_smoothing\": 1e-3" },
    { "nca_pair", ", \"loss_type\": \"nca_pair\"" },
    { "bco_pair", ", \"loss_type\": \"bco_pair\"" },
    { "sppo_hard", ", \"loss_type\": \"sppo_hard\"" },
    { "aot", ", \"loss_type\": \"aot\"" },
    { "aot_unpaired", ", \"loss_type\": \"aot_unpaired\", \"label_smoothing\": 0.1" },
    { "apo_zero", ", \"loss_type\": \"apo_zero\"" },
    { "apo_down", ", \"loss_type\": \"apo_down\"" },
    { "discopop", ", \"loss_type\": \"discopop\"" },
    { "sft", ", \"loss_type\": \"sft\"" },
    { "sigmoid_norm", ", \"loss_type\": \"sigmoid_norm\"" },
    { "list", ", \"loss_type\": [\"sigmoid\", \"bco_pair\", \"sft\"], \"loss_weights\": [0.8, 0.2, 1]" },
    { "ld_alpha", ", \"loss_type\": [\"sigmoid\", \"sft\"], \"ld_alpha\": 0.3" },
    { "forward_kl", ", \"f_divergence_type\": \"forward_kl\"" },
    { "js_divergence", ", \"f_divergence_type\": \"js_divergence\"" },
    { "alpha_divergence", ", \"loss_type\": [\"ipo\", \"hinge\"], \"f_divergence_type\": \"alpha_divergence\", "
                          "\"f_alpha_divergence_coef\": 0.7" },
    { "cpo", ", \"reference_free\": true, \"cpo_alpha\": 1, \"label_smoothing\": 0.1" },
    { "cpo_hinge", ", \"reference_free\": true, \"loss_type\": \"hinge\"" },
    { "cpo_ipo", ", \"reference_free\": true, \"loss_type\": \"ipo\"" },
    { "simpo", ", \"reference_free\": true, \"loss_type\": \"simpo\", \"cpo_alpha\": 0.5, \"simpo_gamma\": 0.3, "
               "\"label_smoothing\": 0.1" },
};
enum { KINDS = sizeof kinds / sizeof *kinds, FREE = KINDS - 4 }; /* from FREE on there is no reference model */

/* ---- ten steps, compared with TRL's ---- */

typedef struct {
    int world, stage, kind, micros; /* `micros`: micro-batches of a step, over all ranks */
    const char *precision, *recompute;
    cs_metrics step[STEPS];
} run;

static golden *file;

static const float *value_of(const ce_unit_entry *of, const void *unused)
{
    char name[256];
    (void)unused;
    snprintf(name, sizeof name, "first.%s", of->full_name);
    cs_tensor value = golden_tensor(file, name);
    ck_assert_int_eq(cs_count(value), of->count);
    return value.data;
}

static cs_engine *open_engine(const run *of)
{
    char path[] = "/tmp/cspeed-preference-XXXXXX", text[4096] = "";
    cs_tensor letters = golden_tensor(file, "config");
    FILE *out = fdopen(mkstemp(path), "w");
    bool half = strcmp(of->precision, "fp32") != 0;
    cs_config *config;
    cs_engine *engine;
    ck_assert_int_lt(cs_count(letters), (int)sizeof text);
    for (int64_t i = 0; i < cs_count(letters); i++)
        text[i] = (char)((const int32_t *)letters.data)[i];
    fprintf(
        out,
        "{ \"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": %d, \"gradient_clipping\": 1.0, \"%s\": { "
        "\"enabled\": %s },\n"
        "  \"zero_optimization\": { \"stage\": %d },\n"
        "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-3, \"betas\": [0.9, 0.999], \"eps\": 1e-8, "
        "\"weight_decay\": 0 } },\n"
        "  \"cspeed\": { \"device\": \"%s\", \"data\": { \"seq_len\": %d }, \"recompute\": \"%s\", \"threads\": 1, "
        "\"products\": \"fixed\",\n"
        "    \"dpo\": { \"beta\": 0.1%s }, \"model\": %s } }\n",
        8 / of->micros, half ? of->precision : "bf16", half ? "true" : "false", of->stage, near_device(), LENGTH,
        of->recompute, kinds[of->kind].keys, text);
    fclose(out);
    cs_status status = cs_config_open(&config, path);
    unlink(path);
    CS_MUST(status);
    CS_MUST(cs_initialize(&engine, config, NULL));
    pieces_set_all(engine, value_of, NULL);
    return engine;
}

/* Makes the batch of the pairs `first` to `first` + count - 1 of a step. */
static cs_batch batch_of(int kind, int step, int64_t first, int64_t count)
{
    size_t at = (size_t)step * MICROS * SEQUENCES + 2 * (size_t)first;
    int32_t *inputs = golden_tensor(file, kind < FREE ? "inputs" : "free.inputs").data;
    int32_t *targets = golden_tensor(file, kind < FREE ? "targets" : "free.targets").data;
    bool later = strcmp(kinds[kind].name, "ld_alpha") == 0; /* its references have the factor too */
    float *references = golden_tensor(file, later ? "ld_alpha.references" : "references").data;
    return (cs_batch){ .inputs = cs_matrix(inputs + at * LENGTH, CS_I32, 2 * count, LENGTH),
                       .targets = cs_matrix(targets + at * LENGTH, CS_I32, 2 * count, LENGTH),
                       .references = kind < FREE ? cs_vector(references + at, CS_F32, 2 * count) : (cs_tensor){ 0 } };
}

static int train(void *argument)
{
    run *of = argument;
    cs_engine *engine = open_engine(of);
    int64_t pairs = 8 / of->micros;
    for (int step = 0; step < STEPS; step++) {
        for (int64_t micro = cs_rank(engine); micro < of->micros; micro += of->world) {
            cs_batch batch = batch_of(of->kind, step, micro * pairs, pairs);
            cs_forward(engine, &batch);
            cs_backward(engine);
            cs_step(engine);
        }
        if (cs_rank(engine) == 0)
            of->step[step] = cs_last_step(engine);
    }
    cs_destroy(engine);
    return 0;
}

static void check_number(const char *name, int step, double got, double want, double bound)
{
    ck_assert_msg(fabs(got - want) <= bound, "%s of step %d is %.9g, not %.9g within %g", name, step + 1, got, want,
                  bound);
}

static double largest(cs_tensor of)
{
    double max = 0;
    for (int64_t i = 0; i < cs_count(of); i++)
        max = fmax(max, fabs(near_element(of, i)));
    return max;
}

static cs_tensor entry(int kind, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", kinds[kind].name, what);
    return golden_tensor(file, name);
}

static void check_trl(const run *of, double bound)
{
    cs_tensor losses = entry(of->kind, "losses"), rewards = entry(of->kind, "rewards"),
              logps = entry(of->kind, "logps");
    for (int step = 0; step < STEPS; step++) {
        const cs_metrics *m = &of->step[step];
        double want = near_element(losses, step), less = bound * largest(logps), min = 0.1 * less;
        check_number("the loss", step, m->loss, want, bound * fmax(1, fabs(want)));
        check_number("rewards/chosen", step, m->preference.chosen_reward, near_element(rewards, 2 * step), min);
        check_number("rewards/rejected", step, m->preference.rejected_reward, near_element(rewards, 2 * step + 1), min);
        check_number("rewards/margins", step, m->preference.margin,
                     near_element(rewards, 2 * step) - near_element(rewards, 2 * step + 1), 2 * min);
        check_number("logps/chosen", step, m->preference.chosen_logp, near_element(logps, 2 * step), less);
        check_number("logps/rejected", step, m->preference.rejected_logp, near_element(logps, 2 * step + 1), less);
        ck_assert(m->preference.accuracy >= 0 && m->preference.accuracy <= 1);
        ck_assert_int_eq(m->samples, 8 * (step + 1));
    }
}

static run *train_all(run like)
{
    run *of = run_share(sizeof *of);
    *of = like;
    run_ranks(like.world, train, of);
    return of;
}

START_TEST(ten_steps_are_trls)
{
    for (int kind = 0; kind < KINDS; kind++) {
        run *of = train_all((run){ 1, 0, kind, MICROS, "fp32", "none", { { 0 } } });
        check_trl(of, kind == CE_PREFERENCE_SPPO_HARD || kind == CE_PREFERENCE_DISCOPOP ? 6e-6 : 2e-6);
        run_unshare(of, sizeof *of);
    }
}
END_TEST

static void compare_stages(int kind)
{
    run *one = train_all((run){ 1, 0, kind, MICROS, "fp32", "none", { { 0 } } });
    for (int stage = 0; stage <= 3; stage++) {
        run *more = train_all((run){ MAX_WORLD, stage, kind, MICROS, "fp32", stage % 2 ? "unit" : "none", { { 0 } } });
        for (int step = 0; step < STEPS; step++) {
            check_number("the loss", step, more->step[step].loss, one->step[step].loss, 1e-6);
            ck_assert_int_eq(more->step[step].tokens, one->step[step].tokens);
        }
        run_unshare(more, sizeof *more);
    }
    run_unshare(one, sizeof *one);
}

START_TEST(stages_and_worlds_agree)
{
    compare_stages(CE_PREFERENCE_SIGMOID);
    compare_stages(CE_PREFERENCE_AOT);
    compare_stages(KINDS - 1);
}
END_TEST

START_TEST(half_precision_is_near)
{
    static const char *const precisions[] = { "bf16", "fp16" };
    for (int i = 0; i < 2; i++) {
        run *of = train_all((run){ 2, 2, CE_PREFERENCE_SIGMOID, MICROS, precisions[i], "none", { { 0 } } });
        check_trl(of, i == 0 ? 0.2 : 0.1);
        ck_assert_int_eq(of->step[STEPS - 1].skipped, of->step[0].skipped);
        run_unshare(of, sizeof *of);
    }
}
END_TEST

/* ---- the head ---- */

enum { WIDE = 140000, SHORT = 16, TOGETHER = 4 };

/* Trains one step on TOGETHER pairs of random answers, `pairs` of them in a micro-batch. A CPU computes the logits of
 * this vocabulary in chunks of 64 rows; one pair has 32 rows. */
static cs_metrics step_of(int64_t pairs)
{
    char path[] = "/tmp/cspeed-preference-XXXXXX";
    int32_t inputs[2 * TOGETHER * SHORT], targets[2 * TOGETHER * SHORT];
    float references[2 * TOGETHER] = { 0 };
    FILE *out = fdopen(mkstemp(path), "w");
    cs_config *config;
    cs_engine *engine;
    for (int i = 0; i < 2 * TOGETHER * SHORT; i++) {
        inputs[i] = (int32_t)(i * 7919 % WIDE);
        targets[i] = i % SHORT < 5 || i % SHORT > 13 ? -1 : (int32_t)((i + 1) * 7919 % WIDE);
    }
    for (int i = 0; i < 2 * TOGETHER; i++)
        references[i] = -106 - (float)(i % 3);
    fprintf(
        out,
        "{ \"train_batch_size\": %d, \"train_micro_batch_size_per_gpu\": %d,\n"
        "  \"cspeed\": { \"device\": \"%s\", \"data\": { \"seq_len\": %d }, \"threads\": 1, \"products\": \"fixed\",\n"
        "    \"dpo\": { \"beta\": 0.1 },\n"
        "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
        "\"n_positions\": 16, \"vocab_size\": %d } } }\n",
        TOGETHER, (int)pairs, near_device(), SHORT, WIDE);
    fclose(out);
    CS_MUST(cs_config_open(&config, path));
    unlink(path);
    CS_MUST(cs_initialize(&engine, config, NULL));
    for (int64_t at = 0; at < 2 * TOGETHER; at += 2 * pairs) {
        cs_batch batch = { .inputs = cs_matrix(inputs + at * SHORT, CS_I32, 2 * pairs, SHORT),
                           .targets = cs_matrix(targets + at * SHORT, CS_I32, 2 * pairs, SHORT),
                           .references = cs_vector(references + at, CS_F32, 2 * pairs) };
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
    }
    cs_metrics seen = cs_last_step(engine);
    cs_destroy(engine);
    return seen;
}

static int train_chunks(void *argument)
{
    cs_metrics *seen = argument;
    seen[0] = step_of(TOGETHER);
    seen[1] = step_of(1);
    return 0;
}

START_TEST(chunks_give_the_same)
{
    cs_metrics *seen = run_share(2 * sizeof *seen);
    run_ranks(1, train_chunks, seen);
    ck_assert_double_gt(seen[0].grad_norm, 0);
    ck_assert_double_eq_tol(seen[1].loss, seen[0].loss, 1e-6);
    ck_assert_double_eq_tol(seen[1].grad_norm, seen[0].grad_norm, 1e-5 * seen[0].grad_norm);
    run_unshare(seen, 2 * sizeof *seen);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { ten_steps_are_trls, stages_and_worlds_agree, half_precision_is_near,
                                   chunks_give_the_same };
    file = golden_open(CS_SOURCE "/tests/golden/dpo.golden");
    int code = suite_run("preference", tests, (int)(sizeof tests / sizeof *tests));
    golden_close(file);
    return code;
}
