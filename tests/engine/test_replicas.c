/* test_replicas.c - ranks that hold the same parameters hold the same bits: after initialization, although their seeds
 * differ, and after each of a hundred steps. */
#include "suite.h"
#include "near.h"
#include "runs.h"

#include "base/crc.h"
#include "core/engine.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 100, RANKS = 4 };

typedef struct {
    run_spec spec;
    int steps;
    uint32_t hash[STEPS + 1][RANKS]; /* [0]: before the first step */
} order;

/* Returns a checksum of the elements of all parameters that this rank holds, in the type that it computes with. */
static uint32_t hash_of(cs_engine *engine)
{
    uint32_t sum = 0;
    ce_walk_settle(engine);
    for (int i = 0; i < engine->model->count; i++) {
        const cs_unit *unit = engine->model->units[i];
        for (int at = 0; at < unit->entry_count; at++) {
            ce_shard_local_part part = ce_shard_local(engine->shards[i], unit->entries[at]);
            size_t bytes = (size_t)ce_range_length(part.range) * cs_dtype_bytes(part.dtype);
            char *copy = malloc(bytes + 1);
            if (part.data)
                ce_stream_fetch(ce_device_stream(engine->device, CE_COMPUTE), copy, part.data, bytes);
            sum = part.data ? ce_crc32c(sum, copy, bytes) : sum;
            free(copy);
        }
    }
    return sum;
}

static int train(void *argument)
{
    order *job = argument;
    char seed[64];
    snprintf(seed, sizeof seed, "cspeed.seed=%s", getenv("RANK"));
    job->spec.set[0] = seed;
    cs_engine *engine = run_open(&job->spec, NULL);
    int rank = cs_rank(engine);
    job->hash[0][rank] = hash_of(engine);
    for (int step = 1; step <= job->steps; step++) {
        run_step(engine, &job->spec);
        job->hash[step][rank] = hash_of(engine);
    }
    cs_destroy(engine);
    return 0;
}

/* Checks that ranks whose numbers are equal modulo `apart` hold the same bits. */
static void check(const run_spec *spec, int apart)
{
    order *job = run_share(sizeof *job);
    job->spec = *spec;
    job->steps = spec->steps;
    run_ranks(spec->world, train, job);
    for (int step = 0; step <= spec->steps; step++)
        for (int rank = apart; rank < spec->world; rank++)
            ck_assert_msg(job->hash[step][rank] == job->hash[step][rank - apart],
                          "stage %d, step %d: ranks %d and %d differ", spec->stage, step, rank - apart, rank);
    for (int step = 1; step <= spec->steps; step++)
        ck_assert_uint_ne(job->hash[step][0], job->hash[step - 1][0]);
    run_unshare(job, sizeof *job);
}

START_TEST(replicas_stay_equal)
{
    run_spec spec = { .world = 3, .steps = near_limit(STEPS, 10), .micro = 1, .precision = "fp32", .prefetch = 1 };
    check(&spec, 1);
    spec.precision = "bf16";
    spec.steps = 10;
    for (spec.stage = 1; spec.stage <= 2; spec.stage++)
        check(&spec, 1);
}
END_TEST

START_TEST(groups_stay_equal)
{
    run_spec spec = { .world = RANKS,
                      .steps = near_limit(STEPS, 10),
                      .micro = 1,
                      .accumulation = 2,
                      .precision = "bf16",
                      .prefetch = 1,
                      .set = { NULL, "zero_optimization.mics_shard_size=2" } };
    for (spec.stage = 2; spec.stage <= 3; spec.stage++)
        check(&spec, spec.stage == 2 ? 1 : 2);
}
END_TEST

SUITE_MAIN("replicas", replicas_stay_equal, groups_stay_equal)
