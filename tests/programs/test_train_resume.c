/* test_train_resume.c - resuming a training: a resumed run equals an uninterrupted run bit for bit; resuming with other
 * numbers of ranks, from a tag, and after a restart; and refusals. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Compares the data of two safetensors files without their headers, which contain the id of the save. */
static void same_data(const char *a, const char *b)
{
    size_t bytes_a, bytes_b;
    char *file_a = shell_read(a, &bytes_a), *file_b = shell_read(b, &bytes_b);
    uint64_t header_a, header_b;
    memcpy(&header_a, file_a, sizeof header_a);
    memcpy(&header_b, file_b, sizeof header_b);
    ck_assert_uint_eq(bytes_a - header_a, bytes_b - header_b);
    ck_assert_msg(memcmp(file_a + 8 + header_a, file_b + 8 + header_b, bytes_a - 8 - header_a) == 0, "%s and %s differ",
                  a, b);
    free(file_a);
    free(file_b);
}

static void same_checkpoints(const char *a, const char *b, const char *tag)
{
    static const char *const files[] = { "weights/shard-00001-of-00002", "weights/shard-00002-of-00002",
                                         "optim/shard-00001-of-00002", "optim/shard-00002-of-00002" };
    for (size_t i = 0; i < 4; i++) {
        char path_a[512], path_b[512];
        snprintf(path_a, sizeof path_a, "%s/%s/%s.safetensors", a, tag, files[i]);
        snprintf(path_b, sizeof path_b, "%s/%s/%s.safetensors", b, tag, files[i]);
        same_data(path_a, path_b);
    }
}

/* A run that was interrupted and resumed equals an uninterrupted run bit for bit: in parameters, moments, schedule,
 * loss scale, data and dropout. */
static void resumes_with_the_same_bits(const char *precision, const char *more, int stage)
{
    training_prepare();
    training_config(precision, more, stage);
    training_run(2, "--output whole");
    training_run(2, "--output parts --steps 6");
    ck_assert(training_says("saved parts/global_step6"));
    training_run(2, "--output parts");
    ck_assert(training_says("continuing at step 6 of 24"));
    same_checkpoints("whole", "parts", "global_step24");
    ck_assert_int_eq(training_lines("whole/metrics.jsonl"), 24);
    ck_assert_int_eq(training_lines("parts/metrics.jsonl"), 24);
    double loss = training_last_number("whole/metrics.jsonl", "\"loss\"");
    double held = training_last_number("whole/metrics.jsonl", "\"valid_loss\"");
    ck_assert_double_eq(loss, training_last_number("parts/metrics.jsonl", "\"loss\""));
    ck_assert_double_eq(held, training_last_number("parts/metrics.jsonl", "\"valid_loss\""));
    ck_assert_double_lt(loss, 5.5); /* fp16 skips its first steps until the loss scale is low enough */
    shell_leave();
}

START_TEST(resumes_fp16_stage_0)
{
    resumes_with_the_same_bits("fp16", ", \"initial_scale_power\": 40, \"loss_scale_window\": 5, \"hysteresis\": 1", 0);
}
END_TEST

START_TEST(resumes_bf16_stage_2)
{
    resumes_with_the_same_bits("bf16", "", 2);
}
END_TEST

START_TEST(resumes_bf16_stage_3)
{
    resumes_with_the_same_bits("bf16", "", 3);
}
END_TEST

/* A run that continues with another number of ranks reads, in each step, the same windows of the data as a run without
 * interruption. With other windows the losses of a step would be very different. */
START_TEST(another_number_of_ranks_continues_in_the_data)
{
    enum { STEPS = 24 };
    double whole[STEPS], parts[STEPS];
    training_prepare();
    training_config("bf16", "", 1);
    training_run(2, "--set bf16.enabled=false --output whole");
    training_run(2, "--set bf16.enabled=false --output parts --steps 6");
    training_run(4, "--set bf16.enabled=false --output parts --steps 13 --set gradient_accumulation_steps=1");
    training_run(1, "--set bf16.enabled=false --output parts --set gradient_accumulation_steps=4");
    training_losses("whole/metrics.jsonl", whole, STEPS);
    training_losses("parts/metrics.jsonl", parts, STEPS);
    for (int i = 0; i < STEPS; i++)
        ck_assert_msg(fabs(whole[i] - parts[i]) <= 1e-5 * whole[i], "step %d: %.9g, %.9g", i + 1, whole[i], parts[i]);
    shell_leave();
}
END_TEST

START_TEST(a_finished_run_needs_steps_or_fresh)
{
    training_prepare();
    training_config("bf16", "", 1);
    training_run(2, "--steps 4");
    training_run(2, "--steps 4");
    ck_assert(training_says("is finished: 4 of 4 steps"));
    ck_assert(training_says("--steps N"));
    training_run(2, "--steps 3");
    ck_assert(
        training_says("out is past step 3: 4 steps are done; a greater --steps N continues, --fresh starts over"));
    ck_assert(!training_says("continuing at step"));
    /* the printed commands can be executed as they are; curves are printed only on a terminal */
    ck_assert(training_says("the training is in out, at step 4; the same command with --steps 8 continues it"));
    ck_assert(training_says("`" CS_BIN "/cspeed plot out` draws its curves\n"));
    ck_assert(training_says("`" CS_BIN "/cspeed export out out_exported` writes"));
    ck_assert(training_says("`" CS_BIN "/cspeed generate out --prompt TEXT` continues a text"));
    ck_assert(!training_says("\n      step 1 "));
    training_expect(0, shell_run("PATH=/nowhere:%s:$PATH train --config config.json --steps 4", CS_BIN));
    ck_assert(training_says("`cspeed export out out_exported` writes"));
    training_expect(0, shell_run(CS_BIN "/cspeed plot out && " CS_BIN "/cspeed export out out_exported && " CS_BIN
                                        "/cspeed generate out --prompt TEXT"));
    training_expect(0,
                    shell_run("CSPEED_TERMINAL=1 COLUMNS=60 LC_ALL=C %s/train --config config.json --steps 4", CS_BIN));
    ck_assert(training_says("    * loss "));
    ck_assert(training_says("\n          +-------------------------------------------------\n      step 1 "));
    ck_assert_int_eq(training_lines("out/metrics.jsonl"), 4);
    training_run(2, "--steps 2 --fresh");
    ck_assert(training_says("out.1"));
    ck_assert_int_eq(access("out.1/global_step4/manifest.json", F_OK), 0);
    ck_assert_int_eq(training_lines("out/metrics.jsonl"), 2);
    training_expect(0,
                    shell_run("%s/train --deepspeed --deepspeed_config=config.json --steps=3 --output alone", CS_BIN));
    ck_assert(training_says("1 rank"));
    training_run(2, "--load alone --tag global_step3 --steps 5 --output next");
    ck_assert(training_says("continuing at step 3 of 5, from alone"));
    training_run(2, "--load alone --steps 6 --output next");
    ck_assert(training_says(
        "--load alone has no effect, because next contains a checkpoint, from which the training continues; "
        "--fresh starts from alone"));
    ck_assert(training_says("continuing at step 5 of 6, from next"));
    training_run(2, "--load alone --steps 4 --output next// --fresh");
    ck_assert(training_says("the earlier training was renamed to next.1"));
    ck_assert(training_says("continuing at step 3 of 4, from alone"));
    ck_assert_int_eq(access("next.1/global_step6/manifest.json", F_OK), 0);
    shell_leave();
}
END_TEST

/* The output folder is a symbolic link to a folder. --fresh keeps the link and this folder. It moves the contents of
 * this folder into a new folder, which has the same name with the suffix ".1". */
START_TEST(fresh_moves_the_folder_behind_a_link)
{
    training_prepare();
    training_config("bf16", "", 1);
    training_expect(0, shell_run("mkdir -p disk/run && ln -s disk/run out"));
    training_run(1, "--steps 2");
    training_run(1, "--steps 1 --fresh");
    ck_assert(training_says("the earlier training was renamed to "));
    training_expect(0, shell_run("test -L out && test -f disk/run/global_step1/manifest.json && "
                                 "test -f disk/run.1/global_step2/manifest.json && test ! -e out.1"));
    training_expect(0, shell_run("rm -r disk"));
    training_expect(1, shell_run("%s/train --config config.json --fresh", CS_BIN));
    ck_assert(training_says("is a symbolic link to a folder that does not exist"));
    shell_leave();
}
END_TEST

/* --tag T without --load continues from checkpoint T in the same folder, and has the same losses as the first run, bit
 * for bit. Later checkpoints are reported and kept. If the newest checkpoint is damaged, its newest complete ancestor
 * is used. */
START_TEST(tag_returns_to_a_checkpoint)
{
    training_prepare();
    training_config("bf16", "", 1);
    training_run(2, "--steps 8 --set cspeed.save_interval=2 --set cspeed.keep_last=0");
    training_expect(0, shell_run("cp -r out first"));
    training_run(2, "--steps 5 --set cspeed.save_interval=1 --set cspeed.keep_last=2 --tag global_step2");
    ck_assert(
        training_says("out/latest names global_step2 from now on, and these checkpoints are left aside: global_step8, "
                      "global_step6, global_step4."));
    ck_assert(training_says("continuing at step 2 of 5, from out"));
    training_expect(
        0, shell_run("for run in out first; do head -n 5 $run/metrics.jsonl | grep -o '\"loss\": [^,]*' > $run.losses; "
                     "done; test $(wc -l < out.losses) -eq 5 && cmp out.losses first.losses"));
    training_expect(0,
                    shell_run("[ \"$(echo $(ls out))\" = 'global_step4 global_step5 global_step6 global_step8 latest "
                              "metrics.jsonl' ]"));
    ck_assert_int_eq(training_lines("out/metrics.jsonl"), 5);
    training_expect(0, shell_run("diff -r first/global_step6 out/global_step6"));
    training_expect(0, shell_run(
                           /* checkpoints refer to earlier ones by name, not by path */
                           "mv out elsewhere && mkdir out && cp -r elsewhere/. out"));
    training_expect(0, shell_run("printf x | dd of=out/global_step5/optim/shard-00002-of-00002.safetensors "
                                 "bs=1 seek=20000 conv=notrunc"));
    training_run(2, "--steps 6");
    ck_assert(training_says("loading out/global_step4 instead, the newest complete checkpoint that it continues"));
    ck_assert(training_says("continuing at step 4 of 6, from out"));
    ck_assert(training_says("out/global_step5 is kept as out/global_step5~damaged"));
    shell_leave();
}
END_TEST

/* Settings of the model that change no shape are compared with the checkpoint's. */
START_TEST(changed_settings_of_the_model_are_named)
{
    training_prepare();
    training_config("bf16", "", 1);
    training_run(1, "--steps 1");
    training_run(1, "--steps 2");
    ck_assert(training_says_nothing_of("another model"));
    training_run(1, "--steps 3 --set cspeed.model.n_head=4 --set cspeed.model.layer_norm_epsilon=1e-3");
    ck_assert(training_says("n_head (2 there, 4 here), layer_norm_epsilon (1e-5 there, 0.001 here)"));
    shell_leave();
}
END_TEST

/* 1.6 MB are needed for three checkpoints and the one that is being written; the disk has 1 MB. */
START_TEST(too_little_disk_space_is_reported)
{
    static const char *const mounted = "unshare -m sh -c 'mount --make-rprivate / && mkdir -p out && mount -t tmpfs -o "
                                       "size=1m none out && %s/train --config config.json --set cspeed.save_interval=1 "
                                       "--steps %d'";
    training_prepare();
    training_config("bf16", "", 1);
    if (shell_run("unshare -m sh -c 'mount --make-rprivate / && mount -t tmpfs none /mnt'") != 0) {
        printf("skipped: checkpoints that will not fit (no file system can be mounted)\n");
    } else {
        training_expect(0, shell_run(mounted, CS_BIN, 2));
        ck_assert(training_says_nothing_of("more checkpoints of"));
        training_expect(1, shell_run(mounted, CS_BIN, 9));
        ck_assert(
            training_says("train: out: there will be up to 4 more checkpoints of 0.4 MB (cspeed.keep_last is 3;"));
        ck_assert(training_says("the file system has 1.0 MB free"));
        training_expect(0, shell_run("%s/train --config config.json --steps 9", CS_BIN));
        ck_assert(training_says_nothing_of("more checkpoints of"));
    }
    shell_leave();
}
END_TEST

/* Runs one attempt of a job. */
static void attempt(int number, const char *arguments)
{
    training_expect(0, shell_run("CSPEED_JOB_ID=j CSPEED_ATTEMPT=%d %s/train --config config.json --fresh %s", number,
                                 CS_BIN, arguments));
}

START_TEST(a_restart_does_not_start_over_again)
{
    training_prepare();
    training_config("bf16", "", 1);
    training_run(1, "--steps 1");
    attempt(1, "--steps 2"); /* attempt 0 ended before it moved the output of the earlier run */
    ck_assert(training_says("the earlier training was renamed to out.1"));
    attempt(2, "--steps 3");
    ck_assert(training_says("continuing at step 2 of 3, from out"));
    attempt(0, "--steps 1"); /* like a run without the launcher: attempt 0 starts over */
    ck_assert(training_says("the earlier training was renamed to out.2"));
    shell_leave();
}
END_TEST

static void attempt_from_a_tag(int number, const char *arguments)
{
    training_expect(0,
                    shell_run("CSPEED_JOB_ID=j CSPEED_ATTEMPT=%d %s/train --config config.json --tag global_step2 %s",
                              number, CS_BIN, arguments));
}

START_TEST(a_restart_does_not_return_to_the_tag_again)
{
    training_prepare();
    training_config("bf16", "", 1);
    training_run(1, "--steps 4 --set cspeed.save_interval=1 --set cspeed.keep_last=0");
    attempt_from_a_tag(0, "--steps 3");
    ck_assert(training_says("continuing at step 2 of 3, from out"));
    attempt_from_a_tag(1, "--steps 5");
    ck_assert(training_says("continuing at step 3 of 5, from out"));
    attempt_from_a_tag(0, "--steps 3"); /* like a run without the launcher: attempt 0 goes back to the tag */
    ck_assert(training_says("continuing at step 2 of 3, from out"));
    shell_leave();
}
END_TEST

/* Stops a run from outside after its first checkpoint, so that the launcher's last line can be checked. */
static void stop_after_a_save(const char *options)
{
    pid_t run = shell_start("%s/cspeed --num_gpus 2 --oversubscribe train --config config.json --steps 100000 %s",
                            CS_BIN, options);
    shell_await("grep -qs 'saved out/global_step6$' out.txt");
    kill(run, SIGTERM);
    training_expect(128 + SIGTERM, shell_wait(run));
}

START_TEST(a_failure_names_the_checkpoint_that_is_resumed)
{
    training_prepare();
    training_config("bf16", "", 1);
    stop_after_a_save("");
    ck_assert(training_says("\ncspeed: the same command continues from the checkpoint of step "));
    training_run(2, "--steps 12 --fresh");
    ck_assert_int_eq(shell_run("rm out.txt"), 0);
    stop_after_a_save("--fresh"); /* with --fresh the same command would not continue */
    ck_assert(training_says_nothing_of("the same command"));
    shell_leave();
}
END_TEST

SUITE_MAIN("train_resume", resumes_fp16_stage_0, resumes_bf16_stage_2, resumes_bf16_stage_3,
           another_number_of_ranks_continues_in_the_data, a_finished_run_needs_steps_or_fresh,
           fresh_moves_the_folder_behind_a_link, tag_returns_to_a_checkpoint, changed_settings_of_the_model_are_named,
           too_little_disk_space_is_reported, a_restart_does_not_start_over_again,
           a_restart_does_not_return_to_the_tag_again, a_failure_names_the_checkpoint_that_is_resumed)
