/* test_modes.c - cspeed.mode "ps" and "dp": the losses are those of stage 0, workers send nothing to each other, the
 * staleness of asynchronous workers is bounded, and the work of the master replica is counted. */
#include "suite.h"
#include "base/beat.h"
#include "engine.h"
#include "near.h"
#include "runs.h"

#include "cspeed/layer.h"

#include <string.h>
#include <time.h>

enum { STEPS = 4, MAX_RANKS = 5 };

static bool on_cpu(void)
{
    return strcmp(near_device(), "cpu") == 0;
}

static void alike(int workers, int servers, const char *precision)
{
    char number[64], what[64];
    run_spec spec = { .world = workers, .steps = STEPS, .accumulation = 2, .precision = precision, .dropout = 0.1 };
    run_result ranks, served, threads;
    snprintf(what, sizeof what, "%s, %d workers, %d servers", precision, workers, servers);
    run_train(&spec, &ranks);
    ck_assert_double_lt(ranks.loss[STEPS - 1], ranks.loss[0]);
    spec.world = workers + servers;
    spec.set[0] = "cspeed.mode=ps";
    snprintf(number, sizeof number, "cspeed.ps.servers=%d", servers);
    spec.set[1] = number;
    run_train(&spec, &served);
    run_same_bits(&ranks, &served, STEPS, what);
    spec.world = 1;
    spec.set[0] = "cspeed.mode=dp";
    snprintf(number, sizeof number, "cspeed.dp.threads=%d", workers);
    run_train(&spec, &threads);
    run_same_bits(&ranks, &threads, STEPS, what);
}

START_TEST(modes_have_the_bits_of_stage_0)
{
    if (!on_cpu())
        return;
    alike(1, 1, "fp32");
    alike(2, 1, "fp32");
    alike(3, 2, "fp32");
    alike(2, 3, "bf16");
}
END_TEST

/* ---- traffic ---- */

typedef struct {
    uint64_t sent[MAX_RANKS * MAX_RANKS], planned[MAX_RANKS];
    uint64_t counted[MAX_RANKS]; /* bytes that the comm has counted during the steps */
    uint64_t handed_out, gathered;
    double master_seconds, seconds;
    int64_t ahead[8], parameters;
} costs;

typedef struct {
    run_spec spec;
    costs *shared;
} job;

/* Counts the messages of the steps only; the first values of the parameters are sent before. */
static int count_traffic(void *argument)
{
    const job *task = argument;
    cs_engine *engine = run_open(&task->spec, NULL);
    int rank = cs_rank(engine), ranks = cs_world_size(engine);
    cs_mode_costs before = cs_mode_costs_of(engine);
    uint64_t counted = cs_comm_counters(engine->comm).bytes;
    for (int step = 0; step < STEPS; step++)
        run_step(engine, &task->spec);
    task->shared->counted[rank] = cs_comm_counters(engine->comm).bytes - counted;
    task->shared->planned[rank] = cs_memory_of(engine).sent;
    cs_mode_costs after = cs_mode_costs_of(engine);
    for (int i = 0; rank == 0 && i < ranks * ranks; i++)
        task->shared->sent[i] = after.sent[i] - before.sent[i];
    cs_mode_costs_free(&before);
    cs_mode_costs_free(&after);
    cs_destroy(engine);
    return 0;
}

enum { WORKERS = 3, SERVERS = 2, RANKS = WORKERS + SERVERS };

/* Workers send nothing to other workers. If the servers are asynchronous, they send nothing to other servers. */
static void check_traffic(const run_spec *spec, bool async)
{
    job task = { .spec = *spec, .shared = run_share(sizeof(costs)) };
    run_ranks(RANKS, count_traffic, &task);
    for (int from = 0; from < RANKS; from++) {
        uint64_t all = 0;
        for (int to = 0; to < RANKS; to++) {
            uint64_t bytes = task.shared->sent[from * RANKS + to];
            bool both = (from < WORKERS && to < WORKERS) || (async && from >= WORKERS && to >= WORKERS);
            ck_assert_msg(both || from == to ? bytes == 0 : bytes > 0, "rank %d to %d: %llu bytes", from, to,
                          (unsigned long long)bytes);
            all += bytes;
        }
        /* the matrix of bytes sent from rank to rank is complete */
        ck_assert_uint_eq(all, task.shared->counted[from]);
        ck_assert_uint_eq(all, STEPS * task.shared->planned[from]);
    }
    run_unshare(task.shared, sizeof(costs));
}

START_TEST(workers_send_nothing_to_each_other)
{
    run_spec spec = { .steps = STEPS, .precision = "fp32", .set = { "cspeed.mode=ps", "cspeed.ps.servers=2" } };
    if (!on_cpu())
        return;
    check_traffic(&spec, false);
    spec.set[2] = "cspeed.ps.async=true";
    spec.set[3] = "gradient_clipping=0";
    check_traffic(&spec, true);
}
END_TEST

/* ---- staleness ---- */

/* Delays the first worker, so that the others get ahead of it by as many steps as the bound allows. */
static int work_unevenly(void *argument)
{
    const job *task = argument;
    cs_engine *engine = run_open(&task->spec, NULL);
    for (int step = 0; step < task->spec.steps; step++) {
        if (cs_worker(engine) == 0)
            nanosleep(&(struct timespec){ .tv_nsec = 60 * 1000 * 1000 }, NULL);
        /* Asks for a save, as the launcher does. An asynchronous job ignores this request, because the other ranks
         * would not know of it. */
        if (cs_rank(engine) == 0)
            atomic_store(&ce_beat_own()->save_asked, 1);
        run_step(engine, &task->spec);
        if (cs_save_asked(engine))
            return 1;
    }
    cs_mode_costs found = cs_mode_costs_of(engine);
    for (int64_t i = 0; cs_rank(engine) == 0 && i < found.levels; i++)
        task->shared->ahead[i] = found.ahead[i];
    cs_mode_costs_free(&found);
    cs_destroy(engine);
    return 0;
}

START_TEST(staleness_is_bounded)
{
    enum { SLOW_STEPS = 12, BOUND = 2 };
    job task = { .spec = { .steps = SLOW_STEPS,
                           .precision = "fp32",
                           .set = { "cspeed.mode=ps", "cspeed.ps.async=true", "cspeed.ps.staleness=2",
                                    "gradient_clipping=0" } },
                 .shared = run_share(sizeof(costs)) };
    int64_t all = 0;
    if (!on_cpu())
        return;
    run_ranks(WORKERS + 1, work_unevenly, &task);
    for (int i = 0; i <= BOUND; i++)
        all += task.shared->ahead[i];
    ck_assert_int_eq(all, SLOW_STEPS * WORKERS); /* no step began more than BOUND steps ahead of the slowest worker */
    ck_assert_int_gt(task.shared->ahead[BOUND], 0);
    run_unshare(task.shared, sizeof(costs));
}
END_TEST

/* With one worker, asynchronous updates give the same losses as synchronous ones. */
START_TEST(one_asynchronous_worker_is_stage_0)
{
    run_spec spec = { .world = 1, .steps = STEPS, .precision = "fp32", .set = { "gradient_clipping=0" } };
    run_result alone, served;
    if (!on_cpu())
        return;
    run_train(&spec, &alone);
    spec.world = 3;
    spec.set[1] = "cspeed.mode=ps";
    spec.set[2] = "cspeed.ps.servers=2";
    spec.set[3] = "cspeed.ps.async=true";
    run_train(&spec, &served);
    run_same_bits(&alone, &served, STEPS, "one asynchronous worker");
}
END_TEST

/* ---- convergence on a convex problem: linear regression ---- */

enum { INPUTS = 8, BATCH = 16, CONVEX_STEPS = 200 };

static void dense_declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_linear_declare(cs_unit_self(unit, sizeof(cs_linear)), unit, "linear", INPUTS, 1, (cs_init){ CS_UNIFORM, 0.2f },
                      CS_IN_OUT, CS_BIAS);
}

static void dense_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_tensor cast = cs_pass_make(pass, cs_pass_dtype(pass), cs_rows(x), cs_columns(x));
    cs_op_cast(cs_pass_stream(pass), cast, x);
    cs_tensor guess = cs_linear_forward(cs_unit_self(unit, sizeof(cs_linear)), pass, cast);
    cs_op_squared_error(cs_pass_stream(pass), y, guess, cs_pass_targets(pass));
    cs_pass_keep(pass, guess);
}

static void dense_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    cs_tensor guess = cs_pass_take(pass), dguess = cs_pass_like(pass, guess);
    (void)dx;
    cs_op_squared_error_grad(cs_pass_stream(pass), dguess, dy, guess, cs_pass_targets(pass));
    cs_linear_backward_weights(cs_unit_self(unit, sizeof(cs_linear)), pass, dguess);
}

static const cs_kind dense = { "dense layer", dense_declare, dense_forward, dense_backward, NULL };

static int regress(void *argument)
{
    const job *task = argument;
    static float inputs[BATCH * INPUTS], targets[BATCH];
    cs_model *model;
    CS_MUST(cs_model_new(&model, 1));
    cs_model_floats(model, INPUTS, 1);
    cs_model_add(model, &dense, "dense", NULL);
    cs_engine *engine = run_open(&task->spec, model);
    unsigned short state[3] = { 5, (unsigned short)cs_rank(engine), 0 };
    for (int step = 0; step < CONVEX_STEPS; step++) {
        for (int b = 0; b < BATCH; b++) {
            targets[b] = 0.5f;
            for (int i = 0; i < INPUTS; i++) {
                inputs[b * INPUTS + i] = (float)(2 * erand48(state) - 1);
                targets[b] += inputs[b * INPUTS + i] * (float)(i - 3);
            }
        }
        cs_batch batch = { .inputs = cs_matrix(inputs, CS_F32, BATCH, INPUTS),
                           .targets = cs_matrix(targets, CS_F32, BATCH, 1) };
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
        if (cs_rank(engine) == 0 && (step == 0 || step == CONVEX_STEPS - 1))
            task->shared->ahead[step > 0] = (int64_t)(1e9 * cs_loss(engine));
    }
    cs_destroy(engine);
    return 0;
}

/* The loss of noise-free linear regression has its minimum at 0. Plain gradient descent comes close to it although the
 * gradients are up to four steps old. */
START_TEST(asynchronous_workers_converge)
{
    job task = { .spec = { .micro = BATCH,
                           .steps = CONVEX_STEPS,
                           .precision = "fp32",
                           .set = { "cspeed.model=null", "cspeed.mode=ps", "cspeed.ps.async=true",
                                    "cspeed.ps.staleness=4", "gradient_clipping=0", "optimizer.type=SGD",
                                    "optimizer.params={\"lr\": 0.05}" } },
                 .shared = run_share(sizeof(costs)) };
    if (!on_cpu())
        return;
    run_ranks(4, regress, &task);
    ck_assert_double_gt(1e-9 * (double)task.shared->ahead[0], 5);
    ck_assert_double_lt(1e-9 * (double)task.shared->ahead[1], 1e-4);
    run_unshare(task.shared, sizeof(costs));
}
END_TEST

/* ---- the master of replicas ---- */

static int count_master(void *argument)
{
    const job *task = argument;
    cs_engine *engine = run_open(&task->spec, NULL);
    for (int step = 0; step < STEPS; step++)
        run_step(engine, &task->spec);
    cs_mode_costs found = cs_mode_costs_of(engine);
    task->shared->parameters = (int64_t)cs_memory_of(engine).values;
    task->shared->handed_out = found.handed_out;
    task->shared->gathered = found.gathered;
    task->shared->master_seconds = found.master_seconds;
    task->shared->seconds = found.seconds;
    cs_destroy(engine);
    return 0;
}

START_TEST(the_masters_work_is_counted)
{
    job task = { .spec = { .steps = STEPS,
                           .accumulation = 2,
                           .precision = "fp32",
                           .set = { "cspeed.mode=dp", "cspeed.dp.threads=3" } },
                 .shared = run_share(sizeof(costs)) };
    if (!on_cpu())
        return;
    run_ranks(1, count_master, &task);
    /* each step copies the parameters to the two other replicas and adds as many bytes of their gradients */
    ck_assert_uint_eq(task.shared->handed_out, 2 * STEPS * (uint64_t)task.shared->parameters);
    ck_assert_uint_eq(task.shared->gathered, 2 * STEPS * (uint64_t)task.shared->parameters);
    ck_assert_double_gt(task.shared->master_seconds, 0);
    ck_assert_double_lt(task.shared->master_seconds, task.shared->seconds);
    run_unshare(task.shared, sizeof(costs));
}
END_TEST

SUITE_MAIN("modes", modes_have_the_bits_of_stage_0, workers_send_nothing_to_each_other, staleness_is_bounded,
           one_asynchronous_worker_is_stage_0, asynchronous_workers_converge, the_masters_work_is_counted)
