/* test_families.c - tiny models of the families other than GPT-2 and Llama compared with transformers: logits, all
 * gradients, ten losses and gradient norms; and losses and gradient norms that are equal bit for bit at all stages. */
#include "against.h"
#include "runs.h"
#include "suite.h"
#include "core/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The cases of tests/golden/make_families.py. */
static const char *const models[] = { "neox",    "neot", "gem2", "gem3", "phi",  "phishort", "philong",  "olmo",
                                      "granite", "star", "fal",  "falo", "falq", "fals",     "gptlayer", "gptrelu" };
enum { MODELS = sizeof models / sizeof *models };

static const char *const newer[] = { "gem1", "smol", "smolw", "olm3", "seed", "seedo", "arcee", "intern", "ernie",
                                     "cohe", "coh2", "glm",   "glm4", "mins", "min3",  "huny",  "phi2",   "phik" };
enum { NEWER = sizeof newer / sizeof *newer };

static void check_all(against_case how)
{
    how.golden = "families_tiny.golden";
    against_each(&how, models, MODELS);
    how.golden = "families_newer.golden";
    against_each(&how, newer, NEWER);
}

START_TEST(fp32)
{
    check_all((against_case){ .precision = "fp32", .recompute = "none", .logits = 1e-5, .losses = 1e-6 });
}
END_TEST

START_TEST(fp32_recomputed)
{
    check_all((against_case){ .precision = "fp32", .recompute = "unit", .logits = 1e-5, .losses = 1e-6 });
}
END_TEST

/* bf16 has 8 bits of precision; in models as small as these, a single rounding changes logits and losses visibly. */
START_TEST(bf16)
{
    check_all((against_case){ .precision = "bf16", .recompute = "none", .logits = 6e-2, .losses = 2e-2 });
}
END_TEST

static void check_stages(const char *golden, const char *model)
{
    char text[4096], *config = against_config(golden, model);
    run_spec spec = { .world = 2, .steps = 4, .precision = "fp32", .prefetch = 1, .set = { text } };
    run_result first_run, other;
    snprintf(text, sizeof text, "cspeed.model=%s", config);
    /* Changes the vocabulary to that of run_batch. */
    memcpy(strstr(text, "\"vocab_size\": 37"), "\"vocab_size\": 61", sizeof "\"vocab_size\": 61" - 1);
    run_train(&spec, &first_run);
    ck_assert_msg(first_run.norm[3] > 0 && first_run.norm[3] != first_run.norm[0], "%s", model);
    for (spec.stage = 1; spec.stage <= 3; spec.stage++) {
        spec.recompute = spec.stage % 2 ? "unit" : "none";
        run_train(&spec, &other);
        ck_assert_msg(memcmp(first_run.loss, other.loss, 4 * sizeof(double)) == 0, "%s, stage %d", model, spec.stage);
        ck_assert_msg(memcmp(first_run.norm, other.norm, 4 * sizeof(double)) == 0, "%s, stage %d", model, spec.stage);
    }
    free(config);
}

START_TEST(stages_alike)
{
    for (int i = 0; i < MODELS; i++)
        check_stages("families_tiny.golden", models[i]);
    for (int i = 0; i < NEWER; i++)
        check_stages("families_newer.golden", newer[i]);
}
END_TEST

/* Trains two steps with this pad_token_id. Returns whether the embedding of the second to last token has changed. */
static bool learns(const char *padding)
{
    enum { WIDTH = 16, AT = (RUN_VOCABULARY - 2) * WIDTH };
    char model[512];
    float before[WIDTH], after[WIDTH];
    cs_param_part part;
    run_spec spec = {
        .world = 1, .micro = 16, .steps = 2, .precision = "fp32", .set = { model, "optimizer.params.weight_decay=0" }
    };
    snprintf(model, sizeof model,
             "cspeed.model={\"model_type\": \"llama\", \"vocab_size\": %d, \"hidden_size\": %d, "
             "\"intermediate_size\": 24, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
             "\"max_position_embeddings\": 16, \"pad_token_id\": %s}",
             RUN_VOCABULARY, WIDTH, padding);
    cs_engine *engine = run_open(&spec, NULL);
    CS_MUST(cs_param_local(engine, "model.embed_tokens.weight", &part));
    const float *row = (const float *)part.data + AT;
    cs_stream *stream = ce_device_stream(engine->device, CE_COMPUTE);
    ce_stream_fetch(stream, before, row, sizeof before);
    for (int i = 0; i < spec.steps; i++)
        run_step(engine, &spec);
    ce_stream_fetch(stream, after, row, sizeof after);
    bool changed = memcmp(after, before, sizeof before) != 0;
    cs_destroy(engine);
    return changed;
}

/* pad_token_id is PyTorch's padding_idx, so it may be negative. */
START_TEST(the_padding_token_does_not_learn)
{
    ck_assert(learns("null"));
    ck_assert(learns("58"));
    ck_assert(!learns("59"));
    ck_assert(!learns("-2"));
}
END_TEST

SUITE_MAIN("families", fp32, fp32_recomputed, bf16, stages_alike, the_padding_token_does_not_learn)
