/* test_estimate.c - cs_estimate: the memory that it computes for every rank is the memory of a real run. */
#include "suite.h"
#include "runs.h"
#include "shell.h"

#include "json/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void estimate(const run_spec *spec, cs_memory *memory)
{
    char path[4096];
    cs_config *config;
    int64_t parameters;
    run_write_config(spec, path, sizeof path);
    CS_MUST(cs_config_open(&config, path));
    unlink(path);
    for (int i = 0; i < RUN_SETS && spec->set[i]; i++)
        CS_MUST(cs_config_set(config, spec->set[i]));
    cs_config_for_world(config, spec->world, spec->host ? spec->host : spec->world);
    CS_MUST(cs_estimate(config, memory, &parameters));
    ck_assert_int_eq(parameters, 23568);
}

#define COPY "cspeed.async_save=true"

static void check_same(const run_spec *spec)
{
    cs_memory told[RUN_RANKS];
    run_result result;
    estimate(spec, told);
    run_train(spec, &result);
    for (int rank = 0; rank < spec->world; rank++) {
        const cs_memory *run = &result.memory[rank];
        ck_assert_uint_gt(told[rank].values, 0);
        ck_assert_uint_eq(told[rank].values, run->values);
        ck_assert_uint_eq(told[rank].gradients, run->gradients);
        ck_assert_uint_eq(told[rank].masters, run->masters);
        ck_assert_uint_eq(told[rank].slots, run->slots);
        ck_assert_uint_eq(told[rank].value_rows, run->value_rows);
        ck_assert_uint_eq(told[rank].gradient_rows, run->gradient_rows);
        ck_assert_uint_eq(told[rank].activations, run->activations);
        ck_assert_uint_eq(told[rank].copy, run->copy);
        ck_assert_int_eq(told[rank].copy > 0, spec->set[0] && strcmp(spec->set[0], COPY) == 0);
        ck_assert_uint_eq(told[rank].sent, run->sent);
        ck_assert_uint_eq(told[rank].sent_by[CS_AXIS_REPLICATE].all, run->sent_by[CS_AXIS_REPLICATE].all);
        ck_assert_uint_eq(told[rank].prediction, run->prediction);
        ck_assert_uint_eq(told[rank].workspace, 0);
    }
}

START_TEST(estimated_memory_is_allocated_memory)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int world = 1; world <= 3; world += stage % 2 + 1)
            check_same(&(run_spec){ .world = world,
                                    .stage = stage,
                                    .steps = 1,
                                    .prefetch = 1,
                                    .precision = stage % 2 ? "bf16" : "fp32",
                                    .recompute = world > 1 ? "unit" : "none",
                                    .set = { world > 1 ? COPY : NULL } });
}
END_TEST

/* Hybrid sharding, in three cases: a group is a host of two ranks; a host has two groups; a group spans two hosts. */
START_TEST(groups_need_what_was_estimated)
{
    static const int hosts[] = { 2, 4, 1 };
    for (int stage = 1; stage <= 3; stage++)
        check_same(&(run_spec){ .world = 4,
                                .stage = stage,
                                .steps = 1,
                                .prefetch = 1,
                                .precision = "bf16",
                                .host = hosts[stage - 1],
                                .set = { COPY, "zero_optimization.mics_shard_size=2" } });
    check_same(&(run_spec){ .world = 4,
                            .stage = 3,
                            .steps = 1,
                            .prefetch = 1,
                            .precision = "bf16",
                            .host = 2,
                            .set = { "zero_optimization.mics_shard_size=2", "communication_data_type=bf16",
                                     "zero_optimization.reduce_bucket_size=5e8" } });
}
END_TEST

/* ---- tensor parallelism ---- */

enum { TOKENS = 2 * 8, WIDTH = 32 };

static size_t sent_tp(const char *model, int layers, bool sequence)
{
    cs_config *config;
    cs_memory memory[2];
    int64_t parameters;
    char text[1024];
    snprintf(text, sizeof text,
             "{ \"train_micro_batch_size_per_gpu\": 2, \"optimizer\": { \"type\": \"AdamW\" }, \"cspeed\": {\n"
             "  \"mesh\": { \"tp\": 2, \"sequence\": %s }, \"data\": { \"seq_len\": 8 }, \"model\": { %s,\n"
             "  \"num_hidden_layers\": %d, \"num_attention_heads\": 4, \"hidden_size\": %d, \"vocab_size\": 32 } } }\n",
             sequence ? "true" : "false", model, layers, WIDTH);
    shell_write("tp.json", text);
    CS_MUST(cs_config_open(&config, "tp.json"));
    cs_config_for_world(config, 2, 2);
    CS_MUST(cs_estimate(config, memory, &parameters));
    return memory[0].sent_by[CS_AXIS_TP].all;
}

/* How often one block of a model sends the tokens of a micro-batch to the other of two ranks, as sums (whole), or as
 * rows that a rank has of them (half). Attention and feed-forward of a parallel block have one sum together in forward,
 * and one in backward too, except that two norms keep two sums apart if each rank has only its rows of their input. */
START_TEST(a_parallel_block_adds_up_once)
{
    static const struct {
        const char *model;
        int whole, half;           /* without and with sequence parallelism */
        int partial, partial_rows; /* vectors of WIDTH elements whose gradients are added up, in the same two cases */
    } blocks[] = {
        { "\"model_type\": \"falcon\", \"multi_query\": false, \"parallel_attn\": false", 4, 10, 0, 4 },
        { "\"model_type\": \"falcon\", \"multi_query\": false", 2, 7, 0, 2 },
        { "\"model_type\": \"gpt_neox\", \"use_parallel_residual\": false, \"intermediate_size\": 96", 4, 10, 0, 4 },
        { "\"model_type\": \"gpt_neox\", \"intermediate_size\": 96", 2, 8, 4, 4 },
    };
    size_t vector = WIDTH * sizeof(float), tokens = TOKENS * vector;
    shell_enter();
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        size_t whole = sent_tp(blocks[i].model, 2, false) - sent_tp(blocks[i].model, 1, false);
        size_t half = sent_tp(blocks[i].model, 2, true) - sent_tp(blocks[i].model, 1, true);
        ck_assert_uint_eq(whole, (size_t)blocks[i].whole * tokens + (size_t)blocks[i].partial * vector);
        ck_assert_uint_eq(half, (size_t)blocks[i].half * tokens / 2 + (size_t)blocks[i].partial_rows * vector);
    }
    shell_leave();
}
END_TEST

/* ---- the output of train ---- */

static void write_config(const char *path)
{
    shell_write(path, "{ \"train_micro_batch_size_per_gpu\": 2, \"optimizer\": { \"type\": \"AdamW\" },\n"
                      "  \"bf16\": { \"enabled\": true }, \"zero_optimization\": { \"stage\": 2 },\n"
                      "  \"cspeed\": { \"data\": { \"seq_len\": 8 }, \"model\": { \"model_type\": \"gpt2\",\n"
                      "    \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 16, \"n_positions\": 8,\n"
                      "    \"vocab_size\": 32 } } }\n");
}

/* Returns the bytes of the first rank in the line of the table that begins with the label. */
static size_t bytes_of(const char *name)
{
    char *out = shell_read("out.txt", NULL);
    char *line = strstr(out, name);
    size_t bytes = 0;
    ck_assert_msg(line && sscanf(line + strlen(name), "%zu", &bytes) == 1, "no \"%s\" in\n%s", name, out);
    free(out);
    return bytes;
}

/* Over 4 ranks the 640 elements of the embeddings are padded to 768, the 3280 of the block to 3328, and the 32 of the
 * last norm to 256. */
START_TEST(train_prints_the_plan)
{
    size_t padded = 768 + 3328 + 256;
    shell_enter();
    write_config("config.json");
    ck_assert_int_eq(shell_run("%s/train --config config.json --plan --world_size 4", CS_BIN), 0);
    ck_assert_uint_eq(bytes_of("  parameters"), padded * 2);
    ck_assert_uint_eq(bytes_of("  gradients  "), padded);
    ck_assert_uint_eq(bytes_of("  master parameters"), padded);
    ck_assert_uint_eq(bytes_of("  optimizer states"), padded * 2);
    ck_assert_uint_eq(bytes_of("  between steps"), padded * 6);
    ck_assert_int_eq(shell_run("%s/train --config config.json --world_size 4", CS_BIN), 64);
    ck_assert_int_eq(shell_run("%s/train --config config.json --plan --world_size 0", CS_BIN), 64);
    shell_leave();
}
END_TEST

START_TEST(train_lists_the_units)
{
    shell_enter();
    write_config("config.json");
    ck_assert_int_eq(shell_run("%s/train --config config.json --plan=units --world_size 4 --set "
                               "zero_optimization.stage=3 | tr -s ' '",
                               CS_BIN),
                     0);
    ck_assert(
        shell_says("unit elements bytes bytes of a rank\ntransformer 640 1536 384\ntransformer.h.0 3280 6656 1664\n"));
    ck_assert(shell_says("head 32 512 128\n"));
    ck_assert_int_eq(shell_run("%s/train --config config.json --plan=units --world_size 4 | tr -s ' '", CS_BIN), 0);
    ck_assert(shell_says("\ntransformer.h.0 3280 6656 6656\n")); /* stage 2 shards no parameters */
    shell_leave();
}
END_TEST

/* What each of two ranks holds: a fused matrix is three ranges of columns, norms are copies. */
START_TEST(train_lists_the_cuts)
{
    shell_enter();
    write_config("config.json");
    ck_assert_int_eq(shell_run("%s/train --config config.json --plan=cuts --world_size 4 --set cspeed.mesh.tp=2 | "
                               "tr -s ' '",
                               CS_BIN),
                     0);
    ck_assert(shell_says("parameter shape rank 0 rank 1 gradient of copies\n"));
    ck_assert(shell_says("transformer.wte.weight 32 x 16 rows 0-15 rows 16-31"));
    ck_assert(shell_says("attn.c_attn.weight 16 x 48 columns 0-7, 16-23, 32-39 columns 8-15, 24-31, 40-47"));
    ck_assert(shell_says("attn.c_proj.weight 16 x 16 rows 0-7 rows 8-15"));
    ck_assert(shell_says("transformer.ln_f.bias 16 all all equal\n"));
    ck_assert_int_eq(shell_run("%s/train --config config.json --plan=cuts --world_size 4 --set cspeed.mesh.tp=2 --set "
                               "cspeed.mesh.sequence=true | tr -s ' '",
                               CS_BIN),
                     0);
    ck_assert(shell_says("transformer.ln_f.bias 16 all all summed\n"));
    shell_leave();
}
END_TEST

/* On a GPU a vocabulary of 32 rows is padded to 128. The plan counts 96 more rows of 16 elements, and prints the
 * padding. */
START_TEST(the_plan_shows_a_padded_vocabulary)
{
    shell_enter();
    write_config("config.json");
    ck_assert_int_eq(shell_run("%s/train --config config.json --plan --world_size 4 --set cspeed.device=cpu", CS_BIN),
                     0);
    ck_assert_uint_eq(bytes_of("  vocabulary padding in that"), 0);
    ck_assert_uint_eq(bytes_of("  pinned for checkpoints"), 0);
    ck_assert(!shell_says("is held as"));
    ck_assert_int_eq(shell_run("%s/train --config config.json --plan --world_size 4 --set cspeed.device=cuda", CS_BIN),
                     0);
    ck_assert_uint_eq(bytes_of("  parameters"), (768 + 96 * 16 + 3328 + 256) * 2);
    ck_assert_uint_gt(bytes_of("  vocabulary padding in that"), 96 * 16 * 2);
    ck_assert_uint_gt(bytes_of("  pinned for checkpoints"), 0);
    ck_assert(shell_says("the 32 tokens have 128 rows on the GPU"));
    shell_leave();
}
END_TEST

/* The output is one JSON object, in which memory is a member. */
static void check_json(const char *path)
{
    char *text = shell_read(path, NULL);
    json_t *whole = ce_json_strict(text, strlen(text));
    const json_t *memory = json_object_get(whole, "memory"), *ranks = json_object_get(memory, "ranks");
    const json_t *first = json_array_get(ranks, 0);
    ck_assert_msg(whole != NULL, "%s: %s", cs_error(), text);
    ck_assert_int_eq(json_integer_value(json_object_get(whole, "world_size")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(memory, "parameter_count")), 3952);
    ck_assert_uint_eq(json_array_size(ranks), 1);
    ck_assert_int_eq(json_integer_value(json_object_get(first, "last_rank")), 1);
    ck_assert_int_eq(json_integer_value(json_object_get(first, "parameters")), (640 + 3328 + 128) * 2);
    ck_assert_int_eq(json_integer_value(json_object_get(first, "async_save_copy")), 0);
    json_decref(whole);
    free(text);
}

START_TEST(the_launcher_shows_it)
{
    shell_enter();
    write_config("config.json");
    ck_assert_int_eq(shell_run("%s/cspeed --num_gpus 2 --oversubscribe plan train --config config.json", CS_BIN), 0);
    ck_assert_uint_eq(bytes_of("  parameters"), (640 + 3328 + 128) * 2);
    ck_assert(shell_says("memory of a rank: 3952 parameters, bf16, ZeRO-2, micro-batch 2, world size 2"));
    ck_assert_int_eq(shell_run("%s/cspeed --num_gpus 2 --oversubscribe --dry_run train --config config.json", CS_BIN),
                     0);
    ck_assert_uint_eq(bytes_of("  parameters"), (640 + 3328 + 128) * 2);
    ck_assert_int_eq(shell_run("%s/cspeed --num_gpus 2 --oversubscribe plan --json train --config config.json "
                               ">plan.json",
                               CS_BIN),
                     0);
    check_json("plan.json");
    ck_assert_int_eq(shell_run("%s/cspeed plan --json /bin/echo --config >plan.json", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s/cspeed plan --json train --config missing.json", CS_BIN), 66);
    ck_assert_int_eq(shell_run("%s/cspeed plan train --config missing.json", CS_BIN), 66);
    ck_assert_int_eq(shell_run("%s/cspeed plan train --config config.json --world_size 8", CS_BIN), 64);
    ck_assert(shell_says("plan: --world_size is an option of `train --plan`,"));
    ck_assert_int_eq(shell_run("%s/cspeed plan train --config config.json --local_size=2", CS_BIN), 64);
    ck_assert(shell_says("plan: --local_size is an option of `train --plan`,"));
    shell_leave();
}
END_TEST

START_TEST(the_order_of_hosts_does_not_matter)
{
    static const char *const hosts[] = { "a:1,b:1,c:2", "c:2,b:1,a:1" }, *const counts[] = { "1,1,2", "2,1,1" };
    char sentence[64];
    shell_enter();
    write_config("config.json");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(
            shell_run("%s/cspeed --hosts %s plan train --config config.json --set train_batch_size=8 --set "
                      "zero_optimization.stage=3 --set cspeed.fsdp.sharding_strategy=HYBRID_SHARD",
                      CS_BIN, hosts[i]),
            78);
        snprintf(sentence, sizeof sentence, "the hosts have %s ranks, and HYBRID_SHARD", counts[i]);
        ck_assert(shell_says(sentence));
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("estimate", estimated_memory_is_allocated_memory, groups_need_what_was_estimated,
           a_parallel_block_adds_up_once, train_prints_the_plan, train_lists_the_units, train_lists_the_cuts,
           the_plan_shows_a_padded_vocabulary, the_launcher_shows_it, the_order_of_hosts_does_not_matter)
