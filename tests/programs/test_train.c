/* test_train.c - the program train from the command line: metrics, progress, time, help and errors. test_train_resume.c
 * tests resuming. */
#include "suite.h"
#include "shell.h"
#include "training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(names_of_digits_are_names)
{
    training_prepare();
    training_config("bf16", "", 1);
    /* A group of users may share the output: the file modes of the output follow umask. The file modes of the
     * launcher's logs do not follow umask. */
    mode_t before = umask(002);
    struct stat output, manifest;
    training_run(1, "--steps 2 --output 2024");
    umask(before);
    ck_assert(stat("2024", &output) == 0 && stat("2024/global_step2/manifest.json", &manifest) == 0);
    ck_assert_int_eq(output.st_mode & 0777, 0775);
    ck_assert_int_eq(manifest.st_mode & 0777, 0664);
    ck_assert_int_eq(access("2024/global_step2/manifest.json", F_OK), 0);
    training_run(1, "--steps 1 --output 'a \"b\\\\c' --data data/train-00000.bin");
    ck_assert_int_eq(access("a \"b\\\\c/global_step1/manifest.json", F_OK), 0);
    /* The validation data in the configuration belongs to another text and is not used. */
    ck_assert(training_says_nothing_of("valid loss"));
    ck_assert_int_eq(unlink("data/valid.bin"), 0);
    training_run(1, "--steps 1 --output other --data data");
    ck_assert(training_says_nothing_of("valid loss"));
    training_expect(66, shell_run("%s/train --config config.json --data data --load 2024 --tag 20", CS_BIN));
    shell_leave();
}
END_TEST

/* WarmupLR's first update has the rate 0, and the next has it too with the logarithm of 1. Of a long training this is
 * not said. */
START_TEST(steps_without_a_rate_are_counted)
{
    training_prepare();
    training_config("bf16", "", 1);
    training_run(1, "--steps 8 --set 'scheduler={\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 4}}'");
    ck_assert(training_says("note: learning rate 0 in the first 2 of 8 steps (scheduler)"));
    training_run(
        1, "--fresh --steps 8 --set 'scheduler={\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_num_steps\": 2, "
           "\"total_num_steps\": 5, \"warmup_type\": \"linear\"}}'");
    ck_assert(training_says("note: learning rate 0 in the last 2 of 8 steps (scheduler)"));
    training_run(1, "--fresh --steps 8 --set scheduler=null");
    ck_assert(training_says_nothing_of("learning rate 0"));
    shell_leave();
}
END_TEST

START_TEST(whole_numbers_have_all_digits)
{
    training_prepare();
    training_config("fp16", ", \"initial_scale_power\": 30", 1);
    training_run(1, "--steps 1");
    char *line = shell_read("out/metrics.jsonl", NULL);
    ck_assert_msg(strstr(line, "\"loss_scale\": 1073741824, ") != NULL, "%s", line);
    free(line);
    shell_leave();
}
END_TEST

/* CSV and TensorBoard show the validation too. A step of this configuration has four samples, and steps 12 and 14 are
 * followed by a validation. */
START_TEST(monitors_have_the_validation)
{
    training_prepare();
    training_config("bf16", "", 1);
    training_run(1, "--steps 14 --set csv_monitor='{\"enabled\": true, \"output_path\": \"m\", \"job_name\": \"j\"}' "
                    "--set tensorboard='{\"enabled\": true, \"output_path\": \"t\", \"job_name\": \"j\"}'");
    char *rows = shell_read("m/j/Train_Samples_valid_loss.csv", NULL);
    double first, second;
    ck_assert_msg(sscanf(rows, "step,valid_loss\n48,%lf\n56,%lf\n", &first, &second) == 2, "%s", rows);
    ck_assert_double_eq_tol(second, training_last_number("out/metrics.jsonl", "\"valid_loss\""), 1e-8);
    ck_assert_double_gt(first, 0);
    free(rows);
    static const struct {
        const char *name;
        int events;
    } curves[] = { { "train_loss", 14 }, { "grad_norm", 14 }, { "tokens_per_s", 14 }, { "valid_loss", 2 } };
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
        char wanted[16];
        snprintf(wanted, sizeof wanted, "%d\n", curves[i].events);
        ck_assert_int_eq(shell_run("grep -ao Train/Samples/%s t/j/events.out.tfevents.* | wc -l", curves[i].name), 0);
        char *count = shell_read("out.txt", NULL);
        ck_assert_msg(strcmp(count, wanted) == 0, "%s: %s", curves[i].name, count);
        free(count);
    }
    shell_leave();
}
END_TEST

START_TEST(metrics_are_written_to_the_given_file)
{
    training_prepare();
    training_config("bf16", "", 1);
    training_run(2, "--steps 2 --metrics $PWD/deep/down/lines.jsonl");
    training_run(2, "--steps 3 --metrics $PWD/deep/down/lines.jsonl");
    ck_assert_int_eq(training_lines("deep/down/lines.jsonl"), 3);
    ck_assert_int_ne(access("deep/down/lines.jsonl.part", F_OK), 0);
    ck_assert_int_eq(mkdir("deep/down/lines.jsonl.part", 0777), 0);
    training_run(2, "--steps 4 --metrics $PWD/deep/down/lines.jsonl");
    ck_assert(training_says("cannot write"));
    training_run(2, "--steps 5 --metrics $PWD/deep");
    ck_assert(training_says("cannot write the metrics of step 5 to "));
    training_run(1, "--steps 6 --metrics /dev/full");
    ck_assert(training_says("cannot write the metrics of step 6"));
    shell_leave();
}
END_TEST

START_TEST(steps_fit_the_time_also_after_a_resume)
{
    training_prepare();
    training_config("bf16", "", 1);
    training_run(2, "--steps 3");
    training_run(2, "--set cspeed.fit_seconds=1e-9");
    ck_assert(training_says("9 steps instead of 24"));
    ck_assert(training_says("saved out/global_step9"));
    training_run(2, "--set cspeed.fit_seconds=1e-9");
    ck_assert(training_says("is finished: 9 of 9 steps"));
    ck_assert_double_eq(training_last_number("out/metrics.jsonl", "\"step\""), 9);
    training_run(2, "--set cspeed.fit_seconds=1e-9 --steps 11");
    ck_assert(training_says("saved out/global_step11"));
    shell_leave();
}
END_TEST

/* cspeed.threads overrides the number that the launcher chose, and OMP_NUM_THREADS of the user overrides both. */
START_TEST(threads_are_those_of_the_configuration)
{
    training_prepare();
    training_config("bf16", "", 1);
    unsetenv("OMP_NUM_THREADS");
    training_run(2, "--steps 1 --set cspeed.threads=3");
    ck_assert(training_says("cpu: 3 threads"));
    ck_assert(training_says_nothing_of("cspeed.threads"));
    setenv("OMP_NUM_THREADS", "2", 1);
    training_run(2, "--steps 1 --fresh --set cspeed.threads=3");
    unsetenv("OMP_NUM_THREADS");
    ck_assert(training_says("cpu: 2 threads"));
    ck_assert(training_says("cspeed.threads 3 has no effect, because OMP_NUM_THREADS is 2 in your environment"));
    shell_leave();
}
END_TEST

/* A text of 16 windows and a batch of 6: epochs end in the middle of steps 3 and 6, and with the last of step 8. Two
 * parts of an epoch end in steps 2, 3, 4, 6, 7, 8. */
START_TEST(intervals_may_be_parts_of_epochs)
{
    static const int64_t saved[] = { 3, 6, 8 }, validated[] = { 2, 3, 4, 6, 7, 8 };
    char name[64];
    training_prepare();
    training_text("short.txt", 8);
    training_config("bf16", "", 1);
    ck_assert_int_eq(shell_run("%s/pack --valid 0 --output short short.txt", CS_BIN), 0);
    training_run(
        1,
        "--data short --steps 8 --save_interval 0 --eval_interval 0 --set cspeed.data.valid=data/valid.bin --set cspeed.keep_last=0 "
        "--set train_batch_size=6 --set train_micro_batch_size_per_gpu=3 "
        "--set cspeed.saves_per_epoch=1 --set cspeed.evals_per_epoch=2 --set cspeed.eval_batches=1");
    for (int64_t step = 1, s = 0, v = 0; step <= 8; step++) {
        bool save = step == saved[s], valid = step == validated[v];
        snprintf(name, sizeof name, "out/global_step%d/manifest.json", (int)step);
        ck_assert_msg((access(name, F_OK) == 0) == save, "%s", name);
        snprintf(name, sizeof name, "step %d  valid loss", (int)step);
        ck_assert_msg(training_says(name) == valid, "%s", name);
        s += save;
        v += valid;
    }
    shell_leave();
}
END_TEST

/* The learning rates of a run whose length is computed from a time budget are those of one schedule: those of the same
 * run with --steps. The number of steps could be computed again at every fifth step, which saves. */
START_TEST(a_time_budget_does_not_bend_the_rate)
{
    training_prepare();
    training_config("bf16", "", 1);
    ck_assert_int_eq(shell_run(
                         "sed -i 's/\"warmup_num_steps\": 4, \"total_num_steps\": 24/\"warmup_type\": \"linear\", "
                         "\"warmup_num_steps\": 20, \"total_num_steps\": \"auto\"/; s/\"steps\": 24/\"steps\": 9999/' "
                         "config.json"),
                     0);
    training_run(1, "--set cspeed.fit_seconds=2 --set cspeed.save_interval=5 --set cspeed.eval_interval=0");
    char *out = shell_read("out.txt", NULL);
    ck_assert_int_ge(shell_count_of(out, " steps instead of "), 1);
    free(out);
    int steps = (int)training_last_number("out/metrics.jsonl", "\"step\"");
    ck_assert_int_lt(steps, 9999);
    ck_assert_int_eq(shell_run("%s/train --config config.json --output whole --set cspeed.save_interval=0 --set "
                               "cspeed.eval_interval=0 --steps %d && for run in out whole; do grep -o '\"lr\": [^,]*' "
                               "$run/metrics.jsonl >$run.rates; done; cmp out.rates whole.rates",
                               CS_BIN, steps),
                     0);
    shell_leave();
}
END_TEST

/* A progress line must fit the terminal. Only one of several ranks prints it, whichever launcher started them. */
START_TEST(progress_fits_the_terminal)
{
    training_prepare();
    training_config("bf16", "", 1);
    static const struct {
        int columns;
        const char *shown[9], *left_out;
    } rows[] = {
        { 200,
          { "step 1/3", "epoch 0.", "loss ", "lr ", "norm ", " tok/s", "% of peak", "time 0:", "ETA 0:" },
          "none" },
        { 80, { "step 1/3", "loss ", "lr ", " tok/s", "time 0:", "ETA 0:", "", "", "" }, "norm" },
        { 60, { "step 1/3", "loss ", "lr ", "tok/s", "ETA 0:", "", "", "", "" }, "epoch" },
        { 40, { "step 1/3", "loss ", "ETA 0:", "", "", "", "", "", "" }, "norm" },
        { 12, { "step 1/3", "", "", "", "", "", "", "", "" }, "ETA" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        training_expect(0, shell_run("rm -rf out; CSPEED_TERMINAL=1 COLUMNS=%d %s/train --config config.json --steps 3",
                                     rows[i].columns, CS_BIN));
        char *out = shell_read("out.txt", NULL), *at = strstr(out, "\rstep 1/3");
        ck_assert_ptr_nonnull(at);
        size_t length = strcspn(at + 1, "\033\n");
        for (char *next = at; next; next = strchr(next + 1, '\r'))
            ck_assert_uint_lt(strcspn(next + 1, "\033\n"), (size_t)rows[i].columns);
        at[1 + length] = '\0';
        for (int part = 0; part < 9; part++)
            ck_assert_msg(strstr(at, rows[i].shown[part]) != NULL, "no %s in %s", rows[i].shown[part], at);
        ck_assert_msg(!strstr(at, rows[i].left_out), "%s in %s", rows[i].left_out, at);
        free(out);
    }
    training_expect(0, shell_run("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 %s/train --help", CS_BIN));
    ck_assert_int_eq(training_lines("out.txt"), 0);
    shell_leave();
}
END_TEST

/* Processes of mpirun are ranks of one training, also if they are `cspeed train`. */
START_TEST(the_command_is_a_rank_of_mpirun)
{
    training_prepare();
    training_config("bf16", "", 2);
    training_expect(0, shell_run("for i in 0 1; do OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE=2 "
                                 "OMPI_COMM_WORLD_LOCAL_RANK=$i OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=test$$ "
                                 "%s/cspeed train --config config.json & pids=\"$pids $!\"; done; "
                                 "for pid in $pids; do wait $pid || exit 1; done",
                                 CS_BIN));
    ck_assert(training_says("2 ranks"));
    ck_assert_int_ne(shell_run("test -e cspeed_runs"), 0); /* no job of the launcher has run */
    shell_leave();
}
END_TEST

START_TEST(errors_have_one_sentence_and_a_code)
{
    training_prepare();
    training_config("bf16", "", 2);
    training_expect(66, shell_run("%s/train --config nowhere.json", CS_BIN));
    training_expect(64, shell_run("%s/train --config config.json --stepz 3", CS_BIN));
    training_expect(64, shell_run("%s/train", CS_BIN));
    training_expect(64, shell_run("%s/train --config config.json --learning-rate 1e-3", CS_BIN));
    ck_assert(training_says("here it is optimizer.params.lr; --set optimizer.params.lr=1e-3 sets it"));
    training_expect(64, shell_run("%s/train --config config.json --prefetch 2", CS_BIN));
    ck_assert(training_says("a key of the configuration; --set cspeed.prefetch=2 sets it"));
    training_expect(64, shell_run("%s/train config.json", CS_BIN));
    ck_assert(training_says("unknown argument config.json: --config config.json reads it"));
    training_expect(64, training_try(2, "config.json --lr 1"));
    ck_assert(
        training_says("train: unknown flag --lr: a word of axolotl and Megatron; here it is optimizer.params.lr"));
    static const struct {
        int code;
        const char *arguments, *says;
    } wrong[] = {
        { 66, "nowhere.json", "nowhere.json cannot be opened" },
        { 66, "config.json --data nowhere.bin", "nowhere.bin: no such file" },
        { 66, "config.json --model nowhere", "cspeed.model: nowhere: no such folder" },
        { 78, "config.json --set zero_optimization.stagge=2", "the nearest known one is \"stage\"" },
        { 78, "config.json --set train_batch_size=7", "7" },
        { 78, "config.json --set cspeed.data.train=null", "no training data: give --data PATH" },
        { 64, "config.json --world_size 2", "--world_size and --local_size need --plan" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        training_expect(wrong[i].code, training_try(2, wrong[i].arguments));
        ck_assert(training_says(wrong[i].says));
        ck_assert(training_says_nothing_of("job"));
    }
    ck_assert_int_ne(access("cspeed_runs", F_OK), 0); /* no job was made for any of them */
    training_expect(64, shell_run("%s/cspeed accelerate launch train.py", CS_BIN));
    ck_assert(
        training_says("accelerate is not a command of cspeed but a word of Accelerate; here it is `cspeed train"));
    training_expect(78, shell_run("%s/train --config config.json --set zero_optimization.stagge=2", CS_BIN));
    ck_assert(training_says("stage"));
    training_expect(78, shell_run("%s/train --config config.json --set train_batch_size=7", CS_BIN));
    ck_assert(training_says("7"));
    training_expect(66, shell_run("%s/train --config config.json --data nowhere.bin", CS_BIN));
    shell_write("short.bin", "CSTOKENS");
    training_expect(65, shell_run("%s/train --config config.json --data short.bin", CS_BIN));
    ck_assert(training_says("short.bin"));
    training_expect(78, shell_run("%s/train --config config.json --seq_len 64", CS_BIN));
    ck_assert(training_says("is possible"));
    training_expect(66, shell_run("%s/train --config config.json --load nowhere", CS_BIN));
    training_expect(66, shell_run("%s/train --config config.json --tag 20", CS_BIN));
    ck_assert(training_says("out has no checkpoint \"20\""));
    training_expect(64, shell_run("%s/train --config config.json --tag 20 --fresh", CS_BIN));
    ck_assert(training_says("give one of the two"));
    training_expect(1, training_try(2, "config.json --output song.txt"));
    ck_assert(training_says("the output folder song.txt is a file"));
    training_expect(1, shell_run("%s/train --config config.json --output song.txt/under", CS_BIN));
    ck_assert(training_says("cannot make the output folder song.txt/under: Not a directory"));
    ck_assert(training_says_nothing_of("step 1/"));
    training_run(2, "--steps 2");
    training_expect(0, shell_run("printf x | dd of=out/global_step2/weights/shard-00001-of-00002.safetensors "
                                 "bs=1 seek=5000 conv=notrunc"));
    training_expect(65, training_try(2, "config.json --load out --tag global_step2 --output other"));
    ck_assert(training_says("shard-00001-of-00002"));
    training_expect(65, training_try(2, "config.json"));
    ck_assert(training_says("out contains no other complete checkpoint"));
    shell_leave();
}
END_TEST

/* A plan may be for another number of ranks; the ranks may have other variables; and a pipe can be read only once. */
START_TEST(the_launcher_leaves_to_the_ranks_what_only_they_can_check)
{
    static const char *const lines[] = {
        "--config config.json --plan --world_size 4 --set train_batch_size=16",
        "--config config.json --plan --model org/tiny",
        "--config /dev/fd/5 --plan 5<&0",
    };
    training_prepare();
    training_config("bf16", "", 2);
    shell_write_below("hf/hub/models--org--tiny", "refs/main", "1");
    shell_write_below("hf/hub/models--org--tiny", "snapshots/1/config.json",
                      "{\"model_type\": \"gpt2\", \"n_positions\": 32, \"vocab_size\": 256, \"n_embd\": 32, "
                      "\"n_layer\": 1, \"n_head\": 2}");
    ck_assert_int_eq(shell_run("printf '\\2\\0\\0\\0\\0\\0\\0\\0{}' > "
                               "hf/hub/models--org--tiny/snapshots/1/model.safetensors"),
                     0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        training_expect(0, shell_run("cat config.json | %s/cspeed --num_gpus 1 %s train %s", CS_BIN,
                                     i == 1 ? "--env HF_HOME=$PWD/hf" : "", lines[i]));
        ck_assert(training_says("memory of a rank: "));
    }
    shell_leave();
}
END_TEST

/* Each rank has a configuration of its own. */
START_TEST(a_rank_that_fails_alone_says_why)
{
    static const char *const launch =
        CS_BIN "/cspeed --oversubscribe --num_gpus 2 --log_dir logs run sh -c "
               "'test -f $RANK.json || exec sleep 1000; exec " CS_BIN "/train --config $RANK.json'";
    shell_enter();
    for (int both = 0; both < 2; both++) {
        shell_write("1.json", "{ \"train_batch_size\": 0,\n  \"optimizr\": {} }\n");
        if (both) /* the first error messages of the two ranks name different files */
            shell_write("0.json", "{ \"train_batch_size\": 0,\n  \"optimizr\": {} }\n");
        training_expect(78, shell_run("%s", launch));
        ck_assert(training_says("1| cspeed: 1.json:1:23 at train_batch_size: at least 1 is needed, not 0\n"
                                "1| 1.json:2:3 at optimizr: unknown key"));
        ck_assert(training_says(both ? "\ncspeed: 0.json:1:23" : "failed: rank 1"));
        ck_assert_int_eq(shell_run("grep optimizr logs/attempt_0/1.err && rm -r logs"), 0);
    }
    shell_write("both.json", "{ \"train_batch_size\": 0,\n  \"optimizr\": {} }\n");
    training_expect(78, shell_run(CS_BIN "/cspeed --oversubscribe --num_gpus 2 --log_dir logs " CS_BIN "/train "
                                         "--config both.json"));
    ck_assert(training_says("\ncspeed: both.json:1:23 at train_batch_size") && training_says_nothing_of("1|"));
    shell_leave();
}
END_TEST

/* The values that Hugging Face's Trainer would choose are printed, and training uses them: a rate of 5e-5 that falls
 * linearly to 0. */
START_TEST(a_file_of_the_trainer_is_explained)
{
    training_prepare();
    shell_write(
        "config.json",
        "{ \"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\", \"bf16\": { \"enabled\": "
        "\"auto\" }, \"cspeed\": { \"output\": \"out\", \"data\": { \"train\": \"data/train-*.bin\", \"seq_len\": 32 "
        "}, "
        "\"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 16, \"n_positions\": 32, "
        "\"vocab_size\": 256 } } }\n");
    training_expect(0, shell_run("%s/train --config config.json --steps 4", CS_BIN));
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(strncmp(out, "note: optimizer: not in the file, whose \"auto\" says", 50) == 0, "%s", out);
    free(out);
    ck_assert(training_says("\nnote: scheduler: not in the file, whose \"auto\" says"));
    ck_assert_double_eq_tol(training_last_number("out/metrics.jsonl", "\"lr\""), 5e-5 / 4, 1e-15);
    training_expect(0, shell_run("%s/train --config config.json --steps 4 --fresh --set bf16.enabled=false "
                                 "--set train_batch_size=8 --set train_micro_batch_size_per_gpu=8",
                                 CS_BIN));
    ck_assert(training_says("note: optimizer: not in the file, as where a program supplies one of its own"));
    ck_assert_double_eq_tol(training_last_number("out/metrics.jsonl", "\"lr\""), 1e-3, 1e-15);
    shell_leave();
}
END_TEST

START_TEST(config_help_prints_the_table)
{
    shell_enter();
    training_expect(0, shell_run("%s/train --config_help", CS_BIN));
    ck_assert(training_says("zero_optimization"));
    ck_assert(training_says("not supported, because"));
    ck_assert(training_says("fit_seconds"));
    ck_assert(training_says("n_embd"));
    shell_leave();
}
END_TEST

START_TEST(own_model_trains_sharded)
{
    shell_enter();
    training_expect(0, shell_run("%s/cspeed --num_gpus 3 --oversubscribe %s/own_model %s/configs/own_model.json",
                                 CS_BIN, CS_BIN, CS_SOURCE));
    char *out = shell_read("out.txt", NULL);
    char *last = strstr(out, "step 500");
    ck_assert_ptr_nonnull(last);
    ck_assert_double_lt(atof(strstr(last, "loss ") + 5), 0.1);
    free(out);
    shell_leave();
}
END_TEST

/* examples/train_minimal.c trains as the program train does, and continues from the checkpoint that it has saved. */
START_TEST(the_shortest_program_trains_alike)
{
    char last[64];
    const char *command = "%s/cspeed --num_gpus 2 --oversubscribe %s/train_minimal config.json";
    training_prepare();
    training_config("bf16", "", 2);
    training_run(2, "--output other");
    snprintf(last, sizeof last, "step 24  loss %.5f", training_last_number("other/metrics.jsonl", "\"loss\""));
    ck_assert_int_eq(shell_run("sed -i 's/\"steps\": 24/\"steps\": 12/' config.json"), 0);
    training_expect(0, shell_run(command, CS_BIN, CS_BIN));
    ck_assert(training_says("step 12  loss"));
    ck_assert_int_eq(shell_run("sed -i 's/\"steps\": 12/\"steps\": 24/' config.json"), 0);
    training_expect(0, shell_run(command, CS_BIN, CS_BIN));
    ck_assert(training_says_nothing_of("step 12  loss") && training_says(last));
    training_expect(64, shell_run("%s/train_minimal", CS_BIN));
    shell_leave();
}
END_TEST

SUITE_MAIN("train", names_of_digits_are_names, metrics_are_written_to_the_given_file, whole_numbers_have_all_digits,
           monitors_have_the_validation, steps_without_a_rate_are_counted, intervals_may_be_parts_of_epochs,
           threads_are_those_of_the_configuration, steps_fit_the_time_also_after_a_resume,
           a_time_budget_does_not_bend_the_rate, progress_fits_the_terminal, the_command_is_a_rank_of_mpirun,
           errors_have_one_sentence_and_a_code, the_launcher_leaves_to_the_ranks_what_only_they_can_check,
           a_rank_that_fails_alone_says_why, a_file_of_the_trainer_is_explained, config_help_prints_the_table,
           own_model_trains_sharded, the_shortest_program_trains_alike)
