/* test_mesh_programs.c - the mesh on the command lines of train, eval and generate; CSPEED_MESH; DeepSpeed's
 * partition_config. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs cspeed with `ranks` ranks, and returns its output. */
static char *output_of(int ranks, const char *arguments)
{
    int code = shell_run("%s/cspeed -q --num_gpus %d --oversubscribe %s 2> err.txt", CS_BIN, ranks, arguments);
    char *text = shell_read("out.txt", NULL);
    ck_assert_msg(code == 0, "%s: exit code %d: %s", arguments, code, text);
    return text;
}

static double loss_of(int ranks, const char *arguments)
{
    char *text = output_of(ranks, arguments), *at = strstr(text, "\"loss\": ");
    ck_assert_msg(at != NULL, "%s: %s", arguments, text);
    double loss = strtod(at + strlen("\"loss\": "), NULL);
    free(text);
    return loss;
}

START_TEST(eval_and_generate_take_tp)
{
    static const char prompt[] = "generate out --prompt 'the ' --max_tokens 20 --temperature 0";
    char cut[160];
    training_prepare();
    training_config("bf16", "", 1);
    training_run(1, "--output out");
    double one = loss_of(1, "eval out --json"), two = loss_of(2, "eval out --json --tp 2");
    ck_assert_msg(one > two - 1e-3 * one && one < two + 1e-3 * one, "loss %g, with tp 2 %g", one, two);
    snprintf(cut, sizeof cut, "%s --tp 2", prompt);
    char *whole = output_of(1, prompt), *divided = output_of(2, cut);
    ck_assert_str_eq(whole, divided);
    free(whole);
    free(divided);
    ck_assert_int_eq(shell_run("%s/cspeed --num_gpus 3 --oversubscribe eval out --tp 2", CS_BIN), 78);
    ck_assert(shell_says("tp 2 does not divide a world of 3"));
    shell_leave();
}
END_TEST

/* Each rank is told its place; the launcher reads the configuration as the program does. */
START_TEST(ranks_are_told_their_place_in_the_mesh)
{
    static const struct {
        const char *program, *first, *last;
    } rows[] = {
        { "/bin/sh -c 'echo $RANK $CSPEED_MESH' x --config config.json", "0 dp_replicate=0/1,dp_shard=0/2,tp=0/2\n",
          "3 dp_replicate=0/1,dp_shard=1/2,tp=1/2\n" },
        { "./eval out --tp=4", "0 dp_replicate=0/1,dp_shard=0/1,tp=0/4\n", "3 dp_replicate=0/1,dp_shard=0/1,tp=3/4\n" },
        { "./generate out --set cspeed.mesh.tp=2", "0 dp_replicate=0/2,dp_shard=0/1,tp=0/2\n",
          "3 dp_replicate=1/2,dp_shard=0/1,tp=1/2\n" },
        { "/bin/sh -c 'echo $RANK $CSPEED_MESH'", "0\n", "3\n" },
    };
    shell_enter();
    shell_write("config.json", "{\"train_micro_batch_size_per_gpu\": 1, \"zero_optimization\": {\"stage\": 2}, "
                               "\"tensor_parallel\": {\"autotp_size\": 2}}");
    shell_write("eval", "#!/bin/sh\necho $RANK $CSPEED_MESH\n");
    ck_assert_int_eq(shell_run("chmod +x eval && cp eval generate"), 0);
    setenv("CSPEED_MESH", "of another job", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[200];
        snprintf(line, sizeof line, "run %s", rows[i].program);
        char *text = output_of(4, line);
        ck_assert_msg(strstr(text, rows[i].first) && strstr(text, rows[i].last), "%s: %s", rows[i].program, text);
        free(text);
    }
    unsetenv("CSPEED_MESH");
    shell_leave();
}
END_TEST

START_TEST(a_place_of_another_mesh_is_an_error)
{
    training_prepare();
    training_config("bf16", "", 1);
    ck_assert_int_eq(shell_run("CSPEED_MESH=dp_replicate=0/1,dp_shard=0/1,tp=0/2 %s/train --config config.json",
                               CS_BIN),
                     78);
    ck_assert(shell_says("CSPEED_MESH says that rank 0 is at dp_replicate=0/1,dp_shard=0/1,tp=0/2"));
    ck_assert(shell_says("(cspeed.mesh.tp 1, dp_shard 1) of 1 ranks gives dp_replicate=0/1,dp_shard=0/1,tp=0/1"));
    shell_leave();
}
END_TEST

/* tests/peers/partition_rules.py gives DeepSpeed the same rules. */
START_TEST(rules_of_deepspeed_are_compared)
{
    static const char *const told[] = {
        "layer_specs[2] ([\"mlp\\\\.up_proj\"]) is the first rule of no matrix",
        "layer_specs[3] ([\".*up_proj.*\"]) is \"row\", but of 2 of its 2 matrices the model says otherwise: it divides the "
        "outputs of model.layers.0.mlp.up_proj.weight",
        "layer_specs[4] ([\".*gate_proj\"]) is \"skip\", but of 2 of its 2 matrices the model says otherwise: it divides the "
        "outputs of model.layers.0.mlp.gate_proj.weight",
        "layer_specs[5] ([\".*o_proj\"]) is the first rule of no matrix",
        "layer_specs[6] ([\".*norm.*\"]) is the first rule of no matrix",
        "layer_specs[7] ([\".*\"]) is the first rule of no matrix",
        "layer_specs[8] ([\"model.embed_tokens\"]) is \"column\", but of 1 of its 1 matrices the model says otherwise: it "
        "divides the outputs of model.embed_tokens.weight",
    };
    shell_enter();
    shell_write(
        "config.json",
        "{\"train_micro_batch_size_per_gpu\": 1, \"tensor_parallel\": {\"autotp_size\": 2, \"partition_config\": {"
        "\"layer_specs\": ["
        "{\"patterns\": [\".*\\\\.o_proj\\\\.weight$\", \".*\\\\.down_proj\\\\.weight$\"], \"partition_type\": \"row\"},"
        "{\"patterns\": [\".*\\\\.[qkv]_proj\\\\.weight$\"], \"partition_type\": \"COLUMN\", \"model_types\": "
        "[\"Llama\"]},"
        "{\"patterns\": [\"mlp\\\\.up_proj\"]},"
        "{\"patterns\": [\".*up_proj.*\"], \"partition_type\": \"row\"},"
        "{\"patterns\": [\".*gate_proj\"], \"partition_type\": \"skip\"},"
        "{\"patterns\": [\".*o_proj\"]},"
        "{\"patterns\": [\".*norm.*\"], \"partition_type\": \"skip\"},"
        "{\"patterns\": [\".*\"], \"model_types\": [\"gpt2\"]},"
        "{\"patterns\": [\"model.embed_tokens\"]}]}},"
        "\"cspeed\": {\"data\": {\"seq_len\": 8}, \"model\": {\"model_type\": \"llama\", \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 2, \"hidden_size\": 16, \"intermediate_size\": 32, \"max_position_embeddings\": "
        "16, \"vocab_size\": 61}}}");
    ck_assert_int_eq(shell_run("%s/cspeed train --config config.json --plan --world_size 2", CS_BIN), 0);
    char *text = shell_read("out.txt", NULL);
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        ck_assert_msg(strstr(text, told[i]) != NULL, "no \"%s\" in\n%s", told[i], text);
    ck_assert_ptr_null(strstr(text, "layer_specs[0]"));
    ck_assert_ptr_null(strstr(text, "layer_specs[1]"));
    free(text);
    ck_assert_int_eq(shell_run("%s/cspeed train --config config.json --plan --world_size 2 --set "
                               "'tensor_parallel.partition_config={\"layer_specs\": [{\"patterns\": [\"(\"]}]}'",
                               CS_BIN),
                     78);
    ck_assert(shell_says("patterns[0] of layer_specs[0] is (: a regular expression of names is needed"));
    shell_leave();
}
END_TEST

SUITE_MAIN("mesh_programs", eval_and_generate_take_tp, ranks_are_told_their_place_in_the_mesh,
           a_place_of_another_mesh_is_an_error, rules_of_deepspeed_are_compared)
