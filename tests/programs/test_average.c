/* test_average.c - cspeed.ema_decay: the averages of parameters that a checkpoint has are those of loops over the
 * checkpoints of all steps, at each stage; an interruption does not change them; `cspeed export --ema` writes them. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include "interchange/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6 };
#define DECAY 0.75
#define EMA "--set cspeed.ema_decay=0.75 --set cspeed.save_interval=1 --set cspeed.keep_last=0 --steps 6 "

/* Reads a tensor of a checkpoint, or of its averages. Returns the number of elements. */
static int64_t read_tensor(float **values, const char *dir, int step, bool averages, int index)
{
    ce_source source;
    json_t *provenance;
    char tag[32];
    snprintf(tag, sizeof tag, "global_step%d", step);
    CS_MUST(ce_source_checkpoint_open(&source, &provenance, dir, tag, averages));
    const ce_source_tensor *tensor = &source.tensors[index];
    int64_t count = tensor->shape[0] * (tensor->dims > 1 ? tensor->shape[1] : 1);
    *values = malloc((size_t)count * sizeof **values);
    CS_MUST(source.read(&source, index, (ce_range){ 0, count }, *values, CS_F32));
    ce_source_close(&source);
    return count;
}

static int tensors_of(const char *dir)
{
    ce_source source;
    json_t *provenance;
    CS_MUST(ce_source_checkpoint_open(&source, &provenance, dir, "global_step6", false));
    int count = (int)source.count;
    ce_source_close(&source);
    return count;
}

/* Compares each average with a loop over the parameters of all steps. `zero` has the parameters before the first one. */
static void check_averages(const char *dir, const char *zero)
{
    double moved = 0;
    for (int index = 0; index < tensors_of(dir); index++) {
        float *first, *got;
        int64_t count = read_tensor(&first, zero, STEPS, false, index);
        double *want = malloc((size_t)count * sizeof *want);
        for (int64_t i = 0; i < count; i++)
            want[i] = (double)first[i];
        for (int step = 1; step <= STEPS; step++) {
            float *now;
            ck_assert_int_eq(read_tensor(&now, dir, step, false, index), count);
            for (int64_t i = 0; i < count; i++)
                want[i] = DECAY * want[i] + (1 - DECAY) * (double)now[i];
            free(now);
        }
        ck_assert_int_eq(read_tensor(&got, dir, STEPS, true, index), count);
        for (int64_t i = 0; i < count; i++) {
            ck_assert_msg(fabs((double)got[i] - want[i]) < 1e-6, "%s: tensor %d, element %d: %g, not %g", dir, index,
                          (int)i, (double)got[i], want[i]);
            moved = fmax(moved, fabs(want[i] - (double)first[i]));
        }
        free(first);
        free(got);
        free(want);
    }
    ck_assert_double_gt(moved, 1e-3);
}

START_TEST(averages_are_those_of_a_loop)
{
    training_prepare();
    training_config("bf16", "", 0);
    /* with a rate of 0 the parameters stay those before the first step */
    training_run(1, "--output zero --set optimizer.params.lr=0 --set scheduler=null --steps 6");
    training_run(1, "--output one " EMA);
    check_averages("one", "zero");
    training_run(2, "--output sharded --set cspeed.async_save=true --set zero_optimization.stage=3 " EMA);
    check_averages("sharded", "zero");
    training_run(2, "--output cut --tp 2 " EMA);
    check_averages("cut", "zero");
    shell_leave();
}
END_TEST

START_TEST(an_interruption_changes_nothing)
{
    training_prepare();
    training_config("bf16", "", 0);
    training_run(2, "--output whole " EMA);
    training_run(2, "--output parts " EMA "--steps 3");
    training_run(1, "--output parts " EMA
                    "--steps 4 --set zero_optimization.stage=1 --set train_micro_batch_size_per_gpu=4");
    training_run(2, "--output parts " EMA "--set zero_optimization.stage=2");
    for (int index = 0; index < tensors_of("whole"); index++) {
        float *whole, *parts;
        int64_t count = read_tensor(&whole, "whole", STEPS, true, index);
        read_tensor(&parts, "parts", STEPS, true, index);
        for (int64_t i = 0; i < count; i++)
            ck_assert_double_eq_tol((double)whole[i], (double)parts[i], 2e-3);
        free(whole);
        free(parts);
    }
    /* a run without averages does not lose them in silence */
    training_expect(78, training_try(1, "config.json --output parts --steps 8"));
    ck_assert(training_says("the checkpoint has averages of the parameters, and this run has none"));
    shell_leave();
}
END_TEST

START_TEST(the_averages_are_exported)
{
    training_prepare();
    training_config("bf16", "", 0);
    training_run(1, "--output out " EMA "--export plain");
    ck_assert_int_eq(shell_run("%s/cspeed export out averages --ema && %s/cspeed eval averages --data data/valid.bin",
                               CS_BIN, CS_BIN),
                     0);
    ck_assert_int_ne(shell_run("cmp -s plain/model.safetensors averages/model.safetensors"), 0);
    training_run(1, "--output none --steps 2");
    ck_assert_int_ne(shell_run("%s/cspeed export none no --ema", CS_BIN), 0);
    ck_assert(training_says("has no averages, because its training had no cspeed.ema_decay"));
    training_expect(78, training_try(1, "config.json --set cspeed.ema_decay=1"));
    ck_assert(training_says("otherwise the average never changes"));
    /* averages may begin later, at the parameters */
    training_run(1, "--output none --steps 4 --set cspeed.ema_decay=0.5");
    ck_assert_int_eq(shell_run("%s/cspeed export none late --ema", CS_BIN), 0);
    shell_leave();
}
END_TEST

SUITE_MAIN("average", averages_are_those_of_a_loop, an_interruption_changes_nothing, the_averages_are_exported)
