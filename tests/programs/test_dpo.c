/* test_dpo.c - preference training by the programs: pairs of texts and of conversations, stages, resuming, the cache of
 * the reference model's log-probabilities, another model as the reference, evaluation, and refusals. */
#include "suite.h"
#include "shell.h"
#include "training.h"

#include <math.h>
#include <stdio.h>

enum { PAIRS = 24 };

/* Writes pairs of texts for a model whose tokens are bytes. The chosen answer has words that no rejected answer has. */
static void write_pairs(const char *path, int pairs)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < pairs; i++)
        fprintf(file, "{\"prompt\": \"What is %d?\", \"chosen\": \" A green %d\", \"rejected\": \" No%s\"}\n", i, i * i,
                i % 3 ? "" : ", never");
    ck_assert_int_eq(fclose(file), 0);
}

static void prepare(int stage, const char *dpo)
{
    char text[2048];
    shell_enter();
    write_pairs("pairs.jsonl", PAIRS);
    write_pairs("held.jsonl", 7);
    snprintf(
        text, sizeof text,
        "{ \"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": { \"stage\": %d "
        "},\n"
        "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 5e-3, \"weight_decay\": 0 } },\n"
        "  \"cspeed\": { \"steps\": 12, \"seed\": 5, \"output\": \"out\", \"save_interval\": 6, \"eval_interval\": "
        "6, \"threads\": 1,\n"
        "    \"products\": \"fixed\", \"dpo\": { \"beta\": 0.1%s },\n"
        "    \"data\": { \"train\": \"pairs.jsonl\", \"valid\": \"held.jsonl\", \"seq_len\": 32 },\n"
        "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32,\n"
        "               \"n_positions\": 32, \"vocab_size\": 256 } } }\n",
        stage, dpo);
    shell_write("config.json", text);
}

static double last(const char *run, const char *name)
{
    char path[64], quoted[64];
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    return training_last_number(path, quoted);
}

START_TEST(stages_agree_and_the_answers_are_learnt)
{
    prepare(0, "");
    training_run(1, "--set csv_monitor='{\"enabled\": true, \"output_path\": \"m\", \"job_name\": \"j\"}'");
    ck_assert_int_eq(shell_run("test $(wc -l <m/j/Train_Samples_rewards_margins.csv) = 13 && "
                               "test $(wc -l <m/j/Train_Samples_valid_rewards_margins.csv) = 3"),
                     0);
    /* the first loss is log 2 */
    ck_assert_int_eq(shell_run("head -1 out/metrics.jsonl | grep -c '\"loss\": 0.693147'"), 0);
    double loss = last("out", "loss"), margin = last("out", "rewards/margins"), held = last("out", "valid_loss");
    ck_assert_double_lt(loss, 0.6);
    ck_assert_double_gt(margin, 0.1);
    ck_assert_double_gt(last("out", "valid_rewards/accuracies"), 0.9);
    ck_assert_double_eq_tol(last("out", "rewards/chosen") - last("out", "rewards/rejected"), margin, 1e-6);
    ck_assert_int_eq((int)last("out", "samples"), 96);
    training_run(2, "--output stage3 --set zero_optimization.stage=3");
    ck_assert_double_eq_tol(last("stage3", "loss"), loss, 1e-5);
    ck_assert_double_eq_tol(last("stage3", "valid_loss"), held, 1e-5);
    ck_assert_int_eq(shell_run("gzip -k pairs.jsonl"), 0);
    training_run(1, "--output zipped --set cspeed.data.train=pairs.jsonl.gz");
    ck_assert_double_eq(last("zipped", "loss"), loss);
    shell_leave();
}
END_TEST

START_TEST(resumes_with_equal_losses)
{
    prepare(2, "");
    training_run(2, "--output whole");
    ck_assert(training_says("log-probabilities of 24 pairs by the reference model: computed"));
    training_run(2, "--output parts --steps 6");
    training_run(2, "--output parts");
    ck_assert(training_says("log-probabilities of 24 pairs by the reference model: read from parts.tokens/reference-"));
    ck_assert_int_eq(shell_run("grep -o '\"loss.*\"lr\\|\"rewards.*' whole/metrics.jsonl > a; "
                               "grep -o '\"loss.*\"lr\\|\"rewards.*' parts/metrics.jsonl > b; cmp a b"),
                     0);
    /* The cache is computed again, with the first parameters of the run. */
    ck_assert_int_eq(shell_run("rm parts.tokens/reference-*"), 0);
    training_run(2, "--output parts --steps 14");
    training_run(2, "--output whole --steps 14");
    ck_assert_double_eq(last("parts", "loss"), last("whole", "loss"));
    shell_leave();
}
END_TEST

/* Without a reference model none is computed; two ranks resume, and eval with the same keys agrees with validation. */
START_TEST(trains_without_a_reference)
{
    static const char keys[] = "--set cspeed.dpo.beta=0.1 --set cspeed.dpo.reference_free=true --set "
                               "cspeed.dpo.loss_type=simpo --set cspeed.dpo.cpo_alpha=0.5";
    prepare(3, ", \"reference_free\": true, \"loss_type\": \"simpo\", \"cpo_alpha\": 0.5");
    training_run(1, "--output whole");
    ck_assert(!training_says("by the reference model"));
    training_run(2, "--output parts --steps 6");
    training_run(2, "--output parts --steps 12");
    ck_assert_double_eq_tol(last("parts", "loss"), last("whole", "loss"), 1e-6);
    ck_assert_double_eq_tol(last("parts", "valid_loss"), last("whole", "valid_loss"), 1e-6);
    ck_assert_int_eq(shell_run("%s/eval whole --data held.jsonl --json %s", CS_BIN, keys), 0);
    ck_assert_double_eq_tol(training_last_number("out.txt", "\"loss\""), last("whole", "valid_loss"), 1e-6);
    shell_leave();
}
END_TEST

START_TEST(another_model_is_the_reference)
{
    prepare(0, "");
    training_run(1, "--export first --steps 6");
    training_run(1, "--output other --set cspeed.dpo.reference=first");
    double loss = last("other", "loss");
    ck_assert_int_eq(shell_run("head -1 other/metrics.jsonl | grep -q '\"loss\": 0.693147'"), 1);
    ck_assert_int_eq(shell_run("%s/eval other --data held.jsonl --reference first --json", CS_BIN), 0);
    ck_assert(training_says("\"pairs\": 7"));
    double held = training_last_number("out.txt", "\"loss\""),
           chosen = training_last_number("out.txt", "\"rewards/chosen\"");
    ck_assert_double_eq_tol(held, last("other", "valid_loss"), 1e-6);
    ck_assert_double_eq_tol(chosen, last("other", "valid_rewards/chosen"), 1e-6);
    ck_assert(isfinite(loss));
    /* The reference by its name in the cache of the Hugging Face Hub is the same model. */
    ck_assert_int_eq(shell_run("mkdir -p hub/models--org--first/refs hub/models--org--first/snapshots && printf 1a > "
                               "hub/models--org--first/refs/main && cp -r first hub/models--org--first/snapshots/1a"),
                     0);
    ck_assert_int_eq(setenv("HF_HUB_CACHE", "hub", 1), 0);
    training_run(1, "--output named --set cspeed.dpo.reference=org/first");
    ck_assert_double_eq(last("named", "loss"), loss);
    ck_assert_int_eq(unsetenv("HF_HUB_CACHE"), 0);
    training_expect(0, shell_run("%s/eval first --data held.jsonl --reference first --set "
                                 "cspeed.data.cache=c",
                                 CS_BIN));
    ck_assert(training_says("loss 0.693147  accuracy 0.00% of 7 pairs"));
    shell_leave();
}
END_TEST

/* The reference is the checkpoint that is loaded, not the random first values: so the first loss is log 2. */
START_TEST(a_loaded_checkpoint_is_the_reference)
{
    prepare(0, "");
    training_run(1, "--steps 6");
    training_run(1, "--output more --load out --steps 7");
    ck_assert_int_eq(shell_run("head -1 more/metrics.jsonl | grep -q '\"loss\": 0.693147'"), 0);
    shell_leave();
}
END_TEST

static void refuses(const char *arguments, int code, const char *why)
{
    training_expect(code, shell_run("%s/train --config config.json %s", CS_BIN, arguments));
    ck_assert(training_says(why));
}

/* Each row counts once, though its prompt and both answers are written. */
START_TEST(what_rows_have_is_counted)
{
    prepare(0, "");
    FILE *file = fopen("pairs.jsonl", "w");
    for (int i = 0; i < 4; i++)
        fprintf(file,
                "{\"id\": %d, \"prompt\": [{\"role\": \"user\", \"content\": \"q\", \"name\": \"n\"}], \"chosen\": "
                "[%s{\"role\": \"assistant\", \"content\": \"a\"}], \"rejected\": [%s{\"role\": \"assistant\", "
                "\"content\": \"b\"}]}\n",
                i, i % 2 ? "" : "{\"role\": \"user\", \"content\": \"q\", \"name\": \"n\"}, ",
                i % 2 ? "" : "{\"role\": \"user\", \"content\": \"q\", \"name\": \"n\"}, ");
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(shell_run("%s/train --config config.json --steps 1 --set cspeed.data.template=plain --set "
                               "cspeed.data.valid=[] --set cspeed.data.seq_len=256 --set cspeed.model.n_positions=256 "
                               "--set train_batch_size=2 2>err.txt",
                               CS_BIN),
                     0);
    char *said = shell_read("err.txt", NULL);
    ck_assert_msg(strstr(said, "does not read \"name\", which 4 conversations have"), "%s", said);
    ck_assert_msg(strstr(said, "2 pairs repeat the prompt at the beginning of both answers"), "%s", said);
    ck_assert_msg(strstr(said, "columns not read: \"id\" (4 rows); read: \"prompt\" (4 rows), \"chosen\" (4 rows), "
                               "\"rejected\" (4 rows)"),
                  "%s", said);
    free(said);
    shell_leave();
}
END_TEST

START_TEST(what_is_not_supported_is_named)
{
    prepare(0, "");
    refuses("--set cspeed.data.packing=documents", 78, "cspeed.data.packing");
    refuses("--set cspeed.dpo.reference=org/other", 66, "`hf download org/other");
    refuses("--set cspeed.dpo.label_smoothing=0.1", 78, "only the loss_types robust, exo_pair, aot and");
    refuses("--set cspeed.dpo.loss_type=simpo", 78, "simpo needs cspeed.dpo.reference_free true");
    refuses("--set cspeed.dpo.cpo_alpha=1", 78, "it needs cspeed.dpo.reference_free true");
    refuses("--set cspeed.dpo.reference_free=true --set cspeed.dpo.loss_type=aot", 78,
            "one of sigmoid, hinge, ipo and simpo");
    refuses("--set cspeed.dpo.reference_free=true --set cspeed.dpo.ld_alpha=0.5", 78, "there is no reference model");
    refuses("--set cspeed.dpo.loss_type=exo_pair", 78, "exo_pair needs a number above 0");
    refuses("--set cspeed.dpo.loss_type=aot --set cspeed.dpo.f_divergence_type=js_divergence", 78,
            "the loss_type \"aot\" has only reverse_kl");
    refuses("--set 'cspeed.dpo.loss_type=[\"sft\",\"sft\"]'", 78, "\"sft\" is listed twice");
    refuses("--set cspeed.dpo.loss_weights=[1,2]", 78,
            "a list of as many numbers as loss_type has losses is needed: 1");
    refuses("--set cspeed.dpo.use_weighting=true", 78, "the weights of WPO are not implemented");
    refuses("--set cspeed.dpo.beta=0 --set cspeed.dpo.loss_type=ipo", 78, "cspeed.dpo.beta");
    refuses("--set cspeed.dpo.loss_type=kto", 78, "names of losses: sigmoid hinge ipo robust");
    refuses("--set cspeed.dpo.reference=nowhere", 66, "there is no nowhere/config.json");
    ck_assert_int_eq(shell_run("mkdir -p folders/config.json"), 0);
    refuses("--set cspeed.dpo.reference=folders", 65, "folders/config.json: not a regular file");
    refuses("--set cspeed.dpo.beta=0", 65, "a pair of answers");
    refuses("--set cspeed.data.train=some.bin", 78, "not token shards");
    refuses("--set cspeed.data.seq_len=5", 65, "each of the 24 pairs");
    shell_write("pairs.jsonl", "{\"prompt\": \"a\", \"chosen\": \"b\"}\n");
    refuses("", 65, "pairs.jsonl, line 1: there is no key \"rejected\"");
    shell_write("pairs.jsonl", "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"\"}\n");
    refuses("", 65, "the rejected answer has no token");
    shell_write("pairs.jsonl", "{\"chosen\": [{\"role\": \"user\", \"content\": \"a\"}], \"rejected\": "
                               "[{\"role\": \"user\", \"content\": \"b\"}]}\n");
    refuses("", 78, "set cspeed.data.template to a template");
    shell_leave();
}
END_TEST

SUITE_MAIN("dpo", stages_agree_and_the_answers_are_learnt, resumes_with_equal_losses, trains_without_a_reference,
           another_model_is_the_reference, a_loaded_checkpoint_is_the_reference, what_rows_have_is_counted,
           what_is_not_supported_is_named)
