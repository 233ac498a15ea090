/* test_experts.c - tiny mixtures of experts compared with transformers: logits, all gradients, ten losses and gradient
 * norms; losses and gradient norms that are equal bit for bit at all stages; the load of each expert; no allocation
 * after the first step. */
#include "against.h"
#include "runs.h"
#include "suite.h"
#include "core/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GOLDEN "experts_tiny.golden"

/* The cases of tests/golden/make_experts.py. */
static const char *const models[] = { "mix", "aux", "qm2", "qms", "qm3", "olm", "qmr", "oss" };
enum { MODELS = sizeof models / sizeof *models };

/* Adam moves a parameter by the whole learning rate even if the parameter's gradient is only rounding error. The
 * experts of a tiny model have such gradients. In optimized builds the relative differences of the losses are at most
 * 1e-6. In a build with ASan and AVX2, a gradient norm differs by 1.2e-5 and a loss by 1.4e-6. The bounds are larger
 * than these differences, because other compilers round differently. */
static void compare_fp32(const char *recompute)
{
    against_each(&(against_case){ .golden = GOLDEN,
                                  .precision = "fp32",
                                  .recompute = recompute,
                                  .logits = 1e-5,
                                  .losses = 4e-6,
                                  .norms = 5e-5 },
                 models, MODELS);
}

START_TEST(fp32)
{
    compare_fp32("none");
}
END_TEST

START_TEST(fp32_recomputed)
{
    compare_fp32("unit");
}
END_TEST

/* In bf16 the router may choose another expert than in fp64, and then the logits of a row differ by as much as an
 * expert contributes. The bound allows that. */
START_TEST(bf16)
{
    against_each(
        &(against_case){ .golden = GOLDEN, .precision = "bf16", .recompute = "none", .logits = 3e-1, .losses = 3e-2 },
        models, MODELS);
}
END_TEST

/* Returns the assignment "cspeed.model=" with the config.json of a case, whose vocabulary is changed to that of
 * run_batch. The caller frees it. */
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

/* ---- adapters ---- */

/* "all-linear" adds adapters to the attention and the shared experts. PEFT does the same with transformers 5, in which
 * experts and routers are not nn.Linear modules. */
START_TEST(adapters_leave_experts_out)
{
    char *text = model_setting("qms");
    run_spec spec = { .world = 1,
                      .steps = 2,
                      .precision = "fp32",
                      .set = { text, "cspeed.lora={\"r\": 2, \"alpha\": 4, \"targets\": \"all-linear\"}" } };
    cs_engine *engine = run_open(&spec, NULL);
    int experts = 0, shared = 0;
    for (int64_t i = 0; i < cs_param_count(engine); i++) {
        const char *name = cs_param_name(engine, i);
        bool adapter = strstr(name, ".lora_");
        experts += adapter && (strstr(name, ".experts.") || strstr(name, ".mlp.gate."));
        shared += adapter && strstr(name, ".shared_expert");
    }
    ck_assert_int_eq(experts, 0);
    /* A and B of four matrices (gate, up, down, and the shared expert's gate) in each of two layers */
    ck_assert_int_eq(shared, 2 * 2 * 4);
    run_step(engine, &spec);
    double before = cs_last_step(engine).loss;
    run_step(engine, &spec);
    ck_assert(cs_last_step(engine).loss != before && cs_last_step(engine).grad_norm > 0);
    cs_destroy(engine);
    free(text);
}
END_TEST

static void refused(const char *model, const char *more, const char *sentence)
{
    char *text = model_setting(model), path[256];
    run_spec spec = { .world = 1, .steps = 1, .precision = "fp32", .set = { text, more } };
    cs_config *config;
    cs_engine *engine;
    run_write_config(&spec, path, sizeof path);
    CS_MUST(cs_config_open(&config, path));
    unlink(path);
    CS_MUST(cs_config_set(config, text));
    CS_MUST(cs_config_set(config, more));
    ck_assert_int_ne(cs_initialize(&engine, config, NULL), CS_OK);
    ck_assert_msg(strstr(cs_error(), sentence), "%s", cs_error());
    free(text);
}

START_TEST(what_is_not_there_is_refused)
{
    refused("mix", "cspeed.lora={\"r\": 2, \"alpha\": 4, \"targets\": [\"w1\"]}", "experts, their routers");
    refused("qm3", "cspeed.lora={\"r\": 2, \"alpha\": 4, \"targets\": [\"mlp.gate\"]}", "experts, their routers");
    refused("mix", "cspeed.model.router_jitter_noise=0.1", "router_jitter_noise");
    refused("mix", "cspeed.model.num_experts_per_tok=5", "num_experts_per_tok 5 is more than the 4 experts");
    refused("qm3", "cspeed.model.mlp_only_layers=1", "mlp_only_layers");
    refused("aux", "cspeed.dpo={\"beta\": 0.1}", "output_router_logits");
}
END_TEST

/* Of two names of the number of experts, num_local_experts counts, as in transformers. */
START_TEST(one_of_two_numbers_counts)
{
    char *text = model_setting("qm3");
    run_spec spec = {
        .world = 1, .steps = 1, .precision = "fp32", .set = { text, "cspeed.model.num_local_experts=4" }
    };
    cs_engine *engine = run_open(&spec, NULL);
    int last = 0, more = 0;
    for (int64_t i = 0; i < cs_param_count(engine); i++) {
        last += strstr(cs_param_name(engine, i), ".experts.3.") != NULL;
        more += strstr(cs_param_name(engine, i), ".experts.4.") != NULL;
    }
    ck_assert_int_gt(last, 0);
    ck_assert_int_eq(more, 0);
    cs_destroy(engine);
    free(text);
}
END_TEST

/* ---- the load of the experts ---- */

typedef struct {
    const run_spec *spec;
    int64_t tokens[8], sent, planned;
    double imbalance, worst;
} load_report;

static int report_load(void *argument)
{
    load_report *report = argument;
    cs_engine *engine = run_open(report->spec, NULL);
    run_step(engine, report->spec);
    ce_walk_settle(engine);
    uint64_t before = cs_comm_counters(engine->comm).bytes;
    run_step(engine, report->spec);
    ce_walk_settle(engine);
    cs_expert_load load = cs_expert_load_of(engine);
    if (cs_rank(engine) == 1) {
        memcpy(report->tokens, load.tokens, sizeof report->tokens);
        report->sent = (int64_t)(cs_comm_counters(engine->comm).bytes - before);
        report->planned = (int64_t)cs_memory_of(engine).sent;
        report->imbalance = load.imbalance;
        report->worst = load.worst;
    }
    cs_destroy(engine);
    return 0;
}

/* Two layers of four experts, two for each token; 2 ranks x 2 micro-batches x 2 samples x RUN_LENGTH tokens. */
START_TEST(the_load_is_that_of_all_ranks)
{
    enum { TOKENS = 2 * 2 * 2 * RUN_LENGTH, CHOSEN = 2 };
    char *text = model_setting("mix");
    run_spec spec = { .world = 2,
                      .steps = 2,
                      .micro = 2,
                      .accumulation = 2,
                      .stage = 2,
                      .precision = "fp32",
                      .set = { text, "cspeed.products=\"fixed\"" } };
    load_report *report = run_share(sizeof *report);
    report->spec = &spec;
    run_ranks(2, report_load, report);
    double imbalance = 0, worst = 0;
    for (int layer = 0; layer < 2; layer++) {
        int64_t all = 0, max = 0;
        for (int e = 0; e < 4; e++) {
            int64_t tokens = report->tokens[4 * layer + e];
            ck_assert_int_le(tokens, TOKENS);
            all += tokens;
            max = tokens > max ? tokens : max;
        }
        ck_assert_int_eq(all, TOKENS * CHOSEN);
        imbalance += (double)max * 4 / (double)all / 2;
        worst = fmax(worst, (double)max * 4 / (double)all);
    }
    ck_assert_double_eq_tol(report->imbalance, imbalance, 1e-12);
    ck_assert_double_eq_tol(report->worst, worst, 1e-12);
    ck_assert_int_eq(report->sent, report->planned);
    run_unshare(report, sizeof *report);
    free(text);
}
END_TEST

SUITE_MAIN("experts", fp32, fp32_recomputed, bf16, stages_alike, adapters_leave_experts_out,
           what_is_not_there_is_refused, one_of_two_numbers_counts, the_load_is_that_of_all_ranks)
