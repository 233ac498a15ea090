/* test_qlora.c - training adapters beside weights of 4 bits, as a user does: losses are those of PEFT and bitsandbytes,
 * from numbers and from a folder that is quantised; stages and ranks give the same; training resumes at another world
 * size; the merged model is what was trained; memory is what is planned; mistakes are named. */
#include "golden.h"
#include "shell.h"
#include "suite.h"

#include "cspeed/cspeed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GOLDEN CS_SOURCE "/tests/golden/"
enum { STEPS = 10, LENGTH = 16, BATCH = 4 };

/* Writes the golden tokens as a token shard, and a configuration q.json. */
static void prepare(void)
{
    golden *file = golden_open(GOLDEN "four_bit.golden");
    cs_tensor tokens = golden_tensor(file, "tokens");
    uint16_t shard[STEPS * BATCH * LENGTH + 1];
    FILE *out = fopen("train.bin", "wb");
    for (size_t i = 0; i < sizeof shard / sizeof *shard; i++)
        shard[i] = (uint16_t)((const int32_t *)tokens.data)[i];
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(shard, 1, sizeof shard, out), sizeof shard);
    fclose(out);
    golden_close(file);
    shell_write(
        "q.json",
        "{\"train_batch_size\": 4, \"gradient_clipping\": 0, \"scheduler\": null,\n"
        " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-2, \"betas\": [0.9, 0.999], \"eps\": 1e-8, "
        "\"weight_decay\": 0.1}},\n"
        " \"cspeed\": {\"model\": \"" GOLDEN "four_bit/base\",\n"
        "  \"lora\": {\"adapter\": \"" GOLDEN "four_bit/adapter\"},\n"
        "  \"quantization_config\": {\"load_in_4bit\": true},\n"
        "  \"data\": {\"train\": \"train.bin\", \"valid\": [], \"seq_len\": 16, \"shuffle\": false},\n"
        "  \"steps\": 10, \"threads\": 1, \"products\": \"fixed\", \"save_interval\": 0, \"eval_interval\": 0, "
        "\"metrics\": \"metrics.jsonl\"}}\n");
}

static void train(const char *launcher, const char *more, const char *output)
{
    int code = shell_run(CS_BIN "/%strain --config q.json --output %s %s", launcher, output, more);
    ck_assert_msg(code == 0, "%s", shell_read("out.txt", NULL));
}

/* Reads the losses of a run's steps. */
static int losses_of(const char *run, double *losses)
{
    char path[128];
    int count = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    char *text = shell_read(path, NULL);
    for (char *at = text; (at = strstr(at, "\"loss\": ")) != NULL && count < STEPS; at++)
        losses[count++] = atof(at + strlen("\"loss\": "));
    free(text);
    return count;
}

static void check_losses(const char *run, double bound)
{
    golden *file = golden_open(GOLDEN "four_bit.golden");
    cs_tensor expected = golden_tensor(file, "losses");
    double losses[STEPS];
    ck_assert_int_eq(losses_of(run, losses), STEPS);
    for (int i = 0; i < STEPS; i++)
        ck_assert_double_le(fabs(losses[i] / (double)cs_element(expected, i) - 1), bound);
    golden_close(file);
}

START_TEST(losses_are_those_of_bitsandbytes)
{
    shell_enter();
    prepare();
    train("", "", "numbers");
    check_losses("numbers", 1e-6);
    train("", "--set cspeed.model=" GOLDEN "four_bit/packed", "packed");
    check_losses("packed", 1e-6);
    train("", "--set cspeed.model=" GOLDEN "four_bit/packed --set bf16.enabled=true", "bf16");
    check_losses("bf16", 0.02);
    for (int stage = 0; stage < 4; stage++) {
        char set[96], output[8];
        snprintf(set, sizeof set, "--set zero_optimization.stage=%d --set cspeed.recompute=unit", stage);
        snprintf(output, sizeof output, "s%d", stage);
        train("cspeed --num_gpus 2 --oversubscribe ", set, output);
        check_losses(output, 1e-6);
    }
    shell_leave();
}
END_TEST

/* The bits of the base model do not depend on ranks and stage: the merged weights of checkpoints that were trained not at
 * all are equal. */
START_TEST(checkpoints_are_the_same_at_every_stage)
{
    shell_enter();
    prepare();
    train("", "--steps 1 --set optimizer.params.lr=0", "one");
    train("cspeed --num_gpus 3 --oversubscribe ",
          "--steps 1 --set optimizer.params.lr=0 --set train_batch_size=3 --set zero_optimization.stage=3", "three");
    shell_expect(0, "", "export one merged --merge");
    shell_expect(0, "", "export three merged3 --merge");
    ck_assert_int_eq(shell_run("cmp merged/model.safetensors merged3/model.safetensors"), 0);
    shell_leave();
}
END_TEST

START_TEST(training_resumes_and_is_merged)
{
    double whole[STEPS], parts[STEPS];
    shell_enter();
    prepare();
    train("", "", "whole");
    train("cspeed --num_gpus 2 --oversubscribe ", "--steps 6 --set zero_optimization.stage=3", "parts");
    train("", "--steps 10", "parts");
    ck_assert_int_eq(losses_of("whole", whole), STEPS);
    ck_assert_int_eq(losses_of("parts", parts), STEPS);
    for (int i = 0; i < STEPS; i++)
        ck_assert_double_le(fabs(whole[i] / parts[i] - 1), 1e-5);
    shell_expect(0, "rounding", "export parts merged --merge --dtype bf16");
    shell_expect(0, "first values", "eval merged --data train.bin --seq_len 16");
    shell_expect(0, "", "eval parts --data train.bin --seq_len 16");
    shell_expect(0, "", "export parts adapter");
    shell_expect(0, "", "eval " GOLDEN "four_bit/packed --adapter adapter --data train.bin --seq_len 16");
    shell_leave();
}
END_TEST

START_TEST(mistakes_are_named)
{
    shell_enter();
    prepare();
    static const struct {
        int code;
        const char *set, *words;
    } wrong[] = {
        { 78, "--set cspeed.quantization_config.load_in_8bit=true", "8 bits are not implemented" },
        { 78, "--set cspeed.quantization_config.bnb_4bit_compute_dtype=bfloat16", "not the type of products" },
        { 78, "--set cspeed.quantization_config.bnb_4bit_quant_type=int4", "nf4" },
        { 78, "--set cspeed.quantization_config.llm_int8_skip_modules=3", "list of names" },
        { 78, "--set cspeed.quantization_config.llm_int8_skip_modules='[\"k_proj\"]'", "must name both or none" },
        { 78, "--set cspeed.lora='{}'", "cannot be trained" },
        { 78,
          "--set cspeed.lora='{}' --set cspeed.quantization_config='{}' --set cspeed.model=" GOLDEN "four_bit/packed",
          "cannot be trained" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int code = shell_run(CS_BIN "/train --config q.json --output wrong %s", wrong[i].set);
        shell_ended(wrong[i].code, code, wrong[i].words);
    }
    int code = shell_run(CS_BIN "/cspeed --num_gpus 2 --oversubscribe train --tp 2 --config q.json --output wrong");
    ck_assert_int_ne(code, 0);
    ck_assert(shell_says("with tensor parallelism"));
    shell_leave();
}
END_TEST

/* Llama 2 7B: 32 blocks of 202,383,360 elements, table and head of 131,072,000 each. */
START_TEST(seven_billion_fit_below_four_gigabytes)
{
    cs_config *config;
    cs_memory memory;
    int64_t parameters, linear = 32LL * (4 * 4096 * 4096 + 3 * 4096 * 11008), norms = 65 * 4096;
    int64_t blocks = linear / 64, adapters = 32LL * 16 * 2 * 2 * 4096;
    shell_enter();
    shell_write("7b.json",
                "{\"train_batch_size\": 1, \"bf16\": {\"enabled\": true}, \"optimizer\": {\"type\": \"AdamW\"},\n"
                " \"cspeed\": {\"model\": {\"model_type\": \"llama\", \"vocab_size\": 32000, \"hidden_size\": 4096, "
                "\"intermediate_size\": 11008, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
                "\"max_position_embeddings\": 4096}, \"lora\": {\"r\": 16}, \"data\": {\"seq_len\": 64},\n"
                "  \"recompute\": \"unit\", \"quantization_config\": {\"load_in_4bit\": true}}}\n");
    CS_MUST(cs_config_open(&config, "7b.json"));
    CS_MUST(cs_estimate(config, &memory, &parameters));
    int64_t padding = 32 * 36; /* rows are multiples of 64 bytes */
    int64_t base = linear / 2 + blocks + 4 * blocks / 256 + 4 * 32 * 7 + padding + 2 * (2 * 131072000LL + norms);
    ck_assert_int_eq((int64_t)memory.values, base + 2 * adapters);
    ck_assert_int_le(base, 3900000000LL);
    shell_leave();
}
END_TEST

SUITE_MAIN("qlora", losses_are_those_of_bitsandbytes, checkpoints_are_the_same_at_every_stage,
           training_resumes_and_is_merged, mistakes_are_named, seven_billion_fit_below_four_gigabytes)
