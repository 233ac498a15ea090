/* test_parity.c - parity with PyTorch: the losses of fifty steps equal those in parity.golden, at several stages and
 * world sizes. tests/peers/train_parity.py wrote that file and describes the training. */
#include "suite.h"
#include "golden.h"
#include "near.h"
#include "pieces.h"
#include "runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 50, BATCH = 4, LENGTH = 32 };

static const char *const text =
    "{ \"train_batch_size\": %d, \"train_micro_batch_size_per_gpu\": %d, \"gradient_clipping\": 1.0,\n"
    "  \"zero_optimization\": { \"stage\": %d },\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-2, \"betas\": [0.9, 0.95], \"eps\": 1e-8, "
    "\"weight_decay\": 0.1 } },\n"
    "  \"scheduler\": { \"type\": \"WarmupCosineLR\", \"params\": { \"warmup_type\": \"linear\", \"warmup_num_steps\": "
    "10, "
    "\"total_num_steps\": 50, \"cos_min_ratio\": 0.1 } },\n"
    "  \"cspeed\": { \"device\": \"%s\", \"data\": { \"seq_len\": 32 }, \"threads\": 1,\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 3, \"n_embd\": 24, \"n_positions\": 32, "
    "\"vocab_size\": 61,\n"
    "      \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0 } } }\n";

typedef struct {
    int world, stage, micro;
    double loss[STEPS];
} run;

static cs_engine *open_engine(const run *job)
{
    char path[4096];
    const char *folder = getenv("TMPDIR");
    cs_config *config;
    cs_engine *engine;
    snprintf(path, sizeof path, "%s/cspeed-parity-XXXXXX", folder ? folder : "/tmp");
    int handle = mkstemp(path);
    FILE *out = fdopen(handle, "w");
    fprintf(out, text, BATCH, job->micro, job->stage, near_device());
    fclose(out);
    cs_status status = cs_config_open(&config, path);
    unlink(path);
    CS_MUST(status);
    CS_MUST(cs_initialize(&engine, config, NULL));
    return engine;
}

static const float *value_of(const ce_unit_entry *entry, const void *file)
{
    return golden_tensor(file, entry->full_name).data;
}

static int train(void *argument)
{
    run *job = argument;
    golden *file = golden_open(CS_TESTS "/golden/parity.golden");
    cs_engine *engine = open_engine(job);
    int32_t *inputs = golden_tensor(file, "inputs").data, *targets = golden_tensor(file, "targets").data;
    pieces_set_all(engine, value_of, file);
    for (int64_t step = 0; step < STEPS; step++) {
        for (int64_t from = cs_rank(engine) * job->micro; from < BATCH; from += job->world * job->micro) {
            int64_t at = (step * BATCH + from) * LENGTH;
            cs_batch batch = { .inputs = cs_matrix(inputs + at, CS_I32, job->micro, LENGTH),
                               .targets = cs_matrix(targets + at, CS_I32, job->micro, LENGTH) };
            cs_forward(engine, &batch);
            cs_backward(engine);
            cs_step(engine);
        }
        if (cs_rank(engine) == 0)
            job->loss[step] = cs_last_step(engine).loss;
    }
    cs_destroy(engine);
    golden_close(file);
    return 0;
}

static void check(int world, int stage, int micro)
{
    golden *file = golden_open(CS_TESTS "/golden/parity.golden");
    const float *want = golden_tensor(file, "losses").data, *exact = golden_tensor(file, "losses64").data;
    run *job = run_share(sizeof *job);
    job->world = world;
    job->stage = stage;
    job->micro = micro;
    run_ranks(world, train, job);
    for (int step = 0; step < STEPS; step++) {
        double is = job->loss[step];
        ck_assert_msg(fabs(is - (double)want[step]) <= 1e-5 * (double)want[step] &&
                          fabs(is - (double)exact[step]) <= 1e-5 * (double)exact[step],
                      "%d ranks, stage %d, step %d: %.9g; PyTorch %.9g, in float64 %.9g", world, stage, step + 1, is,
                      (double)want[step], (double)exact[step]);
    }
    ck_assert_double_lt(job->loss[STEPS - 1], 0.5 * job->loss[0]);
    run_unshare(job, sizeof *job);
    golden_close(file);
}

START_TEST(one_rank)
{
    check(1, 0, 4);
}
END_TEST

START_TEST(accumulated)
{
    check(1, 0, 2);
    check(1, 3, 1);
}
END_TEST

START_TEST(two_ranks)
{
    for (int stage = 0; stage <= 3; stage += near_limit(1, 3))
        check(2, stage, 2);
    check(2, 2, 1);
}
END_TEST

START_TEST(four_ranks)
{
    check(4, 3, 1);
}
END_TEST

SUITE_MAIN("parity", one_rank, accumulated, two_ranks, four_ranks)
