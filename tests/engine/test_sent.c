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

/* ---- several hosts ---- */

/* Bytes on the axes of the mesh; without a group of their own, ZeRO's ranks are all ranks. */
typedef struct {
    cs_sent rest, replicate, tp;
} traffic;

static void add(cs_sent *sent, const cs_comm *comm, int sign)
{
    cs_comm_traffic count = comm ? cs_comm_counters(comm) : (cs_comm_traffic){ 0 };
    sent->all += (size_t)sign * count.bytes;
    sent->between_hosts += (size_t)sign * count.between_hosts;
}

static void read_counters(traffic *sent, const cs_engine *engine, int sign)
{
    add(&sent->rest, engine->comm, sign);
    add(&sent->rest, engine->group, sign);
    add(&sent->replicate, engine->across, sign);
    add(&sent->tp, engine->tp.comm, sign);
    add(&sent->tp, engine->copies.comm, sign);
}

typedef struct {
    const run_spec *spec;
    traffic *planned, *sent;
} hosts_order;

static int measure_hosts(void *argument)
{
    const hosts_order *job = argument;
    cs_engine *engine = run_open(job->spec, NULL);
    int rank = cs_rank(engine);
    cs_memory memory = cs_memory_of(engine);
    const cs_sent *by = memory.sent_by;
    job->planned[rank] = (traffic){ { by[CS_AXIS_ALL].all + by[CS_AXIS_SHARD].all,
                                      by[CS_AXIS_ALL].between_hosts + by[CS_AXIS_SHARD].between_hosts },
                                    by[CS_AXIS_REPLICATE],
                                    by[CS_AXIS_TP] };
    run_step(engine, job->spec);
    ce_walk_settle(engine);
    read_counters(&job->sent[rank], engine, -1);
    run_step(engine, job->spec);
    ce_walk_settle(engine);
    read_counters(&job->sent[rank], engine, 1);
    cs_destroy(engine);
    return 0;
}

/* Returns the bytes that rank 0 has sent over tp. */
static size_t check_hosts(const run_spec *spec)
{
    traffic *numbers = run_share(2 * MAX_COUNT * sizeof *numbers);
    hosts_order job = { spec, numbers, numbers + MAX_COUNT };
    size_t between = 0;
    run_ranks(spec->world, measure_hosts, &job);
    for (int rank = 0; rank < spec->world; rank++) {
        const traffic *planned = &job.planned[rank], *sent = &job.sent[rank];
        ck_assert_msg(
            memcmp(planned, sent, sizeof *sent) == 0,
            "hosts of %d ranks, stage %d, %s, %s, %s, rank %d: planned %zu %zu, %zu %zu, %zu %zu; sent %zu %zu, "
            "%zu %zu, %zu %zu",
            spec->host, spec->stage, spec->precision, spec->set[0], spec->set[1], rank, planned->rest.all,
            planned->rest.between_hosts, planned->replicate.all, planned->replicate.between_hosts, planned->tp.all,
            planned->tp.between_hosts, sent->rest.all, sent->rest.between_hosts, sent->replicate.all,
            sent->replicate.between_hosts, sent->tp.all, sent->tp.between_hosts);
        between += sent->rest.between_hosts + sent->tp.between_hosts;
    }
    ck_assert_int_eq(between > 0, spec->host < spec->world);
    size_t sent_tp = job.sent[0].tp.all;
    run_unshare(numbers, 2 * MAX_COUNT * sizeof *numbers);
    return sent_tp;
}

/* What TCP sends to other hosts is what was planned, to the byte: with groups that are on one host and on several, with
 * hierarchical collectives and direct ones, with short and long vectors, at once and beside products. */
START_TEST(a_step_sends_to_other_hosts_what_was_planned)
{
    static const struct {
        int world, host, stage;
        const char *set[2];
    } rows[] = {
        { 4, 2, 0, { "cspeed.mesh.tp=1", NULL } },
        { 4, 1, 1, { "cspeed.mesh.tp=1", NULL } },
        { 4, 2, 0, { "cspeed.mesh.tp=2", NULL } },
        { 4, 4, 1, { "cspeed.mesh.tp=2", NULL } },
        { 4, 1, 1, { "cspeed.mesh.tp=2", "cspeed.mesh.sequence=true" } },
        { 8, 4, 1, { "cspeed.mesh.tp=2", "cspeed.mesh.dp_shard=2" } },
        { 6, 3, 0, { "cspeed.mesh.tp=2", NULL } },
        { 6, 2, 1, { "cspeed.mesh.tp=1", "cspeed.mesh.dp_shard=2" } },
    };
    for (int i = 0; i < 3 * (int)(sizeof rows / sizeof *rows); i++) {
        run_spec spec = { .world = rows[i / 3].world,
                          .host = rows[i / 3].host,
                          .stage = rows[i / 3].stage + i % 3,
                          .steps = 2,
                          .micro = 2,
                          .accumulation = 1 + i % 2,
                          .precision = i % 4 == 1 ? "bf16" : "fp32",
                          .recompute = "none",
                          .prefetch = 1,
                          .more = i % 2 ? "\"tensor_parallel\": {\"tp_overlap_comm\": true}," : NULL,
                          .set = { rows[i / 3].set[0], "cspeed.comm=\"tcp\"", rows[i / 3].set[1] } };
        check_hosts(&spec);
    }
}
END_TEST

/* A head whose vocabulary is divided needs the sum of each row's logits for label smoothing only. */
START_TEST(label_smoothing_sends_one_more_number_a_row)
{
    run_spec spec = { .world = 2,
                      .host = 2,
                      .stage = 1,
                      .steps = 2,
                      .micro = 2,
                      .precision = "fp32",
                      .recompute = "none",
                      .set = { "cspeed.mesh.tp=2", "cspeed.z_loss=0.001" } };
    size_t without = check_hosts(&spec);
    spec.set[2] = "cspeed.label_smoothing_factor=0.1";
    ck_assert_uint_eq(check_hosts(&spec) - without, 2 * RUN_LENGTH * sizeof(float));
}
END_TEST

SUITE_MAIN("sent", a_step_sends_what_was_planned, norms_in_fp32_count, a_step_sends_to_other_hosts_what_was_planned,
           label_smoothing_sends_one_more_number_a_row)
