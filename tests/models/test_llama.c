/* test_llama.c - tiny models of the Llama family compared with transformers: logits, gradients, ten losses and
 * gradient norms. */
#include "suite.h"
#include "golden.h"
#include "near.h"
#include "pieces.h"
#include "runs.h"
#include "engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 2, LENGTH = 9, STEPS = 10 };

static const char *const config_text =
    "{ \"train_batch_size\": 2, \"gradient_clipping\": 1.0, \"%s\": { \"enabled\": %s },\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-3, \"betas\": [0.9, 0.95], \"eps\": 1e-8, "
    "\"weight_decay\": 0.1 } },\n"
    "  \"cspeed\": { \"device\": \"%s\", \"data\": { \"seq_len\": 9 }, \"recompute\": \"%s\", \"threads\": 1, "
    "\"model\": %s } }\n";

static golden *file;

static cs_tensor entry(const char *model, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s.%s", model, name);
    return golden_tensor(file, full);
}

static const float *value_of(const ce_unit_entry *of, const void *model)
{
    cs_tensor value = entry(model, of->full_name);
    ck_assert_int_eq(cs_count(value), of->count);
    return value.data;
}

static cs_engine *open_engine(const char *model, const char *precision, const char *recompute)
{
    char path[] = "/tmp/cspeed-llama-XXXXXX", text[2048] = "";
    cs_tensor letters = entry(model, "config");
    int handle = mkstemp(path);
    FILE *out = fdopen(handle, "w");
    bool half = strcmp(precision, "fp32") != 0;
    cs_config *config;
    cs_engine *engine;
    ck_assert_int_lt(cs_count(letters), (int)sizeof text);
    for (int64_t i = 0; i < cs_count(letters); i++)
        text[i] = (char)((const int32_t *)letters.data)[i];
    fprintf(out, config_text, half ? precision : "bf16", half ? "true" : "false", near_device(), recompute, text);
    fclose(out);
    cs_status status = cs_config_open(&config, path);
    unlink(path);
    CS_MUST(status);
    CS_MUST(cs_initialize(&engine, config, NULL));
    pieces_set_all(engine, value_of, model);
    return engine;
}

static cs_batch batch_of(int step)
{
    size_t skip = (size_t)step * BATCH * LENGTH;
    int32_t *inputs = golden_tensor(file, "inputs").data, *targets = golden_tensor(file, "targets").data;
    return (cs_batch){ .inputs = cs_matrix(inputs + skip, CS_I32, BATCH, LENGTH),
                       .targets = cs_matrix(targets + skip, CS_I32, BATCH, LENGTH) };
}

static void check_logits(cs_engine *engine, const char *model, double bound)
{
    cs_batch batch = batch_of(0);
    cs_tensor logits;
    CS_MUST(cs_predict(engine, &batch, &logits));
    double *want = near_doubles(entry(model, "logits"));
    ck_assert_msg(near_all("logits", logits, want, bound), "%s", model);
    free(want);
}

static void check_gradients(cs_engine *engine, const char *model, double bound)
{
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int count = pieces_take(engine, i, pieces);
        for (int at = 0; at < count; at++) {
            char name[128];
            snprintf(name, sizeof name, "grad.%s", pieces[at].entry->full_name);
            double *want = near_doubles(entry(model, name));
            ck_assert(
                near_all(name, cs_vector(pieces[at].gradient, CS_F32, ce_range_length(pieces[at].range)), want, bound));
            free(want);
        }
    }
}

static void against(const char *model, const char *precision, const char *recompute, double logits, double losses)
{
    bool fp32 = strcmp(precision, "fp32") == 0;
    file = golden_open(CS_SOURCE "/tests/golden/llama_tiny.golden");
    const float *want = entry(model, "losses").data, *norms = entry(model, "grad_norms").data;
    cs_engine *engine = open_engine(model, precision, recompute);
    check_logits(engine, model, logits);
    for (int step = 0; step < STEPS; step++) {
        cs_batch batch = batch_of(step);
        cs_forward(engine, &batch);
        cs_backward(engine);
        if (step == 0 && fp32 && (strcmp(model, "llama3") == 0 || strcmp(model, "qwen3") == 0))
            check_gradients(engine, model, 1e-5);
        ck_assert(cs_step(engine));
        cs_metrics m = cs_last_step(engine);
        ck_assert_msg(fabs(m.loss - (double)want[step]) <= losses * (double)want[step],
                      "%s: loss of step %d: %.9g, transformers %.9g", model, step, m.loss, (double)want[step]);
        ck_assert_msg(fabs(m.grad_norm - (double)norms[step]) <= 10 * losses * (double)norms[step],
                      "%s: norm of step %d: %.9g, transformers %.9g", model, step, m.grad_norm, (double)norms[step]);
    }
    cs_destroy(engine);
    golden_close(file);
}

static const char *const models[] = { "llama", "llama3", "linear", "yarn", "mistral", "qwen2", "qwen3" };
enum { MODELS = sizeof models / sizeof *models };

START_TEST(fp32)
{
    for (int i = 0; i < MODELS; i++)
        against(models[i], "fp32", "none", 1e-5, 1e-5);
}
END_TEST

START_TEST(fp32_recomputed)
{
    against("qwen3", "fp32", "unit", 1e-5, 1e-5);
    against("mistral", "fp32", "unit", 1e-5, 1e-5);
}
END_TEST

/* bf16 has 8 bits of precision; in such small models each rounding shows in heads and logits. */
START_TEST(bf16)
{
    for (int i = 0; i < MODELS; i++)
        against(models[i], "bf16", "none", 4e-2, 1e-2);
}
END_TEST

/* All stages give the same bits, with recomputation and without, as for every model. */
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
