/* test_experts.c - tiny mixtures of experts compared with transformers: logits, all gradients, ten losses and gradient
 * norms; the same bits at all stages; the load of the experts; no allocation after the first step. */
#include "against.h"
#include "runs.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN "experts_tiny.golden"

/* The cases of tests/golden/make_experts.py. */
static const char *const models[] = { "mix", "aux", "qm2", "qms", "qm3", "qmr" };
enum { MODELS = sizeof models / sizeof *models };

static void against(const char *model, const char *precision, const char *recompute, double logits, double losses)
{
    against_transformers(&(against_case){ .golden = GOLDEN,
                                          .model = model,
                                          .precision = precision,
                                          .recompute = recompute,
                                          .gradients = strcmp(precision, "fp32") == 0,
                                          .logits = logits,
                                          .losses = losses });
}

START_TEST(fp32)
{
    for (int i = 0; i < MODELS; i++)
        against(models[i], "fp32", "none", 1e-5, 1e-6);
}
END_TEST

START_TEST(fp32_recomputed)
{
    for (int i = 0; i < MODELS; i++)
        against(models[i], "fp32", "unit", 1e-5, 1e-6);
}
END_TEST

/* Rounding to bf16 may choose another expert than fp64 does, so the logits of a row may differ by much: the bound is
 * that of an expert's share. */
START_TEST(bf16)
{
    for (int i = 0; i < MODELS; i++)
        against(models[i], "bf16", "none", 3e-1, 3e-2);
}
END_TEST

/* Returns the config.json of a case with the vocabulary of run_batch, as an assignment. The caller frees it. */
static char *model_setting(const char *model)
{
    char *config = against_config(GOLDEN, model), *text = NULL;
    memcpy(strstr(config, "\"vocab_size\": 37"), "\"vocab_size\": 61", sizeof "\"vocab_size\": 61" - 1);
    ck_assert_int_gt(asprintf(&text, "cspeed.model=%s", config), 0);
    free(config);
    return text;
}

static void check_stages(const char *model, const char *precision)
{
    char *text = model_setting(model);
    run_spec spec = { .world = 2, .steps = 4, .precision = precision, .prefetch = 1, .set = { text } };
    run_result first_run, other;
    run_train(&spec, &first_run);
    ck_assert_msg(first_run.norm[3] > 0 && first_run.norm[3] != first_run.norm[0], "%s", model);
    for (spec.stage = 1; spec.stage <= 3; spec.stage++) {
        spec.recompute = spec.stage % 2 ? "unit" : "none";
        run_train(&spec, &other);
        ck_assert_msg(memcmp(first_run.loss, other.loss, 4 * sizeof(double)) == 0, "%s, stage %d", model, spec.stage);
        ck_assert_msg(memcmp(first_run.norm, other.norm, 4 * sizeof(double)) == 0, "%s, stage %d", model, spec.stage);
        for (int rank = 0; rank < 2; rank++)
            ck_assert_msg(other.after_first[rank].device == other.at_end[rank].device, "%s, stage %d", model,
                          spec.stage);
    }
    free(text);
}

START_TEST(stages_alike)
{
    for (int i = 0; i < MODELS; i++)
        check_stages(models[i], "fp32");
    check_stages("mix", "bf16");
    check_stages("qm3", "bf16");
}
END_TEST

SUITE_MAIN("experts", fp32, fp32_recomputed, bf16, stages_alike)
