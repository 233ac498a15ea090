/* test_regular_train.c - label smoothing, z-loss and NEFTune in a training: what they change, and what they do not: the
 * stage, the number of ranks and an interruption. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 8 };
#define ALL                                                                                                            \
    "--set cspeed.label_smoothing_factor=0.1 --set cspeed.z_loss=1e-3 --set cspeed.neftune_noise_alpha=5 --steps 8 "

static double differ(const double *a, const double *b)
{
    double most = 0;
    for (int i = 0; i < STEPS; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

static void losses_of(double *losses, int ranks, const char *arguments)
{
    char line[512];
    snprintf(line, sizeof line, "--fresh --output out --set gradient_accumulation_steps=1 %s", arguments);
    training_run(ranks, line);
    training_losses("out/metrics.jsonl", losses, STEPS);
}

START_TEST(they_do_not_depend_on_ranks)
{
    double one[STEPS], two[STEPS], sharded[STEPS], cut[STEPS], recomputed[STEPS];
    training_prepare();
    training_config("bf16", "", 0);
    losses_of(one, 1, ALL "--set train_micro_batch_size_per_gpu=4");
    losses_of(two, 2, ALL "--set train_micro_batch_size_per_gpu=2");
    losses_of(sharded, 2, ALL "--set train_micro_batch_size_per_gpu=2 --set zero_optimization.stage=3");
    losses_of(recomputed, 2, ALL "--set train_micro_batch_size_per_gpu=2 --set cspeed.recompute='\"unit\"'");
    losses_of(cut, 2, ALL "--set train_micro_batch_size_per_gpu=4 --tp 2 --set cspeed.mesh.sequence=true");
    ck_assert_double_eq(differ(two, sharded), 0);
    ck_assert_double_eq(differ(two, recomputed), 0);
    ck_assert_double_lt(differ(one, two), 5e-3);
    ck_assert_double_lt(differ(one, cut), 2e-2);
    shell_leave();
}
END_TEST

START_TEST(each_changes_the_loss)
{
    static const char *const keys[] = { "cspeed.label_smoothing_factor=0.1", "cspeed.z_loss=1e-2",
                                        "cspeed.neftune_noise_alpha=50" };
    double plain[STEPS], other[STEPS];
    training_prepare();
    training_config("bf16", "", 0);
    losses_of(plain, 1, "--steps 8");
    for (int i = 0; i < 3; i++) {
        char line[128];
        snprintf(line, sizeof line, "--steps 8 --set %s", keys[i]);
        losses_of(other, 1, line);
        ck_assert_double_gt(differ(plain, other), 1e-2);
    }
    /* a validation is without them: that of the initial values is the same */
    training_run(1, "--fresh --output out --steps 1 --set optimizer.params.lr=0");
    double valid = training_last_number("out/metrics.jsonl", "\"valid_loss\"");
    training_run(1, "--fresh --output out --set optimizer.params.lr=0 " ALL "--steps 1");
    ck_assert_double_eq(training_last_number("out/metrics.jsonl", "\"valid_loss\""), valid);
    shell_leave();
}
END_TEST

START_TEST(an_interruption_changes_nothing)
{
    double whole[STEPS], parts[STEPS];
    training_prepare();
    training_config("bf16", "", 1);
    losses_of(whole, 2, ALL);
    training_run(2, "--output parts --set gradient_accumulation_steps=1 " ALL "--steps 5");
    training_run(2, "--output parts --set gradient_accumulation_steps=1 " ALL);
    training_losses("parts/metrics.jsonl", parts, STEPS);
    ck_assert_double_eq(differ(whole, parts), 0);
    shell_leave();
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    training_prepare();
    training_config("bf16", "", 0);
    training_expect(78, training_try(1, "config.json --set cspeed.label_smoothing_factor=1"));
    ck_assert(training_says("otherwise no target counts"));
    training_expect(78, training_try(1, "config.json --set cspeed.dpo.beta=0.1 --set cspeed.z_loss=1e-4"));
    ck_assert(training_says("cspeed.z_loss: not supported: with cspeed.dpo"));
    shell_leave();
}
END_TEST

SUITE_MAIN("regular_train", they_do_not_depend_on_ranks, each_changes_the_loss, an_interruption_changes_nothing,
           what_cannot_be_is_refused)
