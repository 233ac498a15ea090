/* runs.h - small trainings for tests: a tiny GPT-2 on made-up tokens, over any number of ranks. */
#ifndef CS_TESTS_RUNS_H
#define CS_TESTS_RUNS_H

#include "cspeed.h"

enum { RUN_STEPS = 64 };

typedef struct {
    int         world, stage, steps, micro, accumulation;
    const char *precision; /* "fp32", "bf16", "fp16" */
    const char *recompute; /* "none", "unit"         */
    double      dropout;
    int         prefetch;
    const char *more;      /* further top-level members of the configuration, each ending in a comma; or NULL */
    const char *threads;   /* NULL: 1 */
} run_spec;

typedef struct {
    double    loss[RUN_STEPS], norm[RUN_STEPS], scale[RUN_STEPS];
    int64_t   skipped;
    double    weight_sum; /* of all masters of rank 0's part: moves if anything moved */
    cs_memory memory[8];  /* a rank's */
    int64_t   allocated_after_first, allocated_at_end; /* bytes, rank 0 */
} run_result;

/* Writes the configuration of a spec to a file made in TMPDIR; the caller unlinks it. */
void run_write_config(const run_spec *spec, char *path, size_t bytes);
/* Opens the tiny GPT-2 (or `own`) of a spec in this process. */
cs_engine *run_open(const run_spec *spec, cs_model *own);
/* This rank's next micro-batch: tokens that follow from the sample's global number. micro counts from 0 in a step. */
cs_batch run_batch(const cs_engine *engine, const run_spec *spec, int micro);
/* Trains spec->steps steps in spec->world processes. Fails the test on any error. */
void run_train(const run_spec *spec, run_result *result);

#endif
