/* test_graphs.c - training with cspeed.cuda_graphs on the emulated GPU: the same bits as without graphs, few
 * launches, and an error for what cannot be replayed. */
#include "near.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"
#include "core/engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 6, HALF = 3 };

/* ---- trainings ---- */

typedef struct {
    run_spec spec;
    bool documents; /* two documents in a sample */
    bool asked;     /* metrics are read between steps */
    bool resumed;   /* saved and resumed halfway */
    bool saved;     /* saved in the background, while the second step is captured */
} course;

typedef struct {
    double loss[STEPS], norm[STEPS], output;
    uint32_t masters[RUN_RANKS], slots[RUN_RANKS];
    near_launches of_step[STEPS], of_backward; /* launches of rank 0 in each step, and in the last backward */
} outcome;

typedef struct {
    const course *course;
    outcome *outcome;
} order;

static cs_batch batch_of(const cs_engine *engine, const course *on, int micro)
{
    static int32_t starts[64 * RUN_LENGTH];
    cs_batch batch = run_batch(engine, &on->spec, micro);
    for (int64_t i = 0; i < cs_count(batch.inputs); i++)
        starts[i] = i % RUN_LENGTH < 5 ? 0 : 5;
    if (on->documents)
        batch.starts = cs_matrix(starts, CS_I32, batch.inputs.shape[0], RUN_LENGTH);
    return batch;
}

static void take_step(cs_engine *engine, const order *job, int step)
{
    const course *on = job->course;
    near_launches before = near_launched();
    for (int micro = 0; micro < (on->spec.accumulation ? on->spec.accumulation : 1); micro++) {
        cs_batch batch = batch_of(engine, on, micro);
        cs_forward(engine, &batch);
        near_launches here = near_launched();
        cs_backward(engine);
        job->outcome->of_backward = near_since(here);
        cs_step(engine);
    }
    near_launches all = near_since(before);
    if (cs_rank(engine) != 0)
        return;
    job->outcome->of_step[step] = all;
    job->outcome->loss[step] = cs_last_step(engine).loss;
    job->outcome->norm[step] = cs_last_step(engine).grad_norm;
}

static void ask_between(cs_engine *engine, const order *job)
{
    cs_batch batch = batch_of(engine, job->course, 0);
    cs_tensor output;
    CS_MUST(cs_predict(engine, &batch, &output));
    if (cs_rank(engine) == 0)
        job->outcome->output += (double)cs_element(output, 7);
}

static int run_rank(void *argument)
{
    const order *job = argument;
    cs_engine *engine = run_open(&job->course->spec, NULL);
    for (int step = 0; step < STEPS; step++) {
        if (job->course->resumed && step == HALF) {
            CS_MUST(cs_save_checkpoint(engine, "half", NULL, NULL));
            cs_destroy(engine);
            engine = run_open(&job->course->spec, NULL);
            CS_MUST(cs_load_checkpoint(engine, "half", NULL, NULL, NULL));
        }
        take_step(engine, job, step);
        if (job->course->saved && step == 0)
            CS_MUST(cs_save_checkpoint(engine, "first", NULL, NULL));
        if (job->course->asked && step % 2 == 0)
            ask_between(engine, job);
    }
    job->outcome->masters[cs_rank(engine)] = run_masters(engine);
    job->outcome->slots[cs_rank(engine)] = run_slots(engine);
    cs_destroy(engine);
    return 0;
}

static outcome go(const course *on, bool graphs)
{
    course own = *on;
    outcome *shared = run_share(sizeof *shared), result;
    order job = { &own, shared };
    int at = 0;
    while (own.spec.set[at])
        at++;
    own.spec.set[at++] = "cspeed.device=cuda";
    own.spec.set[at] = graphs ? "cspeed.cuda_graphs=true" : NULL;
    own.spec.steps = STEPS;
    shell_enter();
    run_ranks(own.spec.world, run_rank, &job);
    shell_leave();
    result = *shared;
    run_unshare(shared, sizeof *shared);
    return result;
}

static void same(const outcome *a, const outcome *b, const char *what)
{
    for (int step = 0; step < STEPS; step++)
        ck_assert_msg(a->loss[step] == b->loss[step] && a->norm[step] == b->norm[step],
                      "%s, step %d: losses %.17g and %.17g, norms %.17g and %.17g", what, step + 1, a->loss[step],
                      b->loss[step], a->norm[step], b->norm[step]);
    ck_assert_msg(memcmp(a->masters, b->masters, sizeof a->masters) == 0, "%s: other masters", what);
    ck_assert_msg(memcmp(a->slots, b->slots, sizeof a->slots) == 0, "%s: other slots", what);
    ck_assert_msg(a->output == b->output, "%s: other outputs, %.17g and %.17g", what, a->output, b->output);
}

static void compare(const course *on, const char *what)
{
    outcome without = go(on, false);
    /* with this order of execution, a missing edge in a graph gives a wrong result */
    setenv("CSPEED_EMULATOR_ORDER", "reverse", 1);
    outcome with = go(on, true);
    unsetenv("CSPEED_EMULATOR_ORDER");
    same(&without, &with, what);
    if (!near_counts())
        return;
    uint64_t micros = on->spec.accumulation ? (uint64_t)on->spec.accumulation : 1;
    near_launches each = without.of_step[STEPS - 1], few = with.of_step[STEPS - 1];
    printf("%s: %llu launches a step become %llu and %llu graphs\n", what, (unsigned long long)each.kernels,
           (unsigned long long)few.kernels, (unsigned long long)few.graphs);
    ck_assert_uint_eq(few.graphs, 2 * micros);
    ck_assert_uint_eq(with.of_backward.kernels, 0);
    ck_assert_uint_lt(few.kernels, each.kernels);
}

static void compare_all(const course *courses, size_t count, const char *where)
{
    for (size_t i = 0; i < count; i++) {
        char what[64];
        snprintf(what, sizeof what, "%s, course %zu", where, i);
        if (near_gpus(what, courses[i].spec.world))
            compare(&courses[i], what);
    }
}

/* Curriculum learning: samples have 4 tokens, then 8, and 12 from the fourth step on. */
#define LONGER                                                                                                         \
    "\"curriculum_learning\": { \"enabled\": true, \"curriculum_type\": \"seqlen\", \"min_difficulty\": 4, "           \
    "\"max_difficulty\": 12, \"schedule_type\": \"fixed_linear\", \"schedule_config\": { "                             \
    "\"total_curriculum_step\": 4, \"difficulty_step\": 4 } },"

START_TEST(one_rank_has_the_same_bits)
{
    static const course courses[] = {
        { .spec = { .world = 1, .stage = 0, .precision = "fp32", .set = { "cspeed.async_save=true" } },
          .asked = true,
          .saved = true },
        { .spec = { .world = 1, .stage = 0, .precision = "bf16", .accumulation = 3, .dropout = 0.1 }, .resumed = true },
        { .spec = { .world = 1,
                    .stage = 3,
                    .precision = "fp32",
                    .prefetch = 1,
                    .recompute = "unit",
                    .accumulation = 3 },
          .documents = true },
        { .spec = { .world = 1, .stage = 1, .precision = "fp32", .more = LONGER }, .asked = true },
        { .spec = { .world = 1, .stage = 2, .precision = "fp16", .dropout = 0.1, .recompute = "unit" }, .asked = true },
        { .spec = { .world = 1, .stage = 2, .precision = "bf16", .accumulation = 3, .set = { RUN_EXPERTS } },
          .asked = true },
    };
    compare_all(courses, sizeof courses / sizeof *courses, "graphs of one rank");
}
END_TEST

START_TEST(nccl_ranks_have_the_same_bits)
{
    static const course courses[] = {
        { .spec = { .world = 2, .stage = 0, .precision = "bf16", .accumulation = 3, .dropout = 0.1 }, .asked = true },
        { .spec = { .world = 2, .stage = 1, .precision = "fp32", .recompute = "unit" }, .resumed = true },
        { .spec = { .world = 2, .stage = 2, .precision = "fp32", .accumulation = 3, .dropout = 0.1 }, .resumed = true },
        { .spec = { .world = 2, .stage = 2, .precision = "bf16", .recompute = "unit" }, .documents = true },
        { .spec = { .world = 2,
                    .stage = 3,
                    .precision = "bf16",
                    .prefetch = 1,
                    .recompute = "unit",
                    .accumulation = 3,
                    .dropout = 0.1 },
          .resumed = true },
        { .spec = { .world = 2, .stage = 3, .precision = "fp32", .prefetch = 2 }, .documents = true, .asked = true },
        { .spec = { .world = 2, .stage = 3, .precision = "fp32", .recompute = "unit", .set = { RUN_EXPERTS } },
          .resumed = true },
        { .spec = { .world = 1, .stage = 2, .precision = "bf16", .set = { "cspeed.comm=nccl" } }, .resumed = true },
    };
    compare_all(courses, sizeof courses / sizeof *courses, "graphs over NCCL");
}
END_TEST

static uint64_t graphs_of(const char *more, int world, int step)
{
    course on = { .spec = { .world = world, .stage = 2, .precision = "fp32", .more = more } };
    outcome with = go(&on, true);
    return with.of_step[step].graphs;
}

/* No graphs are used where the host must wait. The profiler waits for each unit. comms_logger waits for each
 * collective. Ranks that share a GPU wait for data that goes through the host's memory. */
START_TEST(features_that_wait_run_without_graphs)
{
    if (!near_emulated("graphs left out") || !near_counts())
        return;
    ck_assert_uint_eq(graphs_of(NULL, 1, STEPS - 1), 2);
    ck_assert_uint_eq(graphs_of("\"flops_profiler\": { \"enabled\": true, \"profile_step\": 5 },", 1, STEPS - 1), 1);
    ck_assert_uint_eq(graphs_of("\"comms_logger\": { \"enabled\": true },", 1, STEPS - 1), 0);
    ck_assert_uint_eq(graphs_of(NULL, 2, STEPS - 1), 0);
}
END_TEST

typedef struct {
    run_spec spec;
    uint64_t launches, units;
} updating;

/* Repeats the update of the previous step for all units, and counts the launches. */
static int update_again(void *argument)
{
    updating *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    run_step(engine, &job->spec);
    near_launches before = near_launched();
    for (int i = 0; i < engine->model->count; i++)
        ce_update_take(engine->update, i);
    job->launches = near_since(before).kernels;
    job->units = (uint64_t)engine->model->count;
    cs_destroy(engine);
    return 0;
}

/* The number of launches does not depend on the number of tensors of a unit. */
START_TEST(an_update_is_one_launch_per_unit_and_group)
{
    static const struct {
        const char *optimizer, *groups;
        /* `each`: launches of a unit. `fewer`: launches that the embedding's unit does not need; it has no biases, and
         * so one parameter group less. */
        uint64_t each, fewer;
    } rows[] = {
        { "AdamW", NULL, 1, 0 },
        { "SGD", NULL, 1, 0 },
        { "Lion", NULL, 1, 0 },
        { "AdamW", "cspeed.param_groups=[{\"params\": \"*weight\", \"lr\": 0.01}]", 2, 1 },
    };
    if (!near_emulated("launches of an update") || !near_counts())
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char type[64];
        updating *job = run_share(sizeof *job);
        snprintf(type, sizeof type, "optimizer={\"type\": \"%s\", \"params\": {\"lr\": 0.01}}", rows[i].optimizer);
        job->spec = (run_spec){
            .world = 1, .steps = 1, .precision = "bf16", .set = { "cspeed.device=cuda", type, rows[i].groups }
        };
        run_ranks(1, update_again, job);
        ck_assert_msg(job->launches == rows[i].each * job->units - rows[i].fewer, "%s: %llu launches for %llu units",
                      rows[i].optimizer, (unsigned long long)job->launches, (unsigned long long)job->units);
        run_unshare(job, sizeof *job);
    }
}
END_TEST

/* The launched process of rank 1 forks a child. The child takes part as rank 1 and is killed. The launched process
 * stays alive. So rank 0 ends first, and the test sees the exit code of rank 0. */
static int lose_rank_1(void *argument)
{
    const run_spec *spec = argument;
    pid_t own = strcmp(getenv("RANK"), "1") == 0 ? fork() : 0;
    if (own) {
        waitpid(own, NULL, 0);
        pause();
        return 0;
    }
    cs_engine *engine = run_open(spec, NULL);
    for (int step = 0; step < STEPS || cs_rank(engine) == 0; step++)
        run_step(engine, spec);
    raise(SIGKILL);
    return 0;
}

/* Rank 0 must end although freeing its communicator would wait forever: the graphs contain captured calls of NCCL and
 * are never destroyed. */
START_TEST(a_lost_rank_ends_the_other)
{
    run_spec spec = { .world = 2,
                      .stage = 3,
                      .steps = STEPS,
                      .precision = "bf16",
                      .set = { "cspeed.device=cuda", "cspeed.cuda_graphs=true" } };
    if (!near_gpus("a lost rank of graphs", 2))
        return;
    ck_assert_int_eq(cs_spawn(2, lose_rank_1, &spec), CS_NO_PEER);
    ck_assert_msg(strstr(cs_error(), "rank 0 ended with code 75"), "%s", cs_error());
}
END_TEST

SUITE_MAIN_APART("graphs", an_update_is_one_launch_per_unit_and_group, features_that_wait_run_without_graphs,
                 a_lost_rank_ends_the_other, one_rank_has_the_same_bits, nccl_ranks_have_the_same_bits)
