/* test_devices.c - training on the emulated GPU: ZeRO stages, repeated runs and stream schedules give the same bits;
 * losses agree with the CPU's within bounds; a checkpoint of one device can be resumed on the other. */
#include "near.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"
#include "cspeed/ops.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 100, HALF = 50, SHORT = 3 };

/* ---- four ranks ---- */

static run_result short_run(int stage, const char *precision, const char *variable, const char *value)
{
    run_result result;
    run_spec spec = { .world = 4,
                      .stage = stage,
                      .steps = SHORT,
                      .micro = 1,
                      .precision = precision,
                      .prefetch = 1,
                      .recompute = stage % 2 ? "unit" : "none",
                      .set = { "cspeed.device=cuda" } };
    if (variable)
        setenv(variable, value, 1);
    run_train(&spec, &result);
    if (variable)
        unsetenv(variable);
    return result;
}

static void same_bits(const run_result *a, const run_result *b, const char *what)
{
    for (int step = 0; step < SHORT; step++)
        ck_assert_msg(a->loss[step] == b->loss[step] && a->norm[step] == b->norm[step],
                      "%s, step %d: losses %.17g and %.17g, norms %.17g and %.17g", what, step + 1, a->loss[step],
                      b->loss[step], a->norm[step], b->norm[step]);
}

/* The ranks share one GPU, so they communicate through shared memory of the host. */
static void alike(const char *precision)
{
    run_result first = short_run(0, precision, NULL, NULL);
    ck_assert_double_lt(first.loss[SHORT - 1], first.loss[0]);
    for (int stage = 1; stage <= 3; stage++) {
        char what[64];
        run_result other = short_run(stage, precision, NULL, NULL);
        snprintf(what, sizeof what, "%s, stages 0 and %d", precision, stage);
        same_bits(&first, &other, what);
    }
    run_result again = short_run(3, precision, NULL, NULL);
    run_result eager = short_run(3, precision, "CSPEED_EMULATOR_EAGER", "1");
    run_result reversed = short_run(3, precision, "CSPEED_EMULATOR_ORDER", "reverse");
    same_bits(&first, &again, "run to run");
    same_bits(&first, &eager, "streams that do not wait to be waited for");
    same_bits(&first, &reversed, "blocks and threads from the last to the first");
}

START_TEST(stages_and_runs_alike_in_fp32)
{
    if (near_emulated("alike in fp32"))
        alike("fp32");
}
END_TEST

START_TEST(stages_and_runs_alike_in_bf16)
{
    if (near_emulated("alike in bf16"))
        alike("bf16");
}
END_TEST

/* Each rank has a GPU of its own, so NCCL adds the gradients. NCCL adds in another order than ranks that communicate
 * through shared memory of the host. */
START_TEST(nccl_gives_the_same_but_for_rounding)
{
    if (!near_gpus("nccl", 4))
        return;
    run_result own = short_run(2, "fp32", NULL, NULL), shared = short_run(2, "fp32", "CSPEED_EMULATOR_DEVICES", "1");
    for (int step = 0; step < SHORT; step++)
        ck_assert_msg(fabs(shared.loss[step] - own.loss[step]) <= 1e-5 * shared.loss[step], "step %d: %.9g and %.9g",
                      step + 1, shared.loss[step], own.loss[step]);
}
END_TEST

/* ---- tensor parallelism ---- */

static run_result divided_run(const char *device, int tp, bool sequence, bool overlap, const char *variable)
{
    static const char *const sizes[] = { "cspeed.mesh.tp=1", "cspeed.mesh.tp=2" };
    run_result result;
    run_spec spec = { .world = tp,
                      .stage = 1,
                      .steps = SHORT,
                      .micro = 4,
                      .precision = "fp32",
                      .prefetch = 1,
                      .dropout = 0.1,
                      .more = overlap ? "\"tensor_parallel\": {\"tp_overlap_comm\": true}," : NULL,
                      .set = { device, sizes[tp - 1], sequence ? "cspeed.mesh.sequence=true" : NULL } };
    if (variable)
        setenv(variable, "1", 1);
    run_train(&spec, &result);
    if (variable)
        unsetenv(variable);
    return result;
}

/* Two GPUs divide the layers and exchange tensors through NCCL; two ranks on one GPU exchange them through memory of the
 * host. Exchanges beside operations change no bit. */
START_TEST(tensor_parallelism_is_the_cpus)
{
    static const char *const variables[] = { NULL, "CSPEED_EMULATOR_DEVICES" };
    if (!near_gpus("tensor parallelism", 2))
        return;
    run_result cpu = divided_run("cspeed.device=cpu", 1, false, false, NULL);
    for (int i = 0; i < 4; i++) {
        run_result gpu = divided_run("cspeed.device=cuda", 2, i % 2, false, variables[i / 2]);
        run_result beside = divided_run("cspeed.device=cuda", 2, i % 2, true, variables[i / 2]);
        same_bits(&gpu, &beside, "exchanges beside operations");
        for (int step = 0; step < SHORT; step++)
            ck_assert_msg(fabs(gpu.loss[step] - cpu.loss[step]) <= 1e-5 * cpu.loss[step] &&
                              fabs(gpu.norm[step] - cpu.norm[step]) <= 1e-4 * cpu.norm[step],
                          "%s rows, %s, step %d: losses %.9g and %.9g, norms %.9g and %.9g",
                          i % 2 ? "divided" : "whole", variables[i / 2] ? "one GPU" : "two GPUs", step + 1,
                          gpu.loss[step], cpu.loss[step], gpu.norm[step], cpu.norm[step]);
    }
}
END_TEST

/* ---- the CPU and the GPU ---- */

typedef struct {
    run_spec spec;
    const char *from; /* folder of a checkpoint to resume from, or NULL */
    const char *to;   /* folder in which step HALF is saved, or NULL */
    double loss[STEPS];
} run_plan;

static int run_rank(void *argument)
{
    run_plan *j = argument;
    cs_engine *engine = run_open(&j->spec, NULL);
    if (j->from)
        CS_MUST(cs_load_checkpoint(engine, j->from, "half", NULL, NULL));
    for (int64_t step = cs_last_step(engine).step; step < STEPS; step++) {
        run_step(engine, &j->spec);
        j->loss[step] = cs_last_step(engine).loss;
        if (step + 1 == HALF && j->to)
            CS_MUST(cs_save_checkpoint(engine, j->to, "half", NULL));
    }
    cs_destroy(engine);
    return 0;
}

static run_plan *go(const char *model, const char *precision, const char *device, const char *from, const char *to)
{
    run_plan *j = run_share(sizeof *j);
    j->from = from;
    j->to = to;
    j->spec = (run_spec){ .world = 1,
                          .stage = 2,
                          .steps = STEPS,
                          .micro = 1,
                          .precision = precision,
                          .set = { model, device, "cspeed.save_interval=0", "optimizer.params.lr=5e-3" } };
    run_ranks(1, run_rank, j);
    return j;
}

static double apart(const run_plan *a, const run_plan *b, int first)
{
    double worst = 0;
    for (int step = first; step < STEPS; step++)
        worst = fmax(worst, fabs(a->loss[step] - b->loss[step]) / a->loss[step]);
    return worst;
}

/* Returns the mean of ten losses, from step `first` on. */
static double mean(const run_plan *j, int first)
{
    double sum = 0;
    for (int step = first; step < first + 10; step++)
        sum += j->loss[step];
    return sum / 10;
}

static void check_journeys(const char *name, const char *model, const char *precision, double bound)
{
    static const char *const cpu = "cspeed.device=cpu", *const cuda = "cspeed.device=cuda";
    shell_enter();
    run_plan *here = go(model, precision, cpu, NULL, "cpu"), *there = go(model, precision, cuda, NULL, "cuda"),
             *out = go(model, precision, cuda, "cpu", NULL), *back = go(model, precision, cpu, "cuda", NULL);
    double gaps[] = { apart(here, there, 0), apart(here, out, HALF), apart(here, back, HALF) };
    printf("%s, %s: from the CPU's losses at most %.2g on the GPU, %.2g from the CPU's checkpoint on, and %.2g from "
           "the GPU's checkpoint on the CPU\n",
           name, precision, gaps[0], gaps[1], gaps[2]);
    ck_assert_double_lt(mean(there, STEPS - 10), 0.98 * mean(there, 0));
    ck_assert(memcmp(here->loss, there->loss, sizeof here->loss) !=
              0); /* equal bits would mean that both trainings ran on the same device */
    for (int i = 0; i < 3; i++)
        ck_assert_msg(gaps[i] <= bound, "%s, %s: losses %.3g apart", name, precision, gaps[i]);
    run_plan *all[] = { here, there, out, back };
    for (int i = 0; i < 4; i++)
        run_unshare(all[i], sizeof *all[i]);
    shell_leave();
}

#define GPT2                                                                                                           \
    "cspeed.model={\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 16, "      \
    "\"n_positions\": 16, \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0, \"initializer_range\": 0.1}"
#define LLAMA                                                                                                          \
    "cspeed.model={\"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 16, \"intermediate_size\": 24, "    \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "                               \
    "\"max_position_embeddings\": 16, \"initializer_range\": 0.1}"

START_TEST(losses_are_the_cpus)
{
    if (!near_emulated("losses"))
        return;
    check_journeys("GPT-2", GPT2, "fp32", 1e-5);
    check_journeys("GPT-2", GPT2, "bf16", 2e-2);
    check_journeys("Llama", LLAMA, "fp32", 1e-5);
    check_journeys("Llama", LLAMA, "bf16", 2e-2);
}
END_TEST

/* ---- the step's verdict, computed on the device ---- */

enum { BOUNDARIES = 24 };

/* What is counted in one micro-batch. */
typedef struct {
    uint64_t forward, backward, step; /* number of times that the host waits in cs_forward, cs_backward and cs_step */
    uint64_t pageable;                /* copies from or to pageable memory; a real GPU makes the host wait for them */
    bool ahead; /* true: when cs_step returns, operations of forward and backward are unfinished */
} watched;

typedef struct {
    run_spec spec;
    bool late;                 /* true: metrics are read only at the end */
    cs_metrics of[BOUNDARIES]; /* if `late` is true, only the last entry is set */
    uint32_t masters, slots;
    watched seen[BOUNDARIES];
} boundaries;

typedef uint64_t count_call(void);

/* Counters of the emulated device: waits of the host, copies of pageable memory, unfinished operations. */
static uint64_t *host_waits, *pageable_copies;
static count_call *waiting;

/* Returns the address of a counter of the module, or of a variable that stays 0 if the module has no counters. */
static uint64_t *find_count(void *module, const char *name)
{
    static uint64_t none;
    uint64_t *found = module ? dlsym(module, name) : NULL;
    return found ? found : &none;
}

static void find_counts(void)
{
    void *module = dlopen(getenv("CSPEED_CUDA_MODULE"), RTLD_LAZY | RTLD_NOLOAD);
    host_waits = find_count(module, "emulator_host_waits");
    pageable_copies = find_count(module, "emulator_pageable_copies");
    waiting = module ? (count_call *)(intptr_t)dlsym(module, "emulator_waiting") : NULL;
}

/* Runs one micro-batch, and counts how often the host waits in cs_forward, cs_backward and cs_step. */
static watched watch_step(cs_engine *engine, const cs_batch *batch)
{
    uint64_t before = *host_waits, copies = *pageable_copies, left = waiting ? waiting() : 0;
    cs_forward(engine, batch);
    uint64_t forward = *host_waits;
    cs_backward(engine);
    uint64_t backward = *host_waits, given = waiting ? waiting() - left : 0;
    cs_step(engine);
    return (watched){ forward - before, backward - forward, *host_waits - backward, *pageable_copies - copies,
                      waiting && waiting() >= given };
}

static int walk_boundaries(void *argument)
{
    boundaries *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    cs_batch batch = run_batch(engine, &job->spec, 0);
    find_counts();
    for (int step = 0; step < BOUNDARIES; step++) {
        job->seen[step] = watch_step(engine, &batch);
        if (!job->late || step + 1 == BOUNDARIES)
            job->of[step] = cs_last_step(engine);
    }
    job->masters = run_masters(engine);
    job->slots = run_slots(engine);
    cs_destroy(engine);
    return 0;
}

/* Trains in fp16 with a loss scale that overflows, and then rises until it overflows again. */
static boundaries *walk_on(const char *device, bool late, const char *set)
{
    boundaries *job = run_share(sizeof *job);
    job->late = late;
    job->spec = (run_spec){ .world = 1,
                            .stage = 2,
                            .steps = BOUNDARIES,
                            .micro = 1,
                            .precision = "fp16",
                            .set = { device, "fp16.initial_scale_power=32", "fp16.loss_scale_window=3",
                                     "steps_per_print=1000", set } };
    run_ranks(1, walk_boundaries, job);
    return job;
}

static void drop_walk(boundaries *job)
{
    run_unshare(job, sizeof *job);
}

START_TEST(scales_and_skipped_steps_are_the_cpus)
{
    if (!near_emulated("scales"))
        return;
    boundaries *here = walk_on("cspeed.device=cpu", false, NULL), *there = walk_on("cspeed.device=cuda", false, NULL);
    for (int step = 0; step < BOUNDARIES; step++) {
        const cs_metrics *a = &here->of[step], *b = &there->of[step];
        ck_assert_msg(a->loss_scale == b->loss_scale && a->skipped == b->skipped,
                      "step %d: scales %g and %g, %lld and %lld skipped", step + 1, a->loss_scale, b->loss_scale,
                      (long long)a->skipped, (long long)b->skipped);
        ck_assert_msg(fabs(a->loss - b->loss) <= 2e-3 * a->loss, "step %d: losses %.9g and %.9g", step + 1, a->loss,
                      b->loss);
        ck_assert(a->learning_rate == b->learning_rate && a->tokens == b->tokens);
    }
    int64_t first = there->of[BOUNDARIES / 2].skipped;
    ck_assert_int_gt(first, 1);
    ck_assert_int_gt(there->of[BOUNDARIES - 1].skipped, first); /* the scale rose and overflowed again */
    drop_walk(here), drop_walk(there);
}
END_TEST

START_TEST(reading_metrics_changes_no_bit)
{
    if (!near_emulated("asking"))
        return;
    boundaries *asked = walk_on("cspeed.device=cuda", false, NULL), *late = walk_on("cspeed.device=cuda", true, NULL);
    const cs_metrics *a = &asked->of[BOUNDARIES - 1], *b = &late->of[BOUNDARIES - 1];
    ck_assert(asked->masters == late->masters && asked->slots == late->slots);
    ck_assert(a->loss == b->loss && a->grad_norm == b->grad_norm && a->loss_scale == b->loss_scale);
    ck_assert(a->skipped == b->skipped && a->tokens == b->tokens && a->learning_rate == b->learning_rate);
    drop_walk(asked), drop_walk(late);
}
END_TEST

static void check_waits(const char *what, int number, const watched *seen, int max_in_forward, int in_step)
{
    ck_assert_msg((int)seen->forward <= max_in_forward && seen->backward == 0 && (int)seen->step == in_step,
                  "%s, number %d: %d waits in forward, %d in backward, %d in step", what, number, (int)seen->forward,
                  (int)seen->backward, (int)seen->step);
}

/* In each optimizer step the host waits once, in cs_step, for the verdict of the previous step. The host waits neither
 * in backward nor between the micro-batches of a step. With one micro-batch in each step, the host does not wait in
 * forward. With several micro-batches, forward waits until the buffer of the micro-batch before the previous one is
 * free. LAMB also waits in its update, because the update reads norms of tensors. */
START_TEST(a_step_waits_only_for_the_previous_one)
{
    enum { WARM = 4 };
    if (!near_emulated("waits") || !near_counts())
        return;
    boundaries *one = walk_on("cspeed.device=cuda", true, NULL);
    boundaries *two = walk_on("cspeed.device=cuda", true, "gradient_accumulation_steps=2");
    boundaries *lamb = walk_on("cspeed.device=cuda", true, "optimizer={\"type\": \"Lamb\", \"params\": {}}");
    for (int step = WARM; step < BOUNDARIES; step++) {
        check_waits("a step", step, &one->seen[step], 0, 1);
        check_waits("a micro-batch", step, &two->seen[step], 1, step % 2);
        ck_assert_uint_eq(one->seen[step].pageable + two->seen[step].pageable, 0);
        ck_assert(one->seen[step].ahead);
        ck_assert(lamb->seen[step].step >= 1 && !lamb->seen[step].ahead);
    }
    drop_walk(one), drop_walk(two), drop_walk(lamb);
}
END_TEST

/* ---- products ---- */

typedef struct {
    run_spec spec;
    uint64_t all, unaligned; /* numbers of multiply-adds */
} products;

static int count_products(void *argument)
{
    products *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    void *module = dlopen(getenv("CSPEED_CUDA_MODULE"), RTLD_LAZY | RTLD_NOLOAD);
    uint64_t *all = find_count(module, "emulator_multiply_adds");
    uint64_t *unaligned = find_count(module, "emulator_unaligned_multiply_adds");
    run_step(engine, &job->spec); /* also measures the device's speed */
    uint64_t before = *all, unaligned_before = *unaligned;
    run_step(engine, &job->spec);
    job->all = *all - before;
    job->unaligned = *unaligned - unaligned_before;
    cs_destroy(engine);
    return 0;
}

/* Returns how many unaligned multiply-adds are counted for a product of bf16 matrices with this number of columns. */
static uint64_t unaligned_of(cs_stream *stream, int64_t columns)
{
    void *module = dlopen(getenv("CSPEED_CUDA_MODULE"), RTLD_LAZY | RTLD_NOLOAD);
    uint64_t *unaligned = find_count(module, "emulator_unaligned_multiply_adds"), before = *unaligned;
    cs_tensor x = near_new(CS_BF16, 16, 32), w = near_new(CS_BF16, 32, columns), y = near_new(CS_BF16, 16, columns);
    cs_op_matmul(stream, near_at(y), near_at(x), near_at(w), (cs_tensor){ 0 }, CS_IN_OUT);
    near_fetch();
    near_free(x), near_free(w), near_free(y);
    return *unaligned - before;
}

START_TEST(products_of_unaligned_rows_are_counted)
{
    if (!near_emulated("unaligned rows") || !near_counts())
        return;
    setenv("CSPEED_TEST_DEVICE", "cuda", 1);
    cs_stream *stream = ce_device_stream(near_open(1), CE_COMPUTE);
    ck_assert_uint_eq(unaligned_of(stream, 61), 16 * 32 * 61);
    ck_assert_uint_eq(unaligned_of(stream, 64), 0);
    near_close();
}
END_TEST

/* cuBLASLt uses slower kernels for matrices whose rows are not aligned to 16 bytes. */
START_TEST(an_odd_vocabulary_leaves_products_aligned)
{
    if (!near_emulated("products") || !near_counts())
        return;
    products *job = run_share(sizeof *job);
    job->spec = (run_spec){
        .world = 1, .stage = 2, .steps = 2, .micro = 1, .precision = "bf16", .set = { GPT2, "cspeed.device=cuda" }
    };
    run_ranks(1, count_products, job);
    printf("products of an odd vocabulary: %d %% of %d multiply-adds are of unaligned rows\n",
           (int)(job->unaligned * 100 / job->all), (int)job->all);
    ck_assert_uint_gt(job->all, 0);
    ck_assert_uint_eq(job->unaligned, 0);
    run_unshare(job, sizeof *job);
}
END_TEST

SUITE_MAIN_APART("devices", products_of_unaligned_rows_are_counted, an_odd_vocabulary_leaves_products_aligned,
                 scales_and_skipped_steps_are_the_cpus, reading_metrics_changes_no_bit,
                 a_step_waits_only_for_the_previous_one, stages_and_runs_alike_in_fp32, stages_and_runs_alike_in_bf16,
                 nccl_gives_the_same_but_for_rounding, tensor_parallelism_is_the_cpus, losses_are_the_cpus)
