/* test_offload.c - masters, optimizer state and parameters in host memory (zero_optimization.offload_optimizer and
 * offload_param), on the emulated GPU: training has the same bits as with all state on the GPU, and the GPU holds fewer
 * bytes by the bytes that are offloaded, up to the padding of allocations. */
#include "near.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"
#include "core/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIMIZER "zero_optimization.offload_optimizer.device=cpu"
#define PARAMS "zero_optimization.offload_param.device=cpu"
#define GPU "cspeed.device=cuda"

enum { STEPS = 4, WORLD = 2 };

/* Trains with the two assignments; each may be NULL. */
static run_result train(run_spec spec, const char *first, const char *second)
{
    run_result result;
    int at = 0;
    while (spec.set[at])
        at++;
    spec.set[at] = first;
    if (first)
        spec.set[at + 1] = second;
    run_train(&spec, &result);
    return result;
}

/* Compares a training with all state on the GPU (`kept`) with one that offloads state. */
static void compare(const run_result *kept, const run_result *offloaded, int world, const char *what)
{
    run_same_bits(kept, offloaded, STEPS, what);
    for (int rank = 0; rank < world; rank++) {
        size_t bytes = offloaded->memory[rank].offloaded;
        ck_assert_msg(bytes > 0, "%s", what);
        ck_assert_uint_eq(kept->memory[rank].offloaded, 0);
        size_t before = kept->at_open[rank].device + kept->at_open[rank].heap;
        size_t after = offloaded->at_open[rank].device + offloaded->at_open[rank].heap;
        ck_assert_msg(before - after >= bytes && before - after < bytes + 4096,
                      "%s: %zu bytes on the GPU, %zu with offload of %zu", what, before, after, bytes);
        ck_assert_uint_eq(offloaded->after_first[rank].device, offloaded->at_end[rank].device);
    }
}

/* Compares a training that offloads what the assignments `first` and `second` name with one that does not. */
static void check(int stage, const char *precision, const char *more, const char *first, const char *second)
{
    char what[128];
    run_spec spec = { .world = WORLD,
                      .stage = stage,
                      .steps = STEPS,
                      .accumulation = 2,
                      .precision = precision,
                      .prefetch = 1,
                      .recompute = stage == 3 ? "unit" : "none",
                      .set = { GPU, more } };
    run_result kept = train(spec, NULL, NULL), offloaded = train(spec, first, second);
    snprintf(what, sizeof what, "stage %d, %s, %s", stage, precision, more ? more : "AdamW");
    compare(&kept, &offloaded, WORLD, what);
}

START_TEST(the_bits_are_those_of_state_on_the_gpu)
{
    if (!near_emulated("offload"))
        return;
    check(1, "bf16", NULL, OPTIMIZER, NULL);
    check(2, "fp16", "fp16.initial_scale_power=32", OPTIMIZER, NULL);
    check(3, "fp32", NULL, OPTIMIZER, PARAMS);
    check(3, "bf16", NULL, PARAMS, NULL);
    check(3, "bf16", "optimizer.type=Lamb", OPTIMIZER, PARAMS);
    check(3, "bf16", "optimizer.type=Muon", OPTIMIZER, PARAMS);
}
END_TEST

START_TEST(frozen_parameters_are_offloaded)
{
    if (near_emulated("offload"))
        check(3, "bf16", "cspeed.lora={\"r\": 2, \"alpha\": 4, \"targets\": \"all-linear\"}", PARAMS, NULL);
}
END_TEST

/* Each rank has a GPU of its own, so NCCL gathers the parts, which are copied to the GPUs first. */
START_TEST(nccl_gathers_what_is_offloaded)
{
    if (near_gpus("offload over NCCL", WORLD))
        check(3, "bf16", NULL, OPTIMIZER, PARAMS);
    unsetenv("CSPEED_EMULATOR_DEVICES");
}
END_TEST

START_TEST(graphs_replay_the_copies)
{
    if (!near_emulated("offload"))
        return;
    run_spec spec = { .world = 1, .stage = 3, .steps = STEPS, .precision = "bf16", .set = { GPU } };
    run_result kept = train(spec, NULL, NULL);
    spec.set[1] = "cspeed.cuda_graphs=true";
    run_result offloaded = train(spec, OPTIMIZER, PARAMS);
    compare(&kept, &offloaded, 1, "graphs");
}
END_TEST

/* The host reads a parameter of host memory after the step, and again when the GPU has certainly ended the step. */
static int read_parameter(void *argument)
{
    const run_spec *spec = argument;
    cs_engine *engine = run_open(spec, NULL);
    cs_param_part part;
    float before, after, settled;
    run_step(engine, spec);
    CS_MUST(cs_param_local(engine, "transformer.wte.weight", &part));
    memcpy(&before, part.data, sizeof before);
    run_step(engine, spec);
    CS_MUST(cs_param_local(engine, "transformer.wte.weight", &part));
    memcpy(&after, part.data, sizeof after);
    ce_stream_sync(ce_device_stream(engine->device, CE_COMPUTE));
    memcpy(&settled, part.data, sizeof settled);
    cs_destroy(engine);
    return before == after || after != settled;
}

START_TEST(the_host_reads_complete_parameters)
{
    run_spec spec = { .world = 1, .stage = 3, .steps = 1, .precision = "fp32", .set = { GPU, PARAMS } };
    if (near_emulated("offload"))
        run_ranks(1, read_parameter, &spec);
}
END_TEST

/* ---- checkpoints ---- */

typedef struct {
    run_spec spec;
    const char *from, *to; /* folders of a checkpoint; NULL: none */
    double loss[2 * STEPS];
} journey;

static int travel(void *argument)
{
    journey *j = argument;
    cs_engine *engine = run_open(&j->spec, NULL);
    if (j->from)
        CS_MUST(cs_load_checkpoint(engine, j->from, "half", NULL, NULL));
    for (int64_t step = cs_last_step(engine).step; step < 2 * STEPS; step++) {
        run_step(engine, &j->spec);
        if (cs_rank(engine) == 0)
            j->loss[step] = cs_last_step(engine).loss;
        if (step + 1 == STEPS && j->to)
            CS_MUST(cs_save_checkpoint(engine, j->to, "half", NULL));
    }
    cs_destroy(engine);
    return 0;
}

static journey *go(const char *offload, const char *params, const char *from, const char *to)
{
    journey *j = run_share(sizeof *j);
    *j = (journey){ .spec = { .world = WORLD,
                              .stage = 3,
                              .steps = 2 * STEPS,
                              .precision = "bf16",
                              .set = { GPU, "cspeed.save_interval=0", offload, params } },
                    .from = from,
                    .to = to };
    run_ranks(WORLD, travel, j);
    return j;
}

START_TEST(checkpoints_fit_with_offload_and_without)
{
    if (!near_emulated("offload"))
        return;
    shell_enter();
    journey *kept = go(NULL, NULL, NULL, "kept"), *offloaded = go(OPTIMIZER, PARAMS, NULL, "offloaded");
    journey *out = go(OPTIMIZER, PARAMS, "kept", NULL), *back = go(NULL, NULL, "offloaded", NULL);
    journey *all[] = { kept, offloaded, out, back };
    for (int i = 1; i < 4; i++)
        ck_assert(memcmp(kept->loss + STEPS, all[i]->loss + STEPS, STEPS * sizeof(double)) == 0);
    for (int i = 0; i < 4; i++)
        run_unshare(all[i], sizeof *all[i]);
    shell_leave();
}
END_TEST

/* ---- refusals ---- */

static int open_refused(void *argument)
{
    run_spec *spec = argument;
    char path[4096];
    cs_config *config;
    cs_engine *engine;
    run_write_config(spec, path, sizeof path);
    CS_MUST(cs_config_open(&config, path));
    remove(path);
    for (int i = 0; spec->set[i] && i + 1 < RUN_SETS; i++)
        CS_MUST(cs_config_set(config, spec->set[i]));
    bool refused =
        cs_initialize(&engine, config, NULL) == CS_UNSUPPORTED && strstr(cs_error(), spec->set[RUN_SETS - 1]);
    if (!refused)
        fprintf(stderr, "%s\n", cs_error());
    return !refused;
}

START_TEST(what_has_no_offload_is_refused)
{
    if (!near_emulated("offload"))
        return;
    run_spec spec = { .world = 1, .stage = 0, .steps = 1, .precision = "bf16", .set = { GPU, OPTIMIZER } };
    spec.set[RUN_SETS - 1] = "choose stage 1, 2 or 3";
    run_ranks(1, open_refused, &spec);
    spec.stage = 2;
    spec.set[1] = PARAMS;
    spec.set[RUN_SETS - 1] = "stage 2, which shards no parameters";
    run_ranks(1, open_refused, &spec);
    spec.stage = 3;
    spec.world = 2;
    spec.set[2] = "zero_optimization.mics_shard_size=1";
    spec.set[RUN_SETS - 1] = "with hybrid sharding";
    run_ranks(2, open_refused, &spec);
}
END_TEST

SUITE_MAIN("offload", the_bits_are_those_of_state_on_the_gpu, frozen_parameters_are_offloaded,
           the_host_reads_complete_parameters, nccl_gathers_what_is_offloaded, graphs_replay_the_copies,
           checkpoints_fit_with_offload_and_without, what_has_no_offload_is_refused)
