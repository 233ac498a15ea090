/* test_best.c - the best checkpoint of a training is kept and exported (cspeed.keep_best), and a training that does not
 * improve any more ends (cspeed.early_stopping_patience); a training that continues knows its best evaluation. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 24, EVERY = 3 };

/* The learning rate rises without bound, so that the loss first falls and then rises. */
#define RISING                                                                                                         \
    "--set scheduler.type='\"LRRangeTest\"' --set scheduler.params='{\"lr_range_test_min_lr\": 1e-3, "                 \
    "\"lr_range_test_step_size\": 1, \"lr_range_test_step_rate\": 60}' --set cspeed.eval_interval=3 --set cspeed.keep_last=1"

/* Reads the valid_loss of each evaluation, and returns the step of the least one. */
static int best_of(const char *path, double *losses)
{
    char *text = shell_read(path, NULL), *line = text;
    int best = 0;
    for (int step = 1; step <= STEPS && (line = strstr(line, "{\"step\"")); step++, line++) {
        char *end = strchr(line, '\n'), *at = strstr(line, "\"valid_loss\": ");
        losses[step] = at && at < end ? strtod(at + strlen("\"valid_loss\": "), NULL) : (double)NAN;
        if (isfinite(losses[step]) && (!best || losses[step] < losses[best]))
            best = step;
    }
    free(text);
    return best;
}

static void must_hold(const char *folder, const char *names)
{
    char command[256];
    snprintf(command, sizeof command, "cd %s && [ \"$(echo global_step*)\" = \"%s\" ]", folder, names);
    if (shell_run("%s", command) != 0) {
        shell_run("ls %s", folder);
        char *out = shell_read("out.txt", NULL);
        ck_abort_msg("%s is to hold %s, and it holds %s", folder, names, out);
    }
}

static void check_kept(int ranks, const char *more)
{
    double losses[STEPS + 1];
    char line[512], names[64];
    training_prepare();
    training_config("bf16", "", 1);
    snprintf(line, sizeof line, "--output whole --set cspeed.keep_best=true --export best %s " RISING, more);
    training_run(ranks, line);
    int best = best_of("whole/metrics.jsonl", losses);
    ck_assert(best > 0 && best < STEPS);
    snprintf(names, sizeof names, "the best checkpoint is whole/global_step%d, loss", best);
    ck_assert(training_says(names));
    snprintf(names, sizeof names, "global_step%d global_step%d", best < 10 ? STEPS : best, best < 10 ? best : STEPS);
    must_hold("whole", names);
    ck_assert_int_eq(shell_run("%s/cspeed export whole again --tag global_step%d --dtype bf16", CS_BIN, best), 0);
    ck_assert_int_eq(shell_run("cmp best/model.safetensors again/model.safetensors"), 0);
    /* a training that was interrupted after the best evaluation decides as one that was not */
    snprintf(line, sizeof line, "--output parts --set cspeed.keep_best=true --steps %d %s " RISING, best + EVERY + 1,
             more);
    training_run(ranks, line);
    snprintf(line, sizeof line, "--output parts --set cspeed.keep_best=true %s " RISING, more);
    training_run(ranks, line);
    must_hold("parts", names);
    shell_leave();
}

START_TEST(the_best_checkpoint_is_kept)
{
    check_kept(1, "");
}
END_TEST

START_TEST(the_best_checkpoint_is_kept_in_the_background)
{
    check_kept(2, "--set cspeed.async_save=true");
}
END_TEST

/* With a large threshold no evaluation after the first counts as better. */
START_TEST(a_training_ends_early)
{
#define EARLY "--output out --set cspeed.eval_interval=3 --set cspeed.early_stopping_threshold=100"
    training_prepare();
    training_config("bf16", "", 0);
    training_run(1, EARLY " --set cspeed.early_stopping_patience=2");
    ck_assert(training_says("the training ends early: 2 evaluations in a row were not better"));
    ck_assert(training_says("at step 9; the same command with --set cspeed.early_stopping_patience=4 continues it"));
    ck_assert_int_eq(training_lines("out/metrics.jsonl"), 9);
    training_run(1, EARLY " --set cspeed.early_stopping_patience=2");
    ck_assert(training_says("the training ends early: 2 evaluations in a row were not better"));
    ck_assert_int_eq(training_lines("out/metrics.jsonl"), 9);
    training_run(1,
                 EARLY " --set cspeed.early_stopping_patience=4 --steps 14"); /* with the last evaluation, at step 14 */
    ck_assert_int_eq(training_lines("out/metrics.jsonl"), 14);
    training_run(2, EARLY " --set cspeed.early_stopping_patience=6");
    ck_assert_int_eq(training_lines("out/metrics.jsonl"), 18);
    shell_leave();
}
END_TEST

/* Without cspeed.keep_best the checkpoint of the best evaluation was removed. */
START_TEST(a_lost_best_is_found_anew)
{
    training_prepare();
    training_config("bf16", "", 0);
    training_run(1, "--output out " RISING);
    training_run(1, "--output out --steps 27 --set cspeed.keep_best=true " RISING);
    ck_assert(training_says("there is no checkpoint of the best evaluation, at step"));
    ck_assert(training_says("the best checkpoint is out/global_step27"));
    must_hold("out", "global_step27");
    shell_leave();
}
END_TEST

START_TEST(wrong_settings_are_refused)
{
    training_prepare();
    training_config("bf16", "", 0);
    training_expect(78, training_try(1, "config.json --set cspeed.keep_best=true --set cspeed.data.valid=null"));
    ck_assert(training_says("cspeed.keep_best: it needs evaluations"));
    training_expect(78, training_try(1, "config.json --set cspeed.best_metric='\"rewards/margins\"'"));
    ck_assert(training_says("only preference training"));
    training_expect(0, training_try(1, "config.json --set cspeed.early_stopping_threshold=1 --steps 1"));
    ck_assert(training_says("cspeed.early_stopping_patience is 0"));
    shell_leave();
}
END_TEST

SUITE_MAIN("best", the_best_checkpoint_is_kept, the_best_checkpoint_is_kept_in_the_background, a_training_ends_early,
           a_lost_best_is_found_anew, wrong_settings_are_refused)
