/* test_check_model.c - `cspeed check MODEL`: every key, tensor and part of a tokenizer that is not understood is named. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include "base/must.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define MODEL                                                                                                          \
    "{\"model_type\": \"llama\", \"vocab_size\": 256, \"hidden_size\": 64, \"intermediate_size\": 96, "                \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"max_position_embeddings\": 64}"

/* Makes the folder `good` and the file `good.gguf`. */
static void prepare(void)
{
    training_prepare();
    training_config("bf16", "", 0);
    training_run(1, "--steps 1 --set 'cspeed.model=" MODEL "'");
    shell_expect(0, "tensors", "export out good");
    shell_expect(0, "tensors", "export out good.gguf --gguf f16");
}

/* Replaces a part of the header of the weights by another one of the same length. */
static void patch(const char *find, const char *put)
{
    size_t size;
    char *bytes = shell_read("good/model.safetensors", &size);
    char *place = memmem(bytes, size, find, strlen(find));
    ck_assert_ptr_nonnull(place);
    memcpy(place, put, strlen(put));
    ck_assert_int_eq(shell_run("cp -r good bad"), 0);
    FILE *file = fopen("bad/model.safetensors", "w");
    fwrite(bytes, 1, size, file);
    fclose(file);
    free(bytes);
}

START_TEST(models_are_understood_or_not)
{
    prepare();
    shell_expect(0, "(LlamaForCausalLM), 21 tensors, 102720 parameters\ntokenizer: there is none\nall is understood",
                 "check ./good");
    shell_expect(0, "all is understood", "check good");
    shell_expect(0, "all is understood", "check good.gguf");
    shell_expect(66, "no/model: no such model", "check no/model");
    patch("model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.up_pruj.weight");
    shell_expect(78, "missing    model.layers.1.mlp.up_proj.weight: [96, 64] is needed, and not there\n", "check bad");
    ck_assert(shell_says("tensor     model.layers.1.mlp.up_pruj.weight: [96, 64]: the model has no such tensor\n"));
    ck_assert(shell_says("not understood: 2 things\n"));
    ck_assert_int_eq(shell_run("rm -r bad"), 0);
    patch("\"shape\":[256,64]", "\"shape\":[64,256]");
    shell_expect(78, ": is [64, 256] and should be [256, 64]\n", "check bad");
    ck_assert_int_eq(shell_run("sed -i 's/\"hidden_size\"/\"logit_scale\": 3, \"rope_thetta\": 1, \"hidden_size\"/' "
                               "bad/config.json && printf '{}' > bad/tokenizer.json"),
                     0);
    shell_expect(78, "key        logit_scale: ", "check bad");
    ck_assert(shell_says("key        rope_thetta: ") && shell_says("shape      ") && shell_says("tokenizer  bad: "));
    ck_assert_int_eq(shell_run("sed -i 's/\"num_attention_heads\": 4/\"num_attention_heads\": 7/' bad/config.json"), 0);
    shell_expect(78, "heads are 9 wide (head_dim): it must be even", "check bad");
    ck_assert_int_eq(shell_run("rm bad/model.safetensors && printf '{\"model_type\": \"mamba\"}' > bad/config.json"),
                     0);
    shell_expect(78, "model_type \"mamba\" is not built in", "check bad");
    shell_leave();
}
END_TEST

START_TEST(reports_are_json)
{
    prepare();
    patch("model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.up_pruj.weight");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed check bad --json > report.json"), 78);
    json_t *report = json_load_file("report.json", 0, NULL);
    const json_t *one = json_array_get(json_object_get(report, "problems"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(report, "tensors")), 21);
    ck_assert_str_eq(json_string_value(json_object_get(report, "model_type")), "llama");
    ck_assert_str_eq(json_string_value(json_object_get(one, "what")), "missing");
    ck_assert_str_eq(json_string_value(json_object_get(one, "name")), "model.layers.1.mlp.up_proj.weight");
    json_decref(report);
    shell_leave();
}
END_TEST

/* All tensors of a GGUF file are named, not only the first one. */
START_TEST(gguf_files_are_understood_or_not)
{
    prepare();
    ck_assert_int_eq(shell_run("LC_ALL=C sed 's/ffn_up/ffn_op/g' good.gguf > bad.gguf"), 0);
    shell_expect(78, "tensor     blk.0.ffn_op.weight: the architecture has no such tensor\n", "check bad.gguf");
    ck_assert(shell_says("tensor     blk.1.ffn_op.weight: the architecture has no such tensor\n"));
    ck_assert_int_eq(shell_run("LC_ALL=C sed 's/llama.vocab_size/llama.vocab_sizd/' good.gguf > bad.gguf"), 0);
    shell_expect(78, "keys of which it is not known what they change: llama.vocab_sizd", "check bad.gguf");
    ck_assert_int_eq(shell_run("head -c 1000 good.gguf > bad.gguf"), 0);
    shell_expect(78, "file       bad.gguf: ", "check bad.gguf");
    shell_leave();
}
END_TEST

SUITE_MAIN("check_model", models_are_understood_or_not, reports_are_json, gguf_files_are_understood_or_not)
