/* against.c - tiny models of golden files, trained for ten steps. */
#include "against.h"
#include "golden.h"
#include "near.h"
#include "pieces.h"
#include "suite.h"
#include "core/engine.h"

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

static void open_golden(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, CS_SOURCE "/tests/golden/%s", name);
    file = golden_open(path);
}

static char *config_of(const char *model)
{
    cs_tensor letters = entry(model, "config");
    char *text = calloc((size_t)cs_count(letters) + 1, 1);
    ck_assert_ptr_nonnull(text);
    for (int64_t i = 0; i < cs_count(letters); i++)
        text[i] = (char)((const int32_t *)letters.data)[i];
    return text;
}

/* `text`: the value of cspeed.model. */
static cs_engine *open_model(const char *text, const char *precision, const char *recompute)
{
    char path[] = "/tmp/cspeed-against-XXXXXX";
    int handle = mkstemp(path);
    FILE *out = fdopen(handle, "w");
    bool half = strcmp(precision, "fp32") != 0;
    cs_config *config;
    cs_engine *engine;
    fprintf(out, config_text, half ? precision : "bf16", half ? "true" : "false", near_device(), recompute, text);
    fclose(out);
    cs_status status = cs_config_open(&config, path);
    unlink(path);
    CS_MUST(status);
    CS_MUST(cs_initialize(&engine, config, NULL));
    return engine;
}

static cs_engine *open_engine(const char *model, const char *precision, const char *recompute)
{
    char *text = config_of(model);
    cs_engine *engine = open_model(text, precision, recompute);
    free(text);
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

void against_transformers(const against_case *given)
{
    const char *model = given->model;
    double losses = given->losses, of_norms = given->norms > 0 ? given->norms : 20 * losses;
    open_golden(given->golden);
    const float *want = entry(model, "losses").data, *norms = entry(model, "grad_norms").data;
    cs_engine *engine = open_engine(model, given->precision, given->recompute);
    check_logits(engine, model, given->logits);
    for (int step = 0; step < STEPS; step++) {
        cs_batch batch = batch_of(step);
        cs_forward(engine, &batch);
        cs_backward(engine);
        if (step == 0 && given->gradients)
            check_gradients(engine, model, 1e-5);
        ck_assert(cs_step(engine));
        cs_metrics m = cs_last_step(engine);
        ck_assert_msg(fabs(m.loss - (double)want[step]) <= losses * (double)want[step],
                      "%s: loss of step %d: %.9g, transformers %.9g", model, step, m.loss, (double)want[step]);
        ck_assert_msg(fabs(m.grad_norm - (double)norms[step]) <= of_norms * (double)norms[step],
                      "%s: norm of step %d: %.9g, transformers %.9g", model, step, m.grad_norm, (double)norms[step]);
    }
    cs_destroy(engine);
    golden_close(file);
}

void against_save(const char *name, const char *model, const char *dir)
{
    open_golden(name);
    cs_engine *engine = open_engine(model, "fp32", "none");
    CS_MUST(cs_save_checkpoint(engine, dir, "t", NULL));
    cs_destroy(engine);
    golden_close(file);
}

void against_folder(const char *name, const char *model, const char *folder, double bound)
{
    char text[256];
    snprintf(text, sizeof text, "\"%s\"", folder);
    open_golden(name);
    cs_engine *engine = open_model(text, "fp32", "none");
    check_logits(engine, model, bound);
    cs_destroy(engine);
    golden_close(file);
}

char *against_config(const char *name, const char *model)
{
    open_golden(name);
    char *text = config_of(model);
    golden_close(file);
    return text;
}

void against_each(const against_case *given, const char *const *models, int count)
{
    for (int i = 0; i < count; i++) {
        against_case one = *given;
        one.model = models[i];
        one.gradients = strcmp(given->precision, "fp32") == 0;
        against_transformers(&one);
    }
}
