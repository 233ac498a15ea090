/* test_sent.c - the number of bytes that cs_memory_of predicts for a step equals the bytes that a step really sends. */
#include "suite.h"
#include "runs.h"

#include "core/engine.h"

enum { MAX_COUNT = 8 };

typedef struct {
    const run_spec *spec;
    uint64_t *planned, *sent; /* arrays of MAX_COUNT elements, shared between the processes */
} order;

static int measure(void *argument)
{
    const order *job = argument;
    cs_engine *engine = run_open(job->spec, NULL);
    int rank = cs_rank(engine);
    job->planned[rank] = cs_memory_of(engine).sent;
    run_step(engine, job->spec);
    ce_walk_settle(engine);
    uint64_t before = cs_comm_counters(engine->comm).bytes;
    run_step(engine, job->spec);
    ce_walk_settle(engine);
    job->sent[rank] = cs_comm_counters(engine->comm).bytes - before;
    cs_destroy(engine);
    return 0;
}

static void check(const run_spec *spec)
{
    uint64_t *numbers = run_share(2 * MAX_COUNT * sizeof *numbers);
    order job = { spec, numbers, numbers + MAX_COUNT };
    run_ranks(spec->world, measure, &job);
    for (int rank = 0; rank < spec->world; rank++)
        ck_assert_msg(job.planned[rank] == job.sent[rank],
                      "stage %d, %d ranks, %s, %s, rank %d: %llu planned, %llu sent", spec->stage, spec->world,
                      spec->precision, spec->set[0], rank, (unsigned long long)job.planned[rank],
                      (unsigned long long)job.sent[rank]);
    ck_assert_int_eq(job.sent[0] > 0, spec->world > 1);
    run_unshare(numbers, 2 * MAX_COUNT * sizeof *numbers);
}

START_TEST(a_step_sends_what_was_planned)
{
    static const char *const transports[] = { "cspeed.comm=\"shm\"", "cspeed.comm=\"tcp\"" };
    for (int stage = 0; stage <= 3; stage++)
        for (int i = 0; i < 4; i++) {
            run_spec spec = { .world = 2 + i % 2,
                              .stage = stage,
                              .steps = 2,
                              .micro = 2,
                              .accumulation = 1 + i % 2,
                              .precision = i < 2 ? "fp32" : "bf16",
                              .recompute = stage % 2 ? "unit" : "none",
                              .prefetch = 1,
                              .set = { transports[stage == 3 ? 1 - i / 2 : i % 2], "cspeed.products=\"fixed\"" } };
            check(&spec);
        }
    run_spec alone = { .world = 1, .stage = 2, .steps = 2, .micro = 2, .precision = "fp32", .recompute = "none" };
    check(&alone);
}
END_TEST

/* O2 keeps the parameters of norms in fp32, and they are sent separately. */
START_TEST(norms_in_fp32_count)
{
    run_spec spec = { .world = 2,
                      .stage = 2,
                      .steps = 2,
                      .micro = 2,
                      .precision = "fp32",
                      .recompute = "none",
                      .more = "\"amp\": {\"enabled\": true, \"opt_level\": \"O2\"},",
                      .set = { "cspeed.products=\"fixed\"" } };
    check(&spec);
}
END_TEST

SUITE_MAIN("sent", a_step_sends_what_was_planned, norms_in_fp32_count)
