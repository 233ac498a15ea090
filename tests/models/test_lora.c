/* test_lora.c - tiny models with LoRA adapters compared with PEFT: gradients of the adapters, ten losses and gradient
 * norms. */
#include "golden.h"
#include "near.h"
#include "pieces.h"
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 2, LENGTH = 9, STEPS = 10, TEXT = 2048 };

static const char *const config_text =
    "{ \"train_batch_size\": 2, \"gradient_clipping\": 1.0, \"zero_optimization\": { \"stage\": 3 },\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-2, \"betas\": [0.9, 0.95], \"eps\": 1e-8, "
    "\"weight_decay\": 0.1 } },\n"
    "  \"cspeed\": { \"device\": \"%s\", \"data\": { \"seq_len\": 9 }, \"recompute\": \"%s\", \"threads\": 1, "
    "\"model\": %s, \"lora\": %s } }\n";

static golden *file;

static cs_tensor entry(const char *model, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s.%s", model, name);
    return golden_tensor(file, full);
}

static void text_of(char text[TEXT], const char *model, const char *name)
{
    cs_tensor letters = entry(model, name);
    ck_assert_int_lt(cs_count(letters), TEXT);
    for (int64_t i = 0; i < cs_count(letters); i++)
        text[i] = (char)((const int32_t *)letters.data)[i];
    text[cs_count(letters)] = 0;
}

/* Sets this rank's part of unit number `number` to the values in the golden file. The unit may also be a store, which
 * only holds frozen parameters. */
static void set_row(cs_engine *engine, const char *model, int number)
{
    ce_shard_piece pieces[32];
    int count = pieces_take(engine, number, pieces);
    for (int at = 0; at < count; at++) {
        cs_tensor value = entry(model, pieces[at].entry->full_name);
        float *master = pieces[at].master;
        ck_assert_int_eq(cs_count(value), pieces[at].entry->count);
        for (int64_t i = pieces[at].range.from; i < pieces[at].range.to; i++)
            master[i - pieces[at].range.from] = ((const float *)value.data)[i];
    }
    pieces_put(engine, number, pieces, count);
}

static cs_engine *open_engine(const char *model, const char *recompute)
{
    char path[] = "/tmp/cspeed-lora-XXXXXX", described[TEXT], lora[TEXT];
    FILE *out = fdopen(mkstemp(path), "w");
    cs_config *config;
    cs_engine *engine;
    text_of(described, model, "config");
    text_of(lora, model, "lora");
    fprintf(out, config_text, near_device(), recompute, described, lora);
    fclose(out);
    cs_status status = cs_config_open(&config, path);
    unlink(path);
    CS_MUST(status);
    CS_MUST(cs_initialize(&engine, config, NULL));
    for (int i = 0; i < engine->model->total; i++)
        set_row(engine, model, i);
    return engine;
}

static cs_batch batch_of(int step)
{
    size_t skip = (size_t)step * BATCH * LENGTH;
    int32_t *inputs = golden_tensor(file, "inputs").data, *targets = golden_tensor(file, "targets").data;
    return (cs_batch){ .inputs = cs_matrix(inputs + skip, CS_I32, BATCH, LENGTH),
                       .targets = cs_matrix(targets + skip, CS_I32, BATCH, LENGTH) };
}

static void check_gradients(cs_engine *engine, const char *model)
{
    int checked = 0;
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int count = pieces_take(engine, i, pieces);
        for (int at = 0; at < count; at++, checked++) {
            char name[128];
            snprintf(name, sizeof name, "grad.%s", pieces[at].entry->full_name);
            double *want = near_doubles(entry(model, name));
            ck_assert(
                near_all(name, cs_vector(pieces[at].gradient, CS_F32, ce_range_length(pieces[at].range)), want, 1e-5));
            free(want);
        }
    }
    ck_assert_int_gt(checked, 0);
}

static void against(const char *model, const char *recompute)
{
    file = golden_open(CS_SOURCE "/tests/golden/lora_tiny.golden");
    const float *want = entry(model, "losses").data, *norms = entry(model, "grad_norms").data;
    cs_engine *engine = open_engine(model, recompute);
    for (int step = 0; step < STEPS; step++) {
        cs_batch batch = batch_of(step);
        cs_forward(engine, &batch);
        cs_backward(engine);
        if (step == 0)
            check_gradients(engine, model);
        ck_assert(cs_step(engine));
        cs_metrics m = cs_last_step(engine);
        ck_assert_msg(fabs(m.loss - (double)want[step]) <= 1e-5 * (double)want[step],
                      "%s: loss of step %d: %.9g, PEFT %.9g", model, step, m.loss, (double)want[step]);
        ck_assert_msg(fabs(m.grad_norm - (double)norms[step]) <= 1e-4 * (double)norms[step],
                      "%s: norm of step %d: %.9g, PEFT %.9g", model, step, m.grad_norm, (double)norms[step]);
    }
    cs_destroy(engine);
    golden_close(file);
}

START_TEST(adapters_are_those_of_peft)
{
    against("llama", "none");
    against("some", "unit");
    against("gpt2", "none");
    against("all", "unit");
}
END_TEST

SUITE_MAIN("lora", adapters_are_those_of_peft)
