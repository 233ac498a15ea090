/* test_precision.c - precision modes: types and bytes of stored and sent data; every mode trains equally at every
 * stage. */
#include "suite.h"
#include "runs.h"
#include "core/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SETS = 4, WORLD = 2, UNITS = 5 };

/* ---- the row of types ---- */

typedef struct {
    const char *precision; /* run_spec.precision */
    const char *set[SETS];
    ce_precision types;
    double bound; /* maximum relative difference of the losses of 10 steps from those in fp32 */
} mode;

#define MASTERS "bf16.bf16_master_weights_and_grads=true"

/* members of `types`:                    values   products masters  slots    sums     wire     norms  scaled */
static const mode modes[] = {
    { "fp32", { NULL }, { CS_F32, CS_F32, CS_F32, CS_F32, CS_F32, CS_F32, false, false }, 0 },
    { "bf16", { NULL }, { CS_BF16, CS_BF16, CS_F32, CS_F32, CS_F32, CS_F32, false, false }, 3e-2 },
    { "fp16", { NULL }, { CS_F16, CS_F16, CS_F32, CS_F32, CS_F32, CS_F32, false, true }, 4e-3 },
    { "bf16", { MASTERS }, { CS_BF16, CS_BF16, CS_BF16, CS_F32, CS_BF16, CS_BF16, false, false }, 6e-2 },
    { "bf16",
      { MASTERS, "bf16.bf16_optimizer_states=true" },
      { CS_BF16, CS_BF16, CS_BF16, CS_BF16, CS_BF16, CS_BF16, false, false },
      6e-2 },
    { "fp16",
      { "fp16.fp16_master_weights_and_grads=true", "fp16.initial_scale_power=8" },
      { CS_F16, CS_F16, CS_F16, CS_F32, CS_F16, CS_F16, false, true },
      1e-2 },
    { "bf16",
      { "data_types.grad_accum_dtype=bf16" },
      { CS_BF16, CS_BF16, CS_F32, CS_F32, CS_BF16, CS_BF16, false, false },
      3e-2 },
    { "fp32",
      { "data_types.grad_accum_dtype=half" },
      { CS_F32, CS_F32, CS_F32, CS_F32, CS_F16, CS_F16, false, false },
      1e-2 },
    { "bf16",
      { "communication_data_type=bf16", "data_types.grad_accum_dtype=fp32" },
      { CS_BF16, CS_BF16, CS_F32, CS_F32, CS_F32, CS_BF16, false, false },
      3e-2 },
    { "fp32",
      { "communication_data_type=fp16" },
      { CS_F32, CS_F32, CS_F32, CS_F32, CS_F32, CS_F16, false, false },
      1e-2 },
    { "fp32",
      { "torch_autocast.enabled=true", "torch_autocast.dtype=bfloat16" },
      { CS_F32, CS_BF16, CS_F32, CS_F32, CS_F32, CS_F32, false, false },
      3e-2 },
    { "fp32",
      { "torch_autocast={\"enabled\": true, \"dtype\": \"float16\", \"lower_precision_safe_modules\": "
        "[\"torch.nn.Linear\"]}" },
      { CS_F32, CS_F16, CS_F32, CS_F32, CS_F32, CS_F32, false, true },
      4e-3 },
};
enum { MODES = sizeof modes / sizeof *modes };

static run_spec spec_of(const mode *from, int stage, int steps)
{
    run_spec spec = { .world = WORLD, .stage = stage, .steps = steps, .precision = from->precision, .prefetch = 1 };
    memcpy(spec.set, from->set, sizeof from->set);
    return spec;
}

static cs_status finish(const run_spec *spec, cs_config **config)
{
    char path[4096];
    run_write_config(spec, path, sizeof path);
    cs_status status = cs_config_open(config, path);
    unlink(path);
    for (int i = 0; status == CS_OK && i < RUN_SETS && spec->set[i]; i++)
        status = cs_config_set(*config, spec->set[i]);
    return status == CS_OK ? cs_config_finish(*config) : status;
}

START_TEST(a_row_of_types)
{
    for (int i = 0; i < MODES; i++) {
        cs_config *config;
        run_spec spec = spec_of(&modes[i], 2, 1);
        ce_precision want = modes[i].types;
        ck_assert_msg(finish(&spec, &config) == CS_OK, "mode %d: %s", i, cs_error());
        ce_precision is = config->settings.precision;
        ck_assert_msg(is.values == want.values && is.products == want.products && is.masters == want.masters &&
                          is.slots == want.slots && is.sums == want.sums && is.wire == want.wire &&
                          is.wide_norms == want.wide_norms && is.scaled == want.scaled,
                      "mode %d: values %d, products %d, masters %d, slots %d, sums %d, wire %d, norms %d, scaled %d", i,
                      (int)is.values, (int)is.products, (int)is.masters, (int)is.slots, (int)is.sums, (int)is.wire,
                      is.wide_norms, is.scaled);
        ck_assert_int_eq(config->settings.precision.values, want.values);
        cs_config_close(config);
    }
}
END_TEST

/* ---- every mode trains: it is equal at every stage, close to fp32, and uses the memory that its types need ---- */

static void near_fp32(const mode *its, const run_result *result, const run_result *wide, int steps, int index)
{
    for (int step = 0; step < steps; step++)
        ck_assert_msg(fabs(result->loss[step] - wide->loss[step]) <= its->bound * wide->loss[step],
                      "mode %d, step %d: %.9g, in fp32 %.9g", index, step + 1, result->loss[step], wide->loss[step]);
    ck_assert_double_lt(result->loss[steps - 1], result->loss[0]);
}

static int64_t unit_elements(int unit)
{
    int64_t width = 24, vocabulary = 61, positions = 16;
    int64_t block = 12 * width * width + 13 * width;
    return unit == 0 ? (vocabulary + positions) * width : unit <= 3 ? block : 2 * width;
}

static size_t padded_elements(int unit)
{
    return (size_t)(unit_elements(unit) + WORLD * 64 - 1) / (WORLD * 64) * (WORLD * 64);
}

static void check_memory(ce_precision types, int stage, const run_result *result)
{
    size_t values = 0, gradients = 0, masters = 0, slots = 0;
    for (int unit = 0; unit < UNITS; unit++) {
        size_t whole = padded_elements(unit), part = whole / WORLD;
        values += (stage == 3 ? part : whole) * cs_dtype_bytes(types.values);
        gradients += (stage >= 2 ? part : whole) * cs_dtype_bytes(types.sums);
        masters += types.masters == types.values ? 0 : (stage >= 1 ? part : whole) * 4;
        slots += 2 * (stage >= 1 ? part : whole) * cs_dtype_bytes(types.slots);
    }
    for (int rank = 0; rank < WORLD; rank++) {
        const cs_memory *said = &result->memory[rank];
        const run_held *held = &result->at_end[rank];
        ck_assert_uint_eq(said->values, values);
        ck_assert_uint_eq(said->gradients, gradients);
        ck_assert_uint_eq(said->masters, masters);
        ck_assert_uint_eq(said->slots, slots);
        ck_assert_uint_eq(held->device - held->workspace, masters + slots + said->activations);
    }
}

START_TEST(every_mode_trains_alike_at_every_stage)
{
    enum { STEPS = 10 };
    run_result wide, first, other;
    run_spec plain = spec_of(&modes[0], 0, STEPS);
    run_train(&plain, &wide);
    for (int i = 0; i < MODES; i++) {
        /* test_stages tests the modes with sums and transfers in fp32 at all stages. */
        bool usual = modes[i].types.sums == CS_F32 && modes[i].types.wire == CS_F32;
        for (int stage = 0; stage <= 3; stage += usual ? 3 : 1) {
            run_spec spec = spec_of(&modes[i], stage, STEPS);
            run_result *result = stage == 0 ? &first : &other;
            run_train(&spec, result);
            near_fp32(&modes[i], result, &wide, STEPS, i);
            check_memory(modes[i].types, stage, result);
            ck_assert_msg(memcmp(first.loss, result->loss, sizeof *first.loss * STEPS) == 0 &&
                              memcmp(first.norm, result->norm, sizeof *first.norm * STEPS) == 0,
                          "mode %d: stage %d and stage 0 differ", i, stage);
        }
    }
}
END_TEST

/* ---- bytes sent ---- */

typedef struct {
    run_spec spec;
    uint64_t bytes; /* bytes that rank 0 sends in the second step */
} trip;

static int run_rank(void *argument)
{
    trip *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    run_step(engine, &job->spec);
    uint64_t before = cs_comm_counters(engine->comm).bytes;
    run_step(engine, &job->spec);
    if (cs_rank(engine) == 0)
        job->bytes = cs_comm_counters(engine->comm).bytes - before;
    cs_destroy(engine);
    return 0;
}

static uint64_t bytes_of(int stage, const char *set)
{
    trip *job = run_share(sizeof *job);
    job->spec = spec_of(&modes[0], stage, 2);
    job->spec.set[0] = set;
    job->spec.micro = 1;
    job->spec.accumulation = 2;
    run_ranks(WORLD, run_rank, job);
    uint64_t bytes = job->bytes;
    run_unshare(job, sizeof *job);
    return bytes;
}

START_TEST(half_the_bytes_are_sent)
{
    uint64_t all = 0;
    for (int unit = 0; unit < UNITS; unit++)
        all += padded_elements(unit) / WORLD; /* a reduce-scatter sends the gradients of the other rank's part */
    for (int stage = 0; stage <= 3; stage++) {
        /* Each of the two ranks sends `all` gradient elements `times` times. Stage 1: one reduce-scatter after both
         * micro-batches. Stage 0: one all-reduce. Stages 2 and 3: a reduce-scatter after each micro-batch. */
        uint64_t times = stage == 1 ? 1 : 2;
        uint64_t wide = bytes_of(stage, NULL);
        uint64_t half = bytes_of(stage, "communication_data_type=bf16");
        uint64_t same = bytes_of(stage, "data_types.grad_accum_dtype=bf16");
        ck_assert_uint_ge(wide, 4 * all * times);
        ck_assert_uint_eq(wide - half, 2 * all * times);
        ck_assert_uint_eq(half, same);
    }
}
END_TEST

/* ---- accumulation of gradients in 16 bits ---- */

/* Adding 8 micro-batches in bf16 rounds 7 times; the result is close to that in fp32, but not equal. */
START_TEST(accumulation_rounds_where_it_says)
{
    run_result wide, half;
    for (int stage = 0; stage <= 2; stage += 2) {
        run_spec spec = spec_of(&modes[0], stage, 6);
        spec.micro = 1;
        spec.accumulation = 8;
        run_train(&spec, &wide);
        spec.set[0] = "data_types.grad_accum_dtype=bf16";
        run_train(&spec, &half);
        ck_assert(wide.loss[0] == half.loss[0]);
        ck_assert(wide.norm[0] != half.norm[0]);
        ck_assert_double_le(fabs(wide.norm[0] - half.norm[0]), 1e-2 * wide.norm[0]);
        ck_assert_double_le(fabs(wide.loss[5] - half.loss[5]), 1e-2 * wide.loss[5]);
    }
}
END_TEST

/* ---- checkpoints have the precision's types, and load into other precisions ---- */

typedef struct {
    run_spec first, second;
    char folder[256];
    double going_on[3], after_load[3];
} resumed;

static void three_steps(cs_engine *engine, const run_spec *spec, double *loss)
{
    for (int step = 0; step < 3; step++) {
        run_step(engine, spec);
        if (cs_rank(engine) == 0)
            loss[step] = cs_last_step(engine).loss;
    }
}

static int save_and_load(void *argument)
{
    resumed *job = argument;
    cs_engine *engine = run_open(&job->first, NULL);
    three_steps(engine, &job->first, job->going_on);
    CS_MUST(cs_save_checkpoint(engine, job->folder, NULL, NULL));
    three_steps(engine, &job->first, job->going_on);
    cs_destroy(engine);
    engine = run_open(&job->second, NULL);
    CS_MUST(cs_load_checkpoint(engine, job->folder, NULL, NULL, NULL));
    three_steps(engine, &job->second, job->after_load);
    cs_destroy(engine);
    return 0;
}

static void check_resumed(const run_spec *first, const run_spec *second, double bound)
{
    char command[300];
    const char *folder = getenv("TMPDIR");
    resumed *job = run_share(sizeof *job);
    job->first = *first;
    job->second = *second;
    snprintf(job->folder, sizeof job->folder, "%s/cspeed-precision-XXXXXX", folder ? folder : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(job->folder));
    run_ranks(WORLD, save_and_load, job);
    for (int step = 0; step < 3; step++)
        ck_assert_msg(fabs(job->going_on[step] - job->after_load[step]) <= bound * job->going_on[step],
                      "step %d: %.9g without a break, %.9g with one", step + 4, job->going_on[step],
                      job->after_load[step]);
    snprintf(command, sizeof command, "rm -rf '%s'", job->folder);
    ck_assert_int_eq(system(command), 0);
    run_unshare(job, sizeof *job);
}

START_TEST(checkpoints_of_every_type)
{
    static const int tried[] = { 3, 4, 5, 10 };
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        run_spec first = spec_of(&modes[tried[i]], 2, 6), second = spec_of(&modes[tried[i]], 3, 6);
        check_resumed(&first, &second, 0);
    }
    run_spec narrow = spec_of(&modes[4], 1, 6), wide = spec_of(&modes[1], 2, 6);
    check_resumed(&narrow, &wide, 2e-2);
    check_resumed(&wide, &narrow, 2e-2);
    run_spec amp = spec_of(&modes[0], 1, 6);
    amp.set[0] = "amp={\"enabled\": true, \"opt_level\": \"O2\"}";
    check_resumed(&amp, &amp, 0);
}
END_TEST

/* ---- unsupported settings ---- */

START_TEST(refusals)
{
    static const struct {
        const char *set[SETS], *sentence;
    } cases[] = {
        { { "amp.enabled=true", "bf16.enabled=true" }, "amp and bf16 are both enabled" },
        { { "torch_autocast.enabled=true" }, "bfloat16 or float16 is needed" },
        { { "torch_autocast.enabled=true", "torch_autocast.dtype=float16", "bf16.enabled=true" }, "both enabled" },
        { { "torch_autocast.enabled=true", "torch_autocast.dtype=float16",
            "torch_autocast.lower_precision_safe_modules=[\"torch.nn.Conv2d\"]" },
          "a list without torch.nn.Linear" },
        { { "bf16.enabled=true", "bf16.bf16_optimizer_states=true" }, "bf16_master_weights_and_grads too" },
        { { "data_types.param_dtype=fp16" }, "is not what fp16.enabled and bf16.enabled say" },
        { { "data_types.grad_accum_dtype=int8" }, "no type is named \"int8\"" },
        { { "communication_data_type=fp8" }, "no type is named \"fp8\"" },
        { { "communication_data_type=fp16", "data_types.grad_accum_dtype=bf16" },
          "each of them loses bits that the other has" },
        { { "gradient_predivide_factor=0" }, "above 0 is needed" },
        { { "amp={\"enabled\": true, \"opt_level\": \"O1\", \"keep_batchnorm_fp32\": true}" },
          "always fp32 with opt_level O1" },
        { { "amp={\"enabled\": true, \"opt_level\": \"O0\", \"master_weights\": true}" },
          "always fp32 with opt_level O0" },
        { { "amp={\"enabled\": true, \"opt_level\": \"O4\"}" }, "O0" },
        { { "amp={\"enabled\": true, \"loss_scale\": \"static\"}" }, "\"dynamic\" is needed, or a number" },
        { { "amp={\"enabled\": true, \"opt_levle\": \"O1\"}" }, "opt_level" },
        { { "amp={\"enabled\": true, \"patch_torch_functions\": true}" }, "opt_level determines it" },
        { { "data_types.grad_accum_dtype=bf16", "optimizer.type=Lamb", "optimizer.params={\"lr\": 1e-3}" },
          "not supported: " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cs_config *config;
        run_spec spec = { .world = 1, .stage = 2, .steps = 1, .precision = "fp32" };
        memcpy(spec.set, cases[i].set, sizeof cases[i].set);
        ck_assert_msg(finish(&spec, &config) == CS_BAD_CONFIG, "case %zu was taken", i);
        ck_assert_msg(strstr(cs_error(), cases[i].sentence) != NULL, "case %zu: %s", i, cs_error());
        cs_config_close(config);
    }
}
END_TEST

SUITE_MAIN("precision", a_row_of_types, refusals, every_mode_trains_alike_at_every_stage, half_the_bytes_are_sent,
           accumulation_rounds_where_it_says, checkpoints_of_every_type)
