/* test_linter.c - the commands that examine a configuration: config, lr, elastic. */
#include "json/json.h"
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char file[] =
    "{\n"
    "    \"train_batch_size\": 16,\n"
    "    \"train_micro_batch_size_per_gpu\": \"auto\",\n"
    "    \"optimizer\": { \"type\": \"Adam\", \"params\": { \"lr\": \"auto\", \"betas\": [0.9, 0.95] } },\n"
    "    \"zero_optimization\": {\n"
    "        \"stage\": 2, \"overlap_comm\": true\n"
    "    }\n"
    "}\n";

static void must_say(const char *sentence, bool whether)
{
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg((strstr(said, sentence) != NULL) == whether, "%s: %.2000s", whether ? sentence : "not to be said",
                  said);
    free(said);
}

/* Checks that the line of the key has this value and this origin. */
static void must_list(const char *path, const char *value, const char *origin)
{
    char *said = shell_read("out.txt", NULL), wanted[128];
    snprintf(wanted, sizeof wanted, "\n  %s ", path);
    char *line = strstr(said, wanted);
    if (!line && strncmp(said, wanted + 1, strlen(wanted) - 1) == 0)
        line = said;
    ck_assert_msg(line != NULL, "no line of %s: %.2000s", path, said);
    line[1 + strcspn(line + 1, "\n")] = 0;
    ck_assert_msg(strstr(line, value) && strstr(line, origin), "%s: not %s, %s", line, value, origin);
    free(said);
}

START_TEST(test_values)
{
    shell_enter();
    shell_write("a.json", file);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config a.json --world_size 4 --set zero_optimization.stage=3"), 0);
    must_list("train_batch_size", "16", "line 2");
    must_list("train_micro_batch_size_per_gpu", " 4 ", "auto");
    must_list("gradient_accumulation_steps", " 1 ", "derived");
    must_list("optimizer.type", "\"AdamW\"", "line 4");
    must_list("optimizer.params.lr", "5e-5", "auto: Hugging Face's default");
    must_say("optimizer.params.eps", false);
    must_say("keys with their defaults (--all prints them)", true);
    must_list("zero_optimization.stage", " 3 ", "command line");
    must_list("zero_optimization.overlap_comm", "true", "line 6; no effect: ");
    must_list("cspeed.output", "\"runs/a\"", "derived");
    must_say("note: optimizer.params.lr: \"auto\" became 5e-5", true);
    must_say("a.json: accepted at world size 4", true);
    must_say("a.json: `train` also needs a model (--model DIR, or cspeed.model) and data (--data PATH, or", true);
    must_say("note: optimizer.type: \"Adam\" is AdamW, as in DeepSpeed, because adam_w_mode is true by default", true);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config a.json --world_size 4 --all"), 0);
    must_list("optimizer.params.eps", "1e-8", "default");
    char *listed = shell_read("out.txt", NULL), *defaults = strstr(listed, "\ndefaults:\n");
    ck_assert_msg(defaults && strstr(listed, "optimizer.params.eps") > defaults &&
                      strstr(listed, "optimizer.params.lr") < defaults,
                  "%.2000s", listed);
    free(listed);
    must_say("--all", false);
    shell_write("b.json", "{ \"train_batch_size\": 8, \"bf16\": { \"enabled\": \"auto\" } }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config b.json"), 0);
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg(strncmp(said, "note: optimizer: not in the file, whose \"auto\" says", 50) == 0, "%.2000s", said);
    free(said);
    must_list("bf16.enabled", "false", "auto");
    must_list("optimizer.params.lr", "5e-5", "Hugging Face's default");
    shell_write("c.json", "{ \"train_batch_size\": \"${BATCH}\" }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config c.json"), 78);
    must_say("cspeed: c.json:1:23 at train_batch_size: the placeholder ${BATCH}", true);
    must_say("c.json: refused\n", true);
    /* A model's name that the cache of the Hugging Face Hub has is replaced by its folder. */
    ck_assert_int_eq(shell_run("mkdir -p hub/models--org--tiny/refs hub/models--org--tiny/snapshots/1a && "
                               "printf 1a > hub/models--org--tiny/refs/main && "
                               "HF_HUB_CACHE=hub " CS_BIN "/cspeed config b.json --set cspeed.model=org/tiny"),
                     0);
    must_list("cspeed.model", "\"hub/models--org--tiny/snapshots/1a\"", "derived");
    shell_leave();
}
END_TEST

START_TEST(test_needs)
{
    shell_enter();
    shell_write("a.json", "{ \"train_batch_size\": 6 }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config a.json --set cspeed.model=m"), 0);
    must_say("a.json: `train` also needs data (--data PATH, or cspeed.data.train)\n", true);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config a.json --set cspeed.model=m --set cspeed.data.train=x.txt"), 0);
    must_say("also needs", false);
    ck_assert_int_eq(shell_run(CS_BIN "/train --config a.json --plan"), 78);
    must_say("no model: name a Hugging Face folder (train --model DIR", true);
    ck_assert_int_eq(shell_run(CS_BIN "/train --config a.json --output $(printf 'r_\\377')"), 78);
    must_say("is not UTF-8, and a configuration is", true);
    shell_leave();
}
END_TEST

START_TEST(test_refusals)
{
    shell_enter();
    shell_write("a.json", "{ \"train_batch_size\": 6, \"wandb\": { \"enabled\": true }, \"optimiser\": 1 }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config --world-size=4 a.json"), 78);
    must_say("a.json:1:23 at train_batch_size: train_batch_size 6 is not a multiple of", true);
    must_say("not supported: wandb.enabled", true);
    must_say("the nearest known one is \"optimizer\"", true);
    must_say("a.json: refused at world size 4 (--world_size N chooses another)", true);
    char *said = shell_read("out.txt", NULL), *verdict = strstr(said, "a.json: refused at world size 4");
    ck_assert_msg(verdict && strncmp(said, "cspeed: a.json:1:23", 19) == 0,
                  "the errors do not stand before the notes: %.2000s", said);
    free(said);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config a.json --lenient"), 78);
    must_say("note: optimiser: ignored: unknown key", true);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config a.json --lenient --set wandb.enabled=false"), 0);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config no.json"), 66);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config"), 64);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config a.json --frobnicate"), 64);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config a.json --world_size 0"), 64);
    shell_write("c.json", "{ \"train_batch_size\": 6, \"bfloat16\": { \"enabled\": true } }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config c.json"), 0);
    must_list("bfloat16.enabled", "true", "line 1");
    must_list("precision", "\"bf16\"", "derived");
    shell_write("b.json", "{ \"train_batch_size\": 6 \"a\": }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config b.json"), 78);
    shell_leave();
}
END_TEST

/* Checks that `cspeed config` refuses what a training refuses only when it opens its model or its ranks, and that its
 * messages name workers (ps) and replicas (dp) where a training uses them. */
START_TEST(test_combinations)
{
#define CONFIG CS_BIN "/cspeed config a.json "
#define LORA CONFIG "--set 'cspeed.lora={\"r\": 2, \"dora\": true, \"dropout\": 0.1}'"
#define SIZES "--set train_batch_size=6 --set train_micro_batch_size_per_gpu=2 --set gradient_accumulation_steps=1"
    static const char *const rows[][2] = {
        { LORA, "cspeed.lora.dropout: not supported: 0.1 with DoRA" },
        { CONFIG "--set cspeed.data.seq_len=512", "--seq_len 64 is possible" },
        { CONFIG SIZES " --world_size 2", "gradient_accumulation_steps 1 x world size 2 = 4; world size 3 fits" },
        { CONFIG "--set train_batch_size=6 --world_size 4", "gradient_accumulation_steps 1 x world size 4, so" },
    };
    shell_enter();
    shell_write("a.json", "{ \"train_batch_size\": 8,\n"
                          "  \"cspeed\": { \"data\": { \"seq_len\": 32 }, \"model\": { \"model_type\": \"llama\",\n"
                          "    \"num_hidden_layers\": 2, \"hidden_size\": 16, \"intermediate_size\": 32,\n"
                          "    \"num_attention_heads\": 2, \"num_key_value_heads\": 2, \"vocab_size\": 64,\n"
                          "    \"max_position_embeddings\": 64 } } }\n");
    ck_assert_int_eq(shell_run(CONFIG "--set cspeed.model=not_on_this_machine"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_msg(shell_run("%s", rows[i][0]) == 78, "%s", rows[i][0]);
        must_say(rows[i][1], true);
        must_say("a.json: refused", true);
    }
    shell_leave();
}
END_TEST

START_TEST(test_json)
{
    json_error_t error;
    const char *origin;
    int accepted, value;
    shell_enter();
    shell_write("a.json", file);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config a.json --json > a.out; exit $?"), 0);
    json_t *all = json_load_file("a.out", 0, &error);
    ck_assert_msg(all != NULL, "%s", error.text);
    ck_assert_int_eq(json_unpack(all, "{sbs{s{siss}}}", "accepted", &accepted, "values", "zero_optimization.stage",
                                 "value", &value, "origin", &origin),
                     0);
    ck_assert(accepted && value == 2);
    ck_assert_str_eq(origin, "line 6");
    json_decref(all);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config a.json --json --set fp16.enabled=5 2> err.txt > a.out; exit $?"),
                     78);
    all = json_load_file("a.out", 0, &error);
    ck_assert_uint_eq(json_array_size(json_object_get(all, "refusals")), 1);
    json_decref(all);
    shell_leave();
}
END_TEST

START_TEST(test_explain)
{
    shell_enter();
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config --explain zero_optimization.stage"), 0);
    must_say("integer, default 0, from 0 to 3", true);
    must_say("ZeRO stage: 0 shards nothing", true);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config --explain gradient_clipping"), 0);
    must_say("number, default 1.0, at least 0, or Infinity", true);
    must_say("DeepSpeed: 1.0 since June 2026; 0 (no clipping) in earlier releases. Here: 1.0;", true);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config --explain scheduler.params.warmup_num_steps"), 0);
    must_say("(WarmupLR)", true);
    must_say("(WarmupCosineLR)", true);
    must_say("(OneCycle)", false);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config --explain cspeed.strict"), 0);
    must_say("not supported, because", true);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config --explain zero_optimization.stag"), 64);
    must_say("the nearest is zero_optimization.stage", true);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config --explain overlap_comm"), 64);
    must_say("the nearest is zero_optimization.overlap_comm", true);
    shell_leave();
}
END_TEST

START_TEST(test_curve)
{
    shell_enter();
    shell_write(
        "a.json",
        "{ \"scheduler\": { \"type\": \"OneCycle\", \"params\": { \"cycle_min_lr\": 0.1, \"cycle_max_lr\": 0.5, "
        "\"cycle_first_step_size\": 4 } } }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed lr a.json --steps 5 --every 2 --plot rate.svg"), 0);
    must_say("           1  0.1               0.8\n           3  0.3               0.85\n           5  0.5             "
             "  0.8\n",
             true);
    char *picture = shell_read("rate.svg", NULL);
    ck_assert(strncmp(picture, "<svg ", 5) == 0 && strstr(picture, "<polyline ") && strstr(picture, "</svg>\n"));
    free(picture);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed lr a.json --steps 5 --plot rate.gif"), 64);
    must_say("--plot rate.gif: give the file a name that ends in .svg, .html or .png", true);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed lr a.json"), 78);
    must_say("--steps N is needed, because a.json has no cspeed.steps", true);
    /* --steps replaces cspeed.steps, as it does for train */
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed lr a.json --set cspeed.steps=2"), 0);
    must_say("           2  0.2 ", true);
    must_say("           3  ", false);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed lr a.json --set cspeed.steps=2 --steps 3"), 0);
    must_say("           3  ", true);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed lr a.json --steps 3 --set scheduler.type=Nope"), 78);
    shell_write("b.json",
                "{ \"optimizer\": { \"type\": \"SGD\", \"params\": { \"lr\": \"auto\" } }, \"scheduler\": { \"type\": "
                "\"WarmupDecayLR\", \"params\": { \"warmup_max_lr\": \"auto\", \"warmup_num_steps\": 2, "
                "\"total_num_steps\": \"auto\", \"warmup_type\": \"linear\" } } }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed lr b.json --steps 8"), 0);
    must_say("           4  5e-05\n", true);
    must_say("beta1", false);
    /* the learning rate and the decay are those of Hugging Face's Trainer */
    shell_write("c.json", "{ \"gradient_clipping\": \"auto\" }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed lr c.json --steps 5"), 0);
    must_say("           1  5e-05\n           2  4e-05\n", true);
    must_say("           5  1e-05\n", true);
    shell_leave();
}
END_TEST

START_TEST(test_elastic)
{
    shell_enter();
    unsetenv("WORLD_SIZE");
    shell_write(
        "a.json",
        "{ \"elasticity\": { \"enabled\": true, \"max_train_batch_size\": 100, \"micro_batch_sizes\": [8, 10, 12], "
        "\"version\": 0.1 } }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed elastic -c a.json"), 0);
    must_say("final_batch_size .... 96\nvalid_gpus .......... [1, 2, 3, 4, 6, 8, 12]\n", true);
    must_say("micro_batch_size .", false);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed elastic -c a.json -w 4"), 0);
    must_say("micro_batch_size .... 12\n", true);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed elastic -c a.json -w 5"), 78);
    must_say("5 ranks cannot share a batch of 96 evenly", true);
    shell_write("b.json",
                "{ \"elasticity\": { \"enabled\": true, \"max_train_batch_size\": 100, \"micro_batch_sizes\": [8] } }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed elastic -c b.json"), 78);
    must_say("version 0.2 needs the number of ranks", true);
    ck_assert_int_eq(shell_run("WORLD_SIZE=2 " CS_BIN "/cspeed elastic -c b.json"), 0);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed elastic -c b.json --set=1"), 64);
    shell_write(
        "tp.json",
        "{ \"elasticity\": { \"enabled\": true, \"max_train_batch_size\": 100, \"micro_batch_sizes\": [8, 10, 12], "
        "\"version\": 0.1, \"max_gpus\": 8 }, \"cspeed\": { \"mesh\": { \"tp\": 2 } } }");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed elastic -c tp.json -w 8"), 0);
    must_say("final_batch_size .... 96\nvalid_gpus .......... [2, 4, 6, 8]\nmicro_batch_size .... 12\n", true);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed elastic"), 64);
    shell_leave();
}
END_TEST

SUITE_MAIN("linter", test_values, test_needs, test_refusals, test_combinations, test_json, test_explain, test_curve,
           test_elastic)
