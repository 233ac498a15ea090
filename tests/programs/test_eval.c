/* test_eval.c - the program eval: loss, perplexity and accuracy are correct, and have the same bits at every world
 * size. */
#include "suite.h"
#include "runs.h"
#include "shell.h"
#include "data/tokens.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOWS = 7, MAX_WORLD = 3 };

static void write_tokens(void)
{
    ce_tokens_writer *writer = NULL;
    CS_MUST(ce_tokens_create(&writer, "valid.bin", RUN_VOCABULARY));
    for (int32_t i = 0; i < WINDOWS * RUN_LENGTH + 1; i++) {
        int32_t token = i * 3 % RUN_VOCABULARY;
        CS_MUST(ce_tokens_append_masked(writer, &token, NULL, 1));
    }
    CS_MUST(ce_tokens_finish(writer));
}

/* ---- comparison with the logits ---- */

typedef struct {
    run_spec spec;
    cs_scores scores[MAX_WORLD];
    int64_t correct; /* correct predictions, counted from the logits */
    double loss;
} job;

static void learn(cs_engine *engine, cs_data *data)
{
    for (int step = 0; step < 30; step++) {
        cs_batch batch = cs_data_next(data);
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
    }
}

static int64_t count_correct(cs_engine *engine)
{
    int32_t tokens[RUN_LENGTH];
    int64_t correct = 0;
    cs_tensor output;
    for (int window = 0; window < WINDOWS; window++) {
        for (int t = 0; t < RUN_LENGTH; t++)
            tokens[t] = (window * RUN_LENGTH + t) * 3 % RUN_VOCABULARY;
        CS_MUST(cs_predict(engine, &(cs_batch){ .inputs = cs_matrix(tokens, CS_I32, 1, RUN_LENGTH) }, &output));
        for (int t = 0; t < RUN_LENGTH; t++) {
            cs_tensor rows = cs_matrix(output.data, output.dtype, t + 1, RUN_VOCABULARY);
            correct += cs_sample(rows, &(cs_sampling){ 0, 0, 1, 0 }, 0, 0) == (tokens[t] + 3) % RUN_VOCABULARY;
        }
    }
    return correct;
}

static int score(void *argument)
{
    job *all = argument;
    cs_engine *engine = run_open(&all->spec, NULL);
    cs_data *train, *valid;
    CS_MUST(cs_data_open(&train, engine, "train"));
    CS_MUST(cs_data_open(&valid, engine, "valid"));
    if (all->spec.steps > 1)
        learn(engine, train);
    CS_MUST(cs_score(engine, valid, 0, &all->scores[cs_rank(engine)]));
    CS_MUST(cs_evaluate(engine, valid, 0, &all->loss));
    if (all->spec.world == 1)
        all->correct = count_correct(engine);
    cs_data_close(train);
    cs_data_close(valid);
    cs_destroy(engine);
    return 0;
}

static cs_scores scored(int world, int stage, const char *precision, int steps)
{
    job *all = run_share(sizeof *all);
    all->spec = (run_spec){ .world = world,
                            .stage = stage,
                            .micro = 2,
                            .steps = steps,
                            .precision = precision,
                            .set = { "cspeed.data.valid=[\"valid.bin\"]", "cspeed.data.train=[\"valid.bin\"]" } };
    run_ranks(world, score, all);
    cs_scores scores = all->scores[0];
    for (int rank = 0; rank < world; rank++)
        ck_assert_mem_eq(&all->scores[rank], &scores, sizeof scores);
    ck_assert(scores.loss == all->loss);
    ck_assert_int_eq(scores.tokens, WINDOWS * RUN_LENGTH);
    if (world == 1)
        ck_assert_int_eq(scores.correct, all->correct);
    run_unshare(all, sizeof *all);
    return scores;
}

START_TEST(accuracy_is_counted)
{
    shell_enter();
    write_tokens();
    cs_scores before = scored(1, 0, "fp32", 1), after = scored(1, 0, "fp32", 30);
    ck_assert_int_lt(before.correct, WINDOWS * RUN_LENGTH / 4);
    ck_assert_int_gt(after.correct, before.correct);
    ck_assert_double_lt(after.loss, before.loss);
    shell_leave();
}
END_TEST

START_TEST(every_world_scores_the_same)
{
    shell_enter();
    write_tokens();
    for (int half = 0; half < 2; half++) {
        cs_scores alone = scored(1, 0, half ? "bf16" : "fp32", 1);
        for (int world = 2; world <= MAX_WORLD; world++)
            for (int stage = 0; stage <= 3; stage += 3) {
                cs_scores scores = scored(world, stage, half ? "bf16" : "fp32", 1);
                ck_assert_mem_eq(&scores, &alone, sizeof scores);
            }
    }
    shell_leave();
}
END_TEST

/* ---- the program ---- */

static const char *const config =
    "{ \"train_micro_batch_size_per_gpu\": 4, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-2 } },\n"
    "  \"zero_optimization\": { \"stage\": 2 }, \"bf16\": { \"enabled\": true },\n"
    "  \"cspeed\": { \"steps\": 20, \"seed\": 5, \"output\": \"out\", \"eval_interval\": 20, \"eval_batches\": 0,\n"
    "    \"data\": { \"train\": \"data/train-*.bin\", \"valid\": \"data/valid.bin\", \"seq_len\": 24 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, \"n_positions\": 48,\n"
    "      \"vocab_size\": 256, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0, \"attn_pdrop\": 0 } } }\n";

static double member(const char *name)
{
    char *out = shell_read("out.txt", NULL), quoted[64];
    double value;
    snprintf(quoted, sizeof quoted, "\"%s\": ", name);
    const char *at = strstr(out, quoted);
    ck_assert_msg(at && sscanf(at + strlen(quoted), "%lf", &value) == 1, "no %s in %s", name, out);
    free(out);
    return value;
}

static void write_masked(const char *path)
{
    ce_tokens_writer *writer = NULL;
    const int32_t token = 'a';
    const bool learnt = false;
    CS_MUST(ce_tokens_create(&writer, path, 256));
    for (int i = 0; i < 60; i++)
        CS_MUST(ce_tokens_append_masked(writer, &token, &learnt, 1));
    CS_MUST(ce_tokens_finish(writer));
}

/* `eval` prints the same output at any number of ranks. Its loss equals, up to rounding, the last validation loss of
 * training. */
START_TEST(the_program_says_the_same_in_every_world)
{
    char *alone = NULL;
    shell_enter();
    setenv("OMP_NUM_THREADS", "1", 1);
    shell_write("config.json", config);
    ck_assert_int_eq(shell_run("i=0; while [ $i -lt 300 ]; do echo green bottle $i; i=$((i+1)); done >text.txt; "
                               "%s/pack --output data text.txt && %s/train --config config.json",
                               CS_BIN, CS_BIN),
                     0);
    ck_assert_int_eq(shell_run("sed -n 's/.*valid_loss\\(.*\\)}/{\"valid_loss\\1}/p' out/metrics.jsonl"), 0);
    double trained = member("valid_loss");
    for (int ranks = 1; ranks <= MAX_WORLD; ranks++) {
        ck_assert_int_eq(shell_run("%s/cspeed --num_gpus %d --oversubscribe --quiet eval out --json", CS_BIN, ranks),
                         0);
        char *said = shell_read("out.txt", NULL);
        alone = alone ? alone : strdup(said);
        ck_assert_str_eq(said, alone);
        free(said);
    }
    ck_assert_double_eq_tol(member("loss"), trained, 1e-8 * trained);
    ck_assert_double_eq_tol(member("perplexity"), exp(member("loss")), 1e-9 * member("perplexity"));
    ck_assert_double_gt(member("accuracy"), 0.05);
    ck_assert_int_eq(shell_run("%s/eval out --data data --seq-len 16 --micro_batch=3 --batches 2 --json", CS_BIN), 0);
    ck_assert_double_eq(member("tokens"), 2 * 3 * 16);
    ck_assert_int_eq(shell_run("cp text.txt text; %s/eval out --data text", CS_BIN), 65);
    ck_assert_int_eq(shell_run("%s/eval out --data missing.bin", CS_BIN), 66);
    write_masked("masked.bin");
    ck_assert_int_eq(shell_run("%s/eval out --data masked.bin --json", CS_BIN), 65);
    char *refusal = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(refusal, "all targets are masked") != NULL, "%s", refusal);
    free(refusal);
    ck_assert_int_eq(shell_run("%s/eval out --batches x", CS_BIN), 64);
    ck_assert_int_eq(shell_run("%s/eval missing", CS_BIN), 66);
    ck_assert_int_eq(shell_run("%s/eval out --set cspeed.data.seq_len=99", CS_BIN), 78);
    free(alone);
    shell_leave();
}
END_TEST

/* ---- models that are not trained ---- */

static void train_here(void)
{
    setenv("OMP_NUM_THREADS", "1", 1);
    shell_enter();
    shell_write("config.json", config);
    ck_assert_int_eq(shell_run("i=0; while [ $i -lt 300 ]; do echo green bottle $i; i=$((i+1)); done >text.txt; "
                               "%s/pack --output data text.txt && %s/train --config config.json --steps 2 --set "
                               "cspeed.save_interval=1",
                               CS_BIN, CS_BIN),
                     0);
}

/* Runs eval and generate on `source` and checks the exit code and the error. */
static void refused(int code, const char *source, const char *sentence)
{
    static const char *const programs[] = { "eval %s --data data", "generate %s --prompt green" };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, programs[i], source);
        int got = shell_run("%s/%s", CS_BIN, arguments);
        char *out = shell_read("out.txt", NULL);
        ck_assert_msg(got == code && strstr(out, sentence), "%s: exit code %d, not %d; it printed:\n%s", arguments, got,
                      code, out);
        free(out);
    }
}

/* A model without weights has random values: training may begin with them, but other programs refuse them. */
START_TEST(a_model_without_weights_is_not_used)
{
    train_here();
    ck_assert_int_eq(shell_run("mkdir model && %s/cspeed export out whole && cp whole/config.json model", CS_BIN), 0);
    /* the tokens are bytes, so transformers must not take token 50256 for the end of a text */
    ck_assert_int_eq(shell_run("grep -q '\"eos_token_id\": null' model/config.json"), 0);
    refused(66, "model", "model has a config.json and no weights");
    ck_assert_int_eq(shell_run("%s/train --config config.json --model model --steps 1 --output other", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s/eval whole --data data", CS_BIN), 0);
    shell_leave();
}
END_TEST

/* A different n_head changes no shape, so no other check could detect it. */
START_TEST(a_damaged_configuration_is_not_believed)
{
    train_here();
    char *text = shell_read("out/global_step2/ds_config.json", NULL), *at = strstr(text, "\"n_head\": 2");
    ck_assert_ptr_nonnull(at);
    shell_flip("out/global_step2/ds_config.json", at - text + (long)strlen("\"n_head\": "));
    free(text);
    refused(65, "out", "out/global_step2/ds_config.json has CRC32C ");
    refused(65, "out/global_step2", "global_step2/ds_config.json has CRC32C ");
    refused(65, "out --tag global_step2", "out/global_step2/ds_config.json has CRC32C ");
    ck_assert_int_eq(shell_run("%s/eval out --tag global_step1", CS_BIN), 0);
    ck_assert_int_eq(unlink("out/global_step2/ds_config.json"), 0);
    refused(65, "out", "out/global_step2/ds_config.json is missing, though the manifest lists it");
    /* this checkpoint is damaged: the newest complete one is used instead */
    shell_flip("out/global_step2/manifest.json", 100);
    ck_assert_int_eq(shell_run("%s/eval out", CS_BIN), 0);
    char *out = shell_read("out.txt", NULL);
    ck_assert_ptr_nonnull(strstr(out, "loading out/global_step1 instead"));
    free(out);
    ck_assert_int_eq(shell_run("rm -r out/global_step1"), 0);
    refused(65, "out", "out/global_step2/manifest.json");
    shell_leave();
}
END_TEST

SUITE_MAIN("eval", accuracy_is_counted, every_world_scores_the_same, the_program_says_the_same_in_every_world,
           a_model_without_weights_is_not_used, a_damaged_configuration_is_not_believed)
