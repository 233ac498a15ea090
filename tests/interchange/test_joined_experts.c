/* test_joined_experts.c - gpt-oss in Hugging Face folders: all experts of a layer in one tensor, and weights of 4 bits
 * (MXFP4). tests/golden/make_mxfp4.py made the folder mxfp4 and what transformers computes for it. */
#include "near.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"
#include "core/engine.h"
#include "interchange/huggingface.h"
#include "interchange/joined_experts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER CS_TESTS "/golden/mxfp4"
enum { BATCH = 2, LENGTH = 8, LOGITS = BATCH * LENGTH * RUN_VOCABULARY };

static cs_engine *open_engine(const char *folder)
{
    char model[512];
    run_spec spec = { .world = 1, .steps = 1, .micro = BATCH, .precision = "fp32", .set = { model } };
    snprintf(model, sizeof model, "cspeed.model=\"%s\"", folder);
    return run_open(&spec, NULL);
}

static void check_logits(const char *folder, const char *theirs)
{
    int32_t tokens[BATCH * LENGTH];
    size_t bytes;
    cs_tensor output;
    cs_engine *engine = open_engine(folder);
    for (int i = 0; i < BATCH * LENGTH; i++)
        tokens[i] = 7 * i % RUN_VOCABULARY; /* as tests/peers/hf_logits.py */
    cs_batch batch = { .inputs = cs_matrix(tokens, CS_I32, BATCH, LENGTH) };
    CS_MUST(cs_predict(engine, &batch, &output));
    char *text = shell_read(theirs, &bytes);
    ck_assert_uint_eq(bytes, LOGITS * sizeof(float));
    ck_assert(near_tensors(folder, cs_vector(output.data, CS_F32, LOGITS), cs_vector(text, CS_F32, LOGITS), 1e-5));
    free(text);
    cs_destroy(engine);
}

/* Compares a tensor of a folder with bytes, which begin at `at`. Returns the number of bytes. */
static size_t check_tensor(const char *folder, const char *name, const char *at, const int64_t shape[3])
{
    ce_source source;
    int64_t count = shape[0] * shape[1] * shape[2];
    uint16_t *values = malloc((size_t)count * sizeof *values);
    CS_MUST(ce_huggingface_open(&source, folder));
    int64_t tensor = ce_source_find(&source, name);
    ck_assert_msg(tensor >= 0, "%s", name);
    ck_assert(source.tensors[tensor].dtype == CS_BF16 && source.tensors[tensor].dims == 3);
    ck_assert_mem_eq(source.tensors[tensor].shape, shape, 3 * sizeof *shape);
    CS_MUST(source.read(&source, tensor, (ce_range){ 0, count }, values, CS_BF16));
    ck_assert_mem_eq(values, at, (size_t)count * sizeof *values);
    ce_source_close(&source);
    free(values);
    return (size_t)count * sizeof *values;
}

static void check_experts(const char *folder)
{
    size_t bytes;
    char *theirs = shell_read(FOLDER "/experts.bin", &bytes);
    size_t first =
        check_tensor(folder, "model.layers.0.mlp.experts.gate_up_proj", theirs, (const int64_t[]){ 3, 32, 64 });
    check_tensor(folder, "model.layers.0.mlp.experts.down_proj", theirs + first, (const int64_t[]){ 3, 32, 32 });
    ck_assert_int_ne(shell_run("grep -q quantization_config %s/config.json", folder), 0);
    free(theirs);
}

START_TEST(four_bits_are_the_numbers_of_transformers)
{
    shell_enter();
    check_logits(FOLDER, FOLDER "/logits.bin");
    ck_assert_int_eq(shell_run("%s/cspeed import " FOLDER " numbers --dtype bf16", CS_BIN), 0);
    check_experts("numbers");
    check_logits("numbers", FOLDER "/logits.bin");
    cs_engine *engine = open_engine(FOLDER);
    CS_MUST(cs_save_checkpoint(engine, "saved", "t", NULL));
    cs_destroy(engine);
    ck_assert_int_eq(shell_run("%s/cspeed export saved out --dtype bf16 --max_shard 9KB", CS_BIN), 0);
    check_experts("out");
    check_logits("out", FOLDER "/logits.bin");
    shell_leave();
}
END_TEST

/* ---- refusals ---- */

static void refused(const char *change, int code, const char *sentence)
{
    ck_assert_int_eq(shell_run("rm -rf a && cp -r " FOLDER
                               " a && LC_ALL=C sed -i '%s' a/model.safetensors a/config.json",
                               change),
                     0);
    shell_expect(code, sentence, "import a b");
    ck_assert_int_ne(access("b", F_OK), 0);
}

START_TEST(what_is_no_mxfp4_is_refused)
{
    shell_enter();
    refused("s/gate_up_proj_scales/gate_up_proj_scalez/g", 65,
            "gate_up_proj_scales, bytes of the same experts, outputs and groups, is missing");
    refused("s/\\[3,64,1\\]/[3,32,2]/g", 65, "is of another shape or type");
    refused("s/\"mxfp4\"/\"fp8\"/", 78, "quantization_config, because its quant_method is not \"mxfp4\"");
    shell_leave();
}
END_TEST

SUITE_MAIN("joined_experts", four_bits_are_the_numbers_of_transformers, what_is_no_mxfp4_is_refused)
