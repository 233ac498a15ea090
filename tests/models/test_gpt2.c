/* test_gpt2.c - a tiny GPT-2 compared with PyTorch: logits, every gradient, ten losses and gradient norms, in fp32,
 * bf16 and fp16. */
#include "suite.h"
#include "golden.h"
#include "near.h"
#include "pieces.h"
#include "core/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const config_text =
    "{ \"train_batch_size\": 3, \"gradient_clipping\": 1.0, \"%s\": { \"enabled\": %s },\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-3, \"betas\": [0.9, 0.95], \"eps\": 1e-8, "
    "\"weight_decay\": 0.1 } },\n"
    "  \"cspeed\": { \"device\": \"%s\", \"data\": { \"seq_len\": 12 }, \"recompute\": \"%s\", \"threads\": 1,\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 3, \"n_embd\": 24, \"n_positions\": 16, "
    "\"vocab_size\": 61,\n"
    "      \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0 } } }\n";

static const float *value_of(const ce_unit_entry *entry, const void *file)
{
    cs_tensor value = golden_tensor(file, entry->full_name);
    ck_assert_int_eq(cs_count(value), entry->count);
    return value.data;
}

static cs_engine *open_engine(const golden *file, const char *precision, const char *recompute)
{
    char path[] = "/tmp/cspeed-gpt2-XXXXXX";
    int handle = mkstemp(path);
    FILE *out = fdopen(handle, "w");
    bool half = strcmp(precision, "fp32") != 0;
    cs_config *config;
    cs_engine *engine;
    fprintf(out, config_text, half ? precision : "bf16", half ? "true" : "false", near_device(), recompute);
    fclose(out);
    cs_status status = cs_config_open(&config, path);
    unlink(path);
    CS_MUST(status);
    CS_MUST(cs_initialize(&engine, config, NULL));
    pieces_set_all(engine, value_of, file); /* PyTorch's initial values */
    return engine;
}

static cs_batch batch_of(const golden *file, int step)
{
    cs_tensor inputs = golden_tensor(file, "inputs"), targets = golden_tensor(file, "targets");
    size_t skip = (size_t)step * 3 * 12;
    return (cs_batch){ .inputs = cs_matrix((int32_t *)inputs.data + skip, CS_I32, 3, 12),
                       .targets = cs_matrix((int32_t *)targets.data + skip, CS_I32, 3, 12) };
}

static void check_logits(cs_engine *engine, const golden *file, double bound)
{
    cs_batch batch = batch_of(file, 0);
    cs_tensor logits;
    CS_MUST(cs_predict(engine, &batch, &logits));
    double *want = near_doubles(golden_tensor(file, "logits64"));
    ck_assert(near_all("logits", logits, want, bound));
    free(want);
}

static void check_gradients(cs_engine *engine, const golden *file, double bound)
{
    cs_batch batch = batch_of(file, 0);
    cs_forward(engine, &batch);
    cs_backward(engine);
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int count = pieces_take(engine, i, pieces);
        for (int at = 0; at < count; at++) {
            char name[128];
            snprintf(name, sizeof name, "grad64.%s", pieces[at].entry->full_name);
            int64_t elements = ce_range_length(pieces[at].range);
            double *want = near_doubles(golden_tensor(file, name));
            for (int64_t e = 0; e < elements; e++)
                want[e] *= engine->scaler.scale;
            ck_assert(near_all(name, cs_vector(pieces[at].gradient, CS_F32, elements), want, bound));
            free(want);
        }
    }
    cs_step(engine);
}

static void check_loss(cs_engine *engine, const golden *file, int step, double bound)
{
    const float *losses = golden_tensor(file, "losses").data, *norms = golden_tensor(file, "grad_norms").data;
    cs_metrics m = cs_last_step(engine);
    ck_assert_msg(fabs(m.loss - (double)losses[step]) <= bound * (double)losses[step],
                  "loss of step %d: %.9g, PyTorch %.9g", step, m.loss, (double)losses[step]);
    ck_assert_msg(fabs(m.grad_norm - (double)norms[step]) <= 10 * bound * (double)norms[step],
                  "norm of step %d: %.9g, PyTorch %.9g", step, m.grad_norm, (double)norms[step]);
}

static void against_pytorch(const char *precision, const char *recompute, double logits, double gradients,
                            double losses)
{
    golden *file = golden_open(CS_SOURCE "/tests/golden/gpt2_tiny.golden");
    cs_engine *engine = open_engine(file, precision, recompute);
    check_logits(engine, file, logits);
    check_gradients(engine, file, gradients);
    check_loss(engine, file, 0, losses);
    for (int step = 1; step < 10; step++) {
        cs_batch batch = batch_of(file, step);
        cs_forward(engine, &batch);
        cs_backward(engine);
        ck_assert(cs_step(engine));
        check_loss(engine, file, step, losses);
    }
    ck_assert_int_eq(cs_last_step(engine).skipped, 0);
    cs_destroy(engine);
    golden_close(file);
}

START_TEST(fp32)
{
    against_pytorch("fp32", "none", 1e-5, 1e-5, 1e-5);
}
END_TEST

START_TEST(fp32_recomputed)
{
    against_pytorch("fp32", "unit", 1e-5, 1e-5, 1e-5);
}
END_TEST

/* bf16 has 8 bits of precision, so a rounding error is up to 2^-9 = 0.002 of a value, and a gradient passes about
 * thirty roundings. */
START_TEST(bf16)
{
    against_pytorch("bf16", "none", 2e-2, 5e-2, 5e-3);
}
END_TEST

/* fp16 has 11 bits of precision. */
START_TEST(fp16)
{
    against_pytorch("fp16", "none", 2e-3, 1e-2, 1e-3);
}
END_TEST

SUITE_MAIN("gpt2", fp32, fp32_recomputed, bf16, fp16)
