/* test_hybrid.c - hybrid sharding: the ranks form groups, each of which has all state, sharded over its ranks. Losses
 * equal those without groups, memory is that of the plan, and hosts send each other only their shards. */
#include "suite.h"
#include "near.h"
#include "runs.h"

#include "core/engine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void close_losses(const run_result *a, const run_result *b, int steps, double bound, const char *what)
{
    for (int i = 0; i < steps; i++)
        ck_assert_msg(fabs(a->loss[i] - b->loss[i]) <= bound * fabs(a->loss[i]), "%s: step %d: %.9g and %.9g", what,
                      i + 1, a->loss[i], b->loss[i]);
    ck_assert_double_lt(a->loss[steps - 1], a->loss[0]);
}

static const char *group_of(int size, char text[64])
{
    snprintf(text, 64, "zero_optimization.mics_shard_size=%d", size);
    return text;
}

/* Groups whose size is a power of two are whole branches of the summation tree, so fp32 sums have the same bits as
 * without groups. */
static void groups_alike(int world, int group, const char *precision, int host)
{
    char size[64], what[128];
    run_spec spec = {
        .world = world, .stage = 0, .steps = near_limit(6, 3), .precision = precision, .prefetch = 1, .host = host
    };
    run_result plain, grouped;
    run_train(&spec, &plain);
    spec.set[0] = group_of(group, size);
    for (spec.stage = 1; spec.stage <= 3; spec.stage++) {
        run_train(&spec, &grouped);
        snprintf(what, sizeof what, "%s, %d ranks in groups of %d, stage %d, hosts of %d", precision, world, group,
                 spec.stage, host);
        run_same_bits(&plain, &grouped, spec.steps, what);
    }
}

START_TEST(groups_train_alike)
{
    groups_alike(4, 2, "fp32", 0);
    groups_alike(4, 2, "fp32", 2);
    groups_alike(2, 1, "fp32", 0);
    groups_alike(4, 2, "bf16", 0);
}
END_TEST

/* A group that spans two hosts; and a group size that is not a power of two, where the order of the sums differs. */
START_TEST(other_groups_train)
{
    char size[64];
    run_result plain, grouped;
    run_spec spec = { .world = 4, .stage = 3, .steps = 4, .precision = "fp32", .prefetch = 1, .host = 1 };
    run_train(&spec, &plain);
    spec.set[0] = group_of(2, size);
    run_train(&spec, &grouped);
    run_same_bits(&plain, &grouped, spec.steps, "groups over hosts");
    spec = (run_spec){ .world = 6, .stage = 3, .steps = 4, .micro = 1, .precision = "fp32", .prefetch = 1 };
    run_train(&spec, &plain);
    spec.set[0] = group_of(3, size);
    run_train(&spec, &grouped);
    close_losses(&plain, &grouped, spec.steps, 1e-6, "groups of three");
}
END_TEST

/* Accumulated gradients are added inside a group first, so the last bits may differ from those without groups. */
static void accumulates(const char *precision, double bound, const char *more)
{
    char size[64];
    run_result plain, grouped;
    run_spec spec = { .world = 4,
                      .stage = 0,
                      .steps = near_limit(8, 3),
                      .micro = 1,
                      .accumulation = 3,
                      .precision = precision,
                      .prefetch = 1,
                      .more = more };
    run_train(&spec, &plain);
    spec.set[0] = group_of(2, size);
    for (spec.stage = 1; spec.stage <= 3; spec.stage++) {
        run_train(&spec, &grouped);
        close_losses(&plain, &grouped, spec.steps, bound, precision);
    }
}

START_TEST(accumulation_is_close)
{
    accumulates("fp32", 1e-6, NULL);
    accumulates("bf16", 2e-3, NULL);
    accumulates("bf16", 1e-2, "\"communication_data_type\": \"bf16\",");
    accumulates("bf16", 1e-2, "\"data_types\": { \"grad_accum_dtype\": \"bf16\" },");
}
END_TEST

/* The first steps overflow: every rank must see it and skip the step. */
START_TEST(fp16_skips_together)
{
    char size[64];
    run_result plain, grouped;
    run_spec spec = { .world = 4, .stage = 2, .steps = 8, .precision = "fp16", .prefetch = 1 };
    spec.set[0] = "fp16.initial_scale_power=24";
    spec.set[1] = "fp16.hysteresis=1";
    run_train(&spec, &plain);
    spec.set[2] = group_of(2, size);
    run_train(&spec, &grouped);
    close_losses(&plain, &grouped, spec.steps, 1e-3, "fp16");
}
END_TEST

/* LAMB adds norms of tensors over ranks, Muon collects whole matrices, and O2's norm layers stay in fp32 and are sent
 * separately. */
START_TEST(other_optimizers_train_alike)
{
    static const char *const optimizers[] = { "optimizer={\"type\": \"Lamb\", \"params\": {\"lr\": 0.01}}",
                                              "optimizer={\"type\": \"Muon\", \"params\": {\"lr\": 0.01}}",
                                              "optimizer={\"type\": \"Adagrad\", \"params\": {\"lr\": 0.01}}" };
    char size[64];
    for (int i = 0; i < 4; i++) {
        run_result plain, grouped;
        run_spec spec = { .world = 4, .stage = 2, .steps = 3, .precision = "fp32", .prefetch = 1 };
        spec.set[0] = i < 3 ? optimizers[i] : "amp={\"enabled\": true, \"opt_level\": \"O2\"}";
        run_train(&spec, &plain);
        spec.set[1] = group_of(2, size);
        for (spec.stage = 2; spec.stage <= 3; spec.stage++) {
            run_train(&spec, &grouped);
            run_same_bits(&plain, &grouped, spec.steps, spec.set[0]);
        }
    }
}
END_TEST

/* ---- FSDP's names ---- */

START_TEST(hosts_are_groups)
{
    run_result by_size, by_name;
    run_spec spec = { .world = 4, .stage = 3, .steps = 3, .precision = "fp32", .prefetch = 1, .host = 2 };
    spec.set[0] = "zero_optimization.mics_shard_size=2";
    run_train(&spec, &by_size);
    spec.set[0] = "zero_optimization={}";
    spec.set[1] = "cspeed.fsdp.sharding_strategy=HYBRID_SHARD";
    run_train(&spec, &by_name);
    run_same_bits(&by_size, &by_name, spec.steps, "HYBRID_SHARD");
    for (int rank = 0; rank < spec.world; rank++) {
        ck_assert_uint_eq(by_name.memory[rank].values, by_size.memory[rank].values);
        ck_assert_uint_eq(by_name.memory[rank].gradients, by_size.memory[rank].gradients);
        ck_assert_uint_eq(by_name.memory[rank].slots, by_size.memory[rank].slots);
    }
}
END_TEST

/* ---- memory ---- */

/* For each kind of state, a rank has as many bytes as in a world that is as large as a group. */
START_TEST(memory_is_that_of_a_group)
{
    char size[64];
    for (int stage = 1; stage <= 3; stage++) {
        run_result small, grouped;
        run_spec spec = { .world = 2, .stage = stage, .steps = 2, .precision = "bf16", .prefetch = 1 };
        run_train(&spec, &small);
        spec.world = 4;
        spec.set[0] = group_of(2, size);
        run_train(&spec, &grouped);
        for (int rank = 0; rank < 4; rank++) {
            const cs_memory *of = &grouped.memory[rank];
            /* rows are padded to a multiple of 4 * 64 elements, not of 2 * 64 */
            size_t max = 64 * 10 * (size_t)(stage == 3 ? 2 : 4);
            ck_assert_uint_le(of->values - small.memory[0].values, max);
            ck_assert_uint_le(of->gradients - small.memory[0].gradients, 2 * max);
            ck_assert_uint_le(of->masters - small.memory[0].masters, 2 * max);
            ck_assert_uint_le(of->slots - small.memory[0].slots, 4 * max);
            /* On a GPU the memory counts as `device`, on a host as `heap`. */
            const run_held *open = &grouped.at_open[rank];
            ck_assert_uint_ge(open->heap + open->device, of->gradients + of->gradient_rows);
            ck_assert_uint_eq(grouped.at_end[rank].heap, grouped.at_open[rank].heap);
        }
    }
}
END_TEST

/* ---- traffic ---- */

enum { MAX_COUNT = 8 };

typedef struct {
    const run_spec *spec;
    /* Arrays of MAX_COUNT elements, shared between the processes. */
    uint64_t *planned, *sent, *planned_across, *across, *shards;
} order;

static uint64_t sent_by(const cs_engine *engine)
{
    return cs_comm_counters(engine->comm).bytes + cs_comm_counters(engine->group).bytes +
           cs_comm_counters(engine->across).bytes;
}

/* Returns the bytes of this rank's part of all gradients, in fp32. */
static uint64_t shard_bytes(const cs_engine *engine)
{
    uint64_t bytes = 0;
    for (int i = 0; i < engine->model->count; i++) {
        int64_t padded = ce_stage_padded(&engine->zero, engine->model->units[i]->length);
        bytes += (uint64_t)ce_range_length(ce_stage_part(&engine->zero, padded)) * sizeof(float);
    }
    return bytes;
}

static int measure(void *argument)
{
    const order *job = argument;
    cs_engine *engine = run_open(job->spec, NULL);
    int rank = cs_rank(engine);
    job->planned[rank] = cs_memory_of(engine).sent;
    job->planned_across[rank] = cs_memory_of(engine).sent_by[CS_AXIS_REPLICATE].all;
    job->shards[rank] = shard_bytes(engine);
    run_step(engine, job->spec);
    ce_walk_settle(engine);
    uint64_t before = sent_by(engine), across = cs_comm_counters(engine->across).bytes;
    run_step(engine, job->spec);
    ce_walk_settle(engine);
    job->sent[rank] = sent_by(engine) - before;
    job->across[rank] = cs_comm_counters(engine->across).bytes - across;
    cs_destroy(engine);
    return 0;
}

/* Between two groups, the all-reduce makes each rank send its part of the gradients once in an optimizer step, whatever
 * the number of micro-batches. `narrow`: in 16 bits. */
static void check_traffic(const run_spec *spec, bool narrow)
{
    uint64_t *numbers = run_share(5 * MAX_COUNT * sizeof *numbers);
    order job = {
        spec, numbers, numbers + MAX_COUNT, numbers + 2 * MAX_COUNT, numbers + 3 * MAX_COUNT, numbers + 4 * MAX_COUNT
    };
    run_ranks(spec->world, measure, &job);
    for (int rank = 0; rank < spec->world; rank++) {
        ck_assert_msg(job.planned[rank] == job.sent[rank], "stage %d, %s, rank %d: %llu planned, %llu sent",
                      spec->stage, spec->precision, rank, (unsigned long long)job.planned[rank],
                      (unsigned long long)job.sent[rank]);
        ck_assert_uint_eq(job.across[rank], job.planned_across[rank]);
        ck_assert_uint_eq(job.across[rank], job.shards[rank] / (narrow ? 2 : 1));
    }
    run_unshare(numbers, 5 * MAX_COUNT * sizeof *numbers);
}

START_TEST(a_shard_is_sent_between_hosts)
{
    for (int stage = 1; stage <= 3; stage++)
        for (int i = 0; i < 2; i++) {
            run_spec spec = { .world = 4,
                              .stage = stage,
                              .steps = 2,
                              .micro = 1,
                              .accumulation = 1 + i,
                              .precision = i ? "bf16" : "fp32",
                              .prefetch = 1,
                              .host = 2,
                              .set = { "zero_optimization.mics_shard_size=2" } };
            check_traffic(&spec, false);
            spec.set[1] = "communication_data_type=bf16";
            if (i)
                check_traffic(&spec, true);
        }
}
END_TEST

SUITE_MAIN("hybrid", groups_train_alike, other_groups_train, accumulation_is_close, fp16_skips_together,
           other_optimizers_train_alike, hosts_are_groups, memory_is_that_of_a_group, a_shard_is_sent_between_hosts)
