/* test_llama.c - tiny models of the Llama family compared with transformers: logits, gradients, ten losses and
 * gradient norms. */
#include "against.h"
#include "runs.h"
#include "suite.h"

#include <string.h>

static const char *const models[] = { "llama", "llama3", "linear", "yarn", "mistral", "qwen2", "qwen3" };
enum { MODELS = sizeof models / sizeof *models };

/* bf16 has 8 bits of precision; in models as small as these, a single rounding changes logits and losses visibly. */
static void against(const char *model, const char *precision, const char *recompute)
{
    bool fp32 = strcmp(precision, "fp32") == 0;
    against_transformers(
        &(against_case){ .golden = "llama_tiny.golden",
                         .model = model,
                         .precision = precision,
                         .recompute = recompute,
                         .gradients = fp32 && (strcmp(model, "llama3") == 0 || strcmp(model, "qwen3") == 0),
                         .logits = fp32 ? 1e-5 : 4e-2,
                         .losses = fp32 ? 1e-5 : 1e-2 });
}

START_TEST(fp32)
{
    for (int i = 0; i < MODELS; i++)
        against(models[i], "fp32", "none");
}
END_TEST

START_TEST(fp32_recomputed)
{
    against("qwen3", "fp32", "unit");
    against("mistral", "fp32", "unit");
}
END_TEST

START_TEST(bf16)
{
    for (int i = 0; i < MODELS; i++)
        against(models[i], "bf16", "none");
}
END_TEST

/* At all stages the losses and the gradient norms are equal bit for bit, with and without recomputation. */
START_TEST(stages_alike)
{
    run_spec spec = { .world = 2,
                      .steps = 6,
                      .precision = "fp32",
                      .prefetch = 1,
                      .set = { "cspeed.model={\"model_type\": \"qwen3\", \"vocab_size\": 61, \"hidden_size\": 24, "
                               "\"intermediate_size\": 36, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
                               "\"num_key_value_heads\": 2, \"head_dim\": 6, \"max_position_embeddings\": 16, "
                               "\"initializer_range\": 0.1}" } };
    run_result first_run, other;
    run_train(&spec, &first_run);
    ck_assert_double_lt(first_run.loss[5], first_run.loss[0]);
    for (spec.stage = 1; spec.stage <= 3; spec.stage++) {
        spec.recompute = spec.stage % 2 ? "unit" : "none";
        run_train(&spec, &other);
        ck_assert_msg(memcmp(first_run.loss, other.loss, 6 * sizeof(double)) == 0, "stage %d", spec.stage);
        ck_assert_msg(memcmp(first_run.norm, other.norm, 6 * sizeof(double)) == 0, "stage %d", spec.stage);
    }
}
END_TEST

SUITE_MAIN("llama", fp32, fp32_recomputed, bf16, stages_alike)
