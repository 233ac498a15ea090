/* runs.h - small trainings for tests: a tiny GPT-2 on made-up tokens, over any number of ranks, on near_device(). */
#ifndef CS_TESTS_RUNS_H
#define CS_TESTS_RUNS_H

#include "cspeed/cspeed.h"

enum { RUN_STEPS = 64, RUN_RANKS = 8, RUN_SETS = 8, RUN_LENGTH = 12, RUN_VOCABULARY = 61 };

typedef struct {
    int world, stage, steps, micro, accumulation;
    const char *precision; /* "fp32", "bf16", "fp16" */
    const char *recompute; /* "none", "unit"         */
    double dropout;
    int prefetch;
    bool masked;               /* a third of the targets is left out, and two of five samples whole */
    const char *more;          /* further top-level members of the configuration, each ending in a comma; or NULL */
    const char *set[RUN_SETS]; /* "KEY.PATH=JSON", as cs_config_set takes it; up to the first NULL */
    const char *threads;       /* NULL: 1 */
} run_spec;

/* What a rank really has, bytes. */
typedef struct {
    size_t heap, device, workspace; /* of comm, all of the device's, and of that the kernels' own */
} run_held;

typedef struct {
    double loss[RUN_STEPS], norm[RUN_STEPS];
    cs_memory memory[RUN_RANKS];
    run_held at_open[RUN_RANKS], after_first[RUN_RANKS], at_end[RUN_RANKS];
} run_result;

/* Writes the configuration of a spec to a file made in TMPDIR; the caller unlinks it. */
void run_write_config(const run_spec *spec, char *path, size_t bytes);
/* Opens the tiny GPT-2 (or `own`) of a spec in this process. */
cs_engine *run_open(const run_spec *spec, cs_model *own);
/* This rank's next micro-batch: tokens that follow from the sample's global number. micro counts from 0 in a step. */
cs_batch run_batch(const cs_engine *engine, const run_spec *spec, int micro);
/* One optimizer step. */
void run_step(cs_engine *engine, const run_spec *spec);
/* Trains spec->steps steps in spec->world processes. Fails the test on any error. */
void run_train(const run_spec *spec, run_result *result);

/* Zeroed memory that the ranks share with the test, which asserts: a check that fails in a rank would go on as the
 * test. */
void *run_share(size_t bytes);
void run_unshare(void *shared, size_t bytes);
/* cs_spawn; fails the test if a rank fails. */
void run_ranks(int world, int (*rank)(void *argument), void *argument);

/* Checksums of this rank's part: they move if a bit moves. */
uint32_t run_masters(cs_engine *engine);
uint32_t run_slots(cs_engine *engine);

#endif
