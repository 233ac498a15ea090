/* test_train.c - the programs from the command line: pack, train on several ranks, resume with the same bits,
 * errors. */
#include "suite.h"
#include "shell.h"

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const config_text =
    "// a byte-level GPT that trains in a second\n"
    "{ \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 2,\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 5e-3, \"weight_decay\": 0.1, }, },\n"
    "  \"scheduler\": { \"type\": \"WarmupCosineLR\",\n"
    "    \"params\": { \"warmup_num_steps\": 4, \"total_num_steps\": 24 } },\n"
    "  \"%s\": { \"enabled\": true%s }, \"zero_optimization\": { \"stage\": %d },\n"
    "  \"cspeed\": { \"steps\": 24, \"seed\": 5, \"output\": \"out\", \"save_interval\": 6,\n"
    "    \"eval_interval\": 12, \"eval_batches\": 2,\n"
    "    \"data\": { \"train\": \"data/train-*.bin\", \"valid\": \"data/valid.bin\", \"seq_len\": 32 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32,\n"
    "               \"n_positions\": 32, \"vocab_size\": 256,\n"
    "               \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1 } } }\n";

static void write_config(const char *precision, const char *more, int stage)
{
    char text[4096];
    snprintf(text, sizeof text, config_text, precision, more, stage);
    shell_write("config.json", text);
}

static void write_text(const char *path, int lines)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < lines; i++)
        fprintf(file, "%d green bottles hanging on the wall, and if %d of them should fall\n", i * 37 % 101, i % 7);
    ck_assert_int_eq(fclose(file), 0);
}

static void prepare(void)
{
    shell_enter();
    write_text("song.txt", 400);
    ck_assert_int_eq(shell_run("%s/pack --output data song.txt", CS_BIN), 0);
}

static void expect(int code, int got)
{
    if (code != got) {
        char *out = shell_read("out.txt", NULL);
        ck_abort_msg("exit code %d, not %d; it printed:\n%s", got, code, out);
    }
}

static int says(const char *words)
{
    char *out = shell_read("out.txt", NULL);
    int found = strstr(out, words) != NULL;
    if (!found)
        fprintf(stderr, "--- not said: %s\n%s\n---\n", words, out);
    free(out);
    return found;
}

static int is_silent_on(const char *words)
{
    char *out = shell_read("out.txt", NULL);
    int found = strstr(out, words) != NULL;
    free(out);
    return !found;
}

static void train(int ranks, const char *arguments)
{
    expect(0, shell_run("%s/cspeed --num_gpus %d --oversubscribe train --config config.json %s", CS_BIN, ranks,
                        arguments));
}

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

static double last_number(const char *path, const char *name)
{
    char *text = shell_read(path, NULL), *at = text, *last = NULL;
    size_t length = strlen(name);
    while ((at = strstr(at, name)))
        last = at += length;
    ck_assert_msg(last != NULL, "%s has no %s", path, name);
    double value = atof(last + 2);
    free(text);
    return value;
}

static int lines_of(const char *path)
{
    char *text = shell_read(path, NULL);
    int lines = 0;
    for (char *at = text; *at; at++)
        lines += *at == '\n';
    free(text);
    return lines;
}

/* A run that was interrupted and resumed has the same bits as an uninterrupted one: parameters, moments, schedule, loss
 * scale, data and dropout. */
static void resumes_with_the_same_bits(const char *precision, const char *more, int stage)
{
    prepare();
    write_config(precision, more, stage);
    train(2, "--output whole");
    train(2, "--output parts --steps 6");
    ck_assert(says("saved parts/global_step6"));
    train(2, "--output parts");
    ck_assert(says("continuing at step 6 of 24"));
    same_checkpoints("whole", "parts", "global_step24");
    ck_assert_int_eq(lines_of("whole/metrics.jsonl"), 24);
    ck_assert_int_eq(lines_of("parts/metrics.jsonl"), 24);
    double loss = last_number("whole/metrics.jsonl", "\"loss\"");
    double held = last_number("whole/metrics.jsonl", "\"valid_loss\"");
    ck_assert_double_eq(loss, last_number("parts/metrics.jsonl", "\"loss\""));
    ck_assert_double_eq(held, last_number("parts/metrics.jsonl", "\"valid_loss\""));
    ck_assert_double_lt(loss, 5.5); /* fp16 skips the first steps until its loss scale fits */
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

/* Each step reads the same windows as without the interruption, whichever rank reads them; otherwise its loss would be
 * very different. */
START_TEST(another_world_reads_on_where_the_first_stopped)
{
    double whole = 0, parts = 0;
    prepare();
    write_config("bf16", "", 1);
    train(2, "--set bf16.enabled=false --output whole");
    train(2, "--set bf16.enabled=false --output parts --steps 6");
    train(4, "--set bf16.enabled=false --output parts --steps 13 --set gradient_accumulation_steps=1");
    train(1, "--set bf16.enabled=false --output parts --set gradient_accumulation_steps=4");
    char *one = shell_read("whole/metrics.jsonl", NULL), *other = shell_read("parts/metrics.jsonl", NULL);
    char *a = one, *b = other;
    for (int step = 1; step <= 24; step++) {
        a = strstr(a + 1, "\"loss\": ");
        b = strstr(b + 1, "\"loss\": ");
        ck_assert(a && b && sscanf(a, "\"loss\": %lf", &whole) == 1 && sscanf(b, "\"loss\": %lf", &parts) == 1);
        ck_assert_msg(fabs(whole - parts) <= 1e-5 * whole, "step %d: %.9g and %.9g", step, whole, parts);
    }
    free(one);
    free(other);
    shell_leave();
}
END_TEST

START_TEST(finished_fresh_and_alone)
{
    prepare();
    write_config("bf16", "", 1);
    train(2, "--steps 4");
    train(2, "--steps 4");
    ck_assert(says("is finished: 4 of 4 steps"));
    ck_assert(says("--steps N"));
    train(2, "--steps 3");
    ck_assert(says("out is past step 3: 4 steps are done; --steps N goes on, --fresh starts over"));
    ck_assert(!says("continuing at step"));
    /* the commands can be typed as they are printed; only a terminal gets a curve */
    ck_assert(says("the run is in out, at step 4; the same command with --steps 8 continues it"));
    ck_assert(
        says("`" CS_BIN "/cspeed plot out` draws its curves; `" CS_BIN "/cspeed export out out_exported` writes"));
    ck_assert(says("`" CS_BIN "/cspeed generate out --prompt TEXT` goes on with a text of yours"));
    ck_assert(!says("\n           1 "));
    expect(0, shell_run(CS_BIN "/cspeed plot out && " CS_BIN "/cspeed export out out_exported && " CS_BIN
                               "/cspeed generate out --prompt TEXT"));
    expect(0, shell_run("CSPEED_TERMINAL=1 COLUMNS=60 LC_ALL=C %s/train --config config.json --steps 4", CS_BIN));
    ck_assert(says("    * loss "));
    ck_assert(says("\n          +-------------------------------------------------\n           1"));
    ck_assert_int_eq(lines_of("out/metrics.jsonl"), 4);
    train(2, "--steps 2 --fresh");
    ck_assert(says("out.1"));
    ck_assert_int_eq(access("out.1/global_step4/manifest.json", F_OK), 0);
    ck_assert_int_eq(lines_of("out/metrics.jsonl"), 2);
    expect(0, shell_run("%s/train --deepspeed --deepspeed_config=config.json --steps=3 --output alone", CS_BIN));
    ck_assert(says("1 rank"));
    train(2, "--load alone --tag global_step3 --steps 5 --output next");
    ck_assert(says("continuing at step 3 of 5, from alone"));
    train(2, "--load alone --steps 6 --output next");
    ck_assert(says("--load alone is passed over: next holds a checkpoint; --fresh starts from alone"));
    ck_assert(says("continuing at step 5 of 6, from next"));
    train(2, "--load alone --steps 4 --output next// --fresh");
    ck_assert(says("the earlier run is in next.1"));
    ck_assert(says("continuing at step 3 of 4, from alone"));
    ck_assert_int_eq(access("next.1/global_step6/manifest.json", F_OK), 0);
    shell_leave();
}
END_TEST

/* The link remains, and the contents of its target are moved aside there. */
START_TEST(fresh_behind_a_link)
{
    prepare();
    write_config("bf16", "", 1);
    expect(0, shell_run("mkdir -p disk/run && ln -s disk/run out"));
    train(1, "--steps 2");
    train(1, "--steps 1 --fresh");
    ck_assert(says("the earlier run is in "));
    expect(0, shell_run("test -L out && test -f disk/run/global_step1/manifest.json && "
                        "test -f disk/run.1/global_step2/manifest.json && test ! -e out.1"));
    expect(0, shell_run("rm -r disk"));
    expect(1, shell_run("%s/train --config config.json --fresh", CS_BIN));
    ck_assert(says("is a symbolic link to a folder that is not there"));
    shell_leave();
}
END_TEST

/* --tag T without --load returns to T in the same folder and continues from there with the same bits. Later checkpoints
 * are reported and kept; if the newest is damaged, an older one of the continued history is used. */
START_TEST(back_to_a_tag)
{
    prepare();
    write_config("bf16", "", 1);
    train(2, "--steps 8 --set cspeed.save_interval=2 --set cspeed.keep_last=0");
    expect(0, shell_run("cp -r out first"));
    train(2, "--steps 5 --set cspeed.save_interval=1 --set cspeed.keep_last=2 --tag global_step2");
    ck_assert(says("out/latest names global_step2 from now on, and these checkpoints are left aside: global_step8, "
                   "global_step6, global_step4."));
    ck_assert(says("continuing at step 2 of 5, from out"));
    expect(0,
           shell_run("for run in out first; do head -n 5 $run/metrics.jsonl | grep -o '\"loss\": [^,]*' > $run.losses; "
                     "done; test $(wc -l < out.losses) -eq 5 && cmp out.losses first.losses"));
    expect(0, shell_run("[ \"$(echo $(ls out))\" = 'global_step4 global_step5 global_step6 global_step8 latest "
                        "metrics.jsonl' ]"));
    ck_assert_int_eq(lines_of("out/metrics.jsonl"), 5);
    expect(0, shell_run("diff -r first/global_step6 out/global_step6"));
    expect(0, shell_run(
                  /* the history consists of names, not of paths */
                  "mv out elsewhere && mkdir out && cp -r elsewhere/. out"));
    expect(0, shell_run("printf x | dd of=out/global_step5/optim/shard-00002-of-00002.safetensors "
                        "bs=1 seek=20000 conv=notrunc"));
    train(2, "--steps 6");
    ck_assert(says("loading out/global_step4 instead, the newest whole checkpoint that it continues"));
    ck_assert(says("continuing at step 4 of 6, from out"));
    ck_assert(says("out/global_step5 is kept as out/global_step5~damaged"));
    shell_leave();
}
END_TEST

/* Values that change no shape are compared. */
START_TEST(another_model_of_the_same_shapes)
{
    prepare();
    write_config("bf16", "", 1);
    train(1, "--steps 1");
    train(1, "--steps 2");
    ck_assert(is_silent_on("another model"));
    train(1, "--steps 3 --set cspeed.model.n_head=4 --set cspeed.model.layer_norm_epsilon=1e-3");
    ck_assert(says("n_head (2 there, 4 here), layer_norm_epsilon (1e-5 there, 0.001 here)"));
    shell_leave();
}
END_TEST

/* Three checkpoints, and the one that is being written, need 1.6 MB. */
START_TEST(checkpoints_that_will_not_fit)
{
    static const char *const mounted = "unshare -m sh -c 'mount --make-rprivate / && mkdir -p out && mount -t tmpfs -o "
                                       "size=1m none out && %s/train --config config.json --set cspeed.save_interval=1 "
                                       "--steps %d'";
    prepare();
    write_config("bf16", "", 1);
    if (shell_run("unshare -m sh -c 'mount --make-rprivate / && mount -t tmpfs none /mnt'") != 0) {
        printf("skipped: checkpoints that will not fit (no file system can be mounted)\n");
    } else {
        expect(0, shell_run(mounted, CS_BIN, 2));
        ck_assert(is_silent_on("more checkpoints of"));
        expect(1, shell_run(mounted, CS_BIN, 9));
        ck_assert(says("train: out: 4 more checkpoints of 0.4 MB will be there at a time (cspeed.keep_last is 3;"));
        ck_assert(says("the file system has 1.0 MB free"));
        expect(0, shell_run("%s/train --config config.json --steps 9", CS_BIN));
        ck_assert(is_silent_on("more checkpoints of"));
    }
    shell_leave();
}
END_TEST

/* Runs one attempt of a job. */
static void attempt(int number, const char *arguments)
{
    expect(0, shell_run("CSPEED_JOB_ID=j CSPEED_ATTEMPT=%d %s/train --config config.json --fresh %s", number, CS_BIN,
                        arguments));
}

START_TEST(a_restart_does_not_start_over_again)
{
    prepare();
    write_config("bf16", "", 1);
    train(1, "--steps 1");
    attempt(1, "--steps 2"); /* the first attempt died before it did that */
    ck_assert(says("the earlier run is in out.1"));
    attempt(2, "--steps 3");
    ck_assert(says("continuing at step 2 of 3, from out"));
    attempt(0, "--steps 1"); /* the same command, without the launcher */
    ck_assert(says("the earlier run is in out.2"));
    shell_leave();
}
END_TEST

static void attempt_back(int number, const char *arguments)
{
    expect(0, shell_run("CSPEED_JOB_ID=j CSPEED_ATTEMPT=%d %s/train --config config.json --tag global_step2 %s", number,
                        CS_BIN, arguments));
}

START_TEST(a_restart_does_not_go_back_again)
{
    prepare();
    write_config("bf16", "", 1);
    train(1, "--steps 4 --set cspeed.save_interval=1 --set cspeed.keep_last=0");
    attempt_back(0, "--steps 3");
    ck_assert(says("continuing at step 2 of 3, from out"));
    attempt_back(1, "--steps 5");
    ck_assert(says("continuing at step 3 of 5, from out"));
    attempt_back(0, "--steps 3"); /* the same command, without the launcher */
    ck_assert(says("continuing at step 2 of 3, from out"));
    shell_leave();
}
END_TEST

/* Ends a run from outside after its first checkpoint and checks the last line of the launcher. */
static void end_behind_a_save(const char *options)
{
    enum { TURNS = 6000 };
    int waited = 0;
    pid_t run = shell_start("%s/cspeed --num_gpus 2 --oversubscribe train --config config.json --steps 100000 %s",
                            CS_BIN, options);
    while (waited++ < TURNS && (access("out.txt", F_OK) != 0 || is_silent_on("saved out/global_step6\n")))
        usleep(10000);
    ck_assert_int_lt(waited, TURNS);
    kill(run, SIGTERM);
    expect(128 + SIGTERM, shell_wait(run));
}

START_TEST(a_failure_says_how_to_go_on)
{
    prepare();
    write_config("bf16", "", 1);
    end_behind_a_save("");
    ck_assert(says("\ncspeed: the same command goes on from the checkpoint of step "));
    train(2, "--steps 12 --fresh");
    ck_assert_int_eq(shell_run("rm out.txt"), 0);
    end_behind_a_save("--fresh"); /* this command would start over */
    ck_assert(is_silent_on("the same command"));
    shell_leave();
}
END_TEST

START_TEST(names_stay_names)
{
    prepare();
    write_config("bf16", "", 1);
    /* The output is shared by a group: unlike the launcher's logs, its modes follow only umask. */
    mode_t before = umask(002);
    struct stat output, manifest;
    train(1, "--steps 2 --output 2024");
    umask(before);
    ck_assert(stat("2024", &output) == 0 && stat("2024/global_step2/manifest.json", &manifest) == 0);
    ck_assert_int_eq(output.st_mode & 0777, 0775);
    ck_assert_int_eq(manifest.st_mode & 0777, 0664);
    ck_assert_int_eq(access("2024/global_step2/manifest.json", F_OK), 0);
    train(1, "--steps 1 --output 'a \"b\\\\c' --data data/train-00000.bin");
    ck_assert_int_eq(access("a \"b\\\\c/global_step1/manifest.json", F_OK), 0);
    ck_assert(
        is_silent_on("valid loss")); /* the configuration's validation data belongs to another text and is not used */
    ck_assert_int_eq(unlink("data/valid.bin"), 0);
    train(1, "--steps 1 --output other --data data");
    ck_assert(is_silent_on("valid loss"));
    expect(66, shell_run("%s/train --config config.json --data data --load 2024 --tag 20", CS_BIN));
    shell_leave();
}
END_TEST

START_TEST(metrics_are_written_to_the_given_file)
{
    prepare();
    write_config("bf16", "", 1);
    train(2, "--steps 2 --metrics $PWD/deep/down/lines.jsonl");
    train(2, "--steps 3 --metrics $PWD/deep/down/lines.jsonl");
    ck_assert_int_eq(lines_of("deep/down/lines.jsonl"), 3);
    ck_assert_int_ne(access("deep/down/lines.jsonl.part", F_OK), 0);
    ck_assert_int_eq(mkdir("deep/down/lines.jsonl.part", 0777), 0);
    train(2, "--steps 4 --metrics $PWD/deep/down/lines.jsonl");
    ck_assert(says("cannot rewrite"));
    train(2, "--steps 5 --metrics $PWD/deep");
    ck_assert(says("going on without metrics"));
    train(1, "--steps 6 --metrics /dev/full");
    ck_assert(says("cannot write the metrics of step 6"));
    shell_leave();
}
END_TEST

START_TEST(steps_fit_the_time_also_after_a_resume)
{
    prepare();
    write_config("bf16", "", 1);
    train(2, "--steps 3");
    train(2, "--set cspeed.fit_seconds=1e-9");
    ck_assert(says("9 steps instead of 24"));
    ck_assert(says("saved out/global_step9"));
    train(2, "--set cspeed.fit_seconds=1e-9");
    ck_assert(says("is finished: 9 of 9 steps"));
    ck_assert_double_eq(last_number("out/metrics.jsonl", "\"step\""), 9);
    train(2, "--set cspeed.fit_seconds=1e-9 --steps 11");
    ck_assert(says("saved out/global_step11"));
    shell_leave();
}
END_TEST

/* A progress line must not wrap; of several ranks, only one prints it, whichever launcher started them. */
START_TEST(progress_fits_the_terminal)
{
    prepare();
    write_config("bf16", "", 1);
    static const struct {
        int columns;
        const char *shown[7], *left_out;
    } rows[] = {
        { 200, { "step 1/3", "loss ", "lr ", "norm ", " tok/s", "% of peak", "ETA 0:" }, "none" },
        { 80, { "step 1/3", "loss ", "lr ", "norm ", " tok/s", "ETA 0:", "" }, "none" },
        { 60, { "step 1/3", "loss ", "lr ", "tok/s", "ETA 0:", "", "" }, "norm" },
        { 40, { "step 1/3", "loss ", "ETA 0:", "", "", "", "" }, "norm" },
        { 12, { "step 1/3", "", "", "", "", "", "" }, "ETA" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(0, shell_run("rm -rf out; CSPEED_TERMINAL=1 COLUMNS=%d %s/train --config config.json --steps 3",
                            rows[i].columns, CS_BIN));
        char *out = shell_read("out.txt", NULL), *at = strstr(out, "\rstep 1/3");
        ck_assert_ptr_nonnull(at);
        size_t length = strcspn(at + 1, "\033\n");
        for (char *next = at; next; next = strchr(next + 1, '\r'))
            ck_assert_uint_lt(strcspn(next + 1, "\033\n"), (size_t)rows[i].columns);
        at[1 + length] = '\0';
        for (int part = 0; part < 7; part++)
            ck_assert_msg(strstr(at, rows[i].shown[part]) != NULL, "no %s in %s", rows[i].shown[part], at);
        ck_assert_msg(!strstr(at, rows[i].left_out), "%s in %s", rows[i].left_out, at);
        free(out);
    }
    expect(0, shell_run("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 %s/train --help", CS_BIN));
    ck_assert_int_eq(lines_of("out.txt"), 0);
    shell_leave();
}
END_TEST

START_TEST(wrong_things_get_one_sentence_and_a_code)
{
    prepare();
    write_config("bf16", "", 2);
    expect(66, shell_run("%s/train --config nowhere.json", CS_BIN));
    expect(64, shell_run("%s/train --config config.json --stepz 3", CS_BIN));
    expect(64, shell_run("%s/train", CS_BIN));
    expect(78, shell_run("%s/train --config config.json --set zero_optimization.stagge=2", CS_BIN));
    ck_assert(says("stage"));
    expect(78, shell_run("%s/train --config config.json --set train_batch_size=7", CS_BIN));
    ck_assert(says("7"));
    expect(66, shell_run("%s/train --config config.json --data nowhere.bin", CS_BIN));
    shell_write("short.bin", "CSTOKENS");
    expect(65, shell_run("%s/train --config config.json --data short.bin", CS_BIN));
    ck_assert(says("short.bin"));
    expect(78, shell_run("%s/train --config config.json --seq_len 64", CS_BIN));
    ck_assert(says("is the most"));
    expect(66, shell_run("%s/train --config config.json --load nowhere", CS_BIN));
    expect(66, shell_run("%s/train --config config.json --tag 20", CS_BIN));
    ck_assert(says("out has no checkpoint \"20\""));
    expect(64, shell_run("%s/train --config config.json --tag 20 --fresh", CS_BIN));
    ck_assert(says("give one of the two"));
    expect(1, shell_run("%s/cspeed --num_gpus 2 --oversubscribe train --config config.json --output song.txt", CS_BIN));
    ck_assert(says("the output folder song.txt is a file"));
    expect(1, shell_run("%s/train --config config.json --output song.txt/under", CS_BIN));
    ck_assert(says("cannot make the output folder song.txt/under: Not a directory"));
    ck_assert(is_silent_on("step 1/"));
    train(2, "--steps 2");
    expect(0, shell_run("printf x | dd of=out/global_step2/weights/shard-00001-of-00002.safetensors "
                        "bs=1 seek=5000 conv=notrunc"));
    expect(65, shell_run("%s/cspeed --num_gpus 2 --oversubscribe train --config config.json --load out "
                         "--tag global_step2 --output other",
                         CS_BIN));
    ck_assert(says("shard-00001-of-00002"));
    expect(65, shell_run("%s/cspeed --num_gpus 2 --oversubscribe train --config config.json", CS_BIN));
    ck_assert(says("out holds no other whole checkpoint"));
    shell_leave();
}
END_TEST

/* The values that Hugging Face's Trainer would supply are printed first, and training uses them: 5e-5, linearly to
 * 0. */
START_TEST(a_trainers_file_says_what_it_trains_with)
{
    prepare();
    shell_write(
        "config.json",
        "{ \"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\", \"bf16\": { \"enabled\": "
        "\"auto\" }, \"cspeed\": { \"output\": \"out\", \"data\": { \"train\": \"data/train-*.bin\", \"seq_len\": 32 "
        "}, "
        "\"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 16, \"n_positions\": 32, "
        "\"vocab_size\": 256 } } }\n");
    expect(0, shell_run("%s/train --config config.json --steps 4", CS_BIN));
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(strncmp(out, "note: optimizer: not in the file, whose \"auto\" says", 50) == 0, "%s", out);
    free(out);
    ck_assert(says("\nnote: scheduler: not in the file, whose \"auto\" says"));
    ck_assert_double_eq_tol(last_number("out/metrics.jsonl", "\"lr\""), 5e-5 / 4, 1e-15);
    expect(0, shell_run("%s/train --config config.json --steps 4 --fresh --set bf16.enabled=false "
                        "--set train_batch_size=8 --set train_micro_batch_size_per_gpu=8",
                        CS_BIN));
    ck_assert(says("note: optimizer: not in the file, as where a program supplies one of its own"));
    ck_assert_double_eq_tol(last_number("out/metrics.jsonl", "\"lr\""), 1e-3, 1e-15);
    shell_leave();
}
END_TEST

START_TEST(config_help_prints_the_table)
{
    shell_enter();
    expect(0, shell_run("%s/train --config_help", CS_BIN));
    ck_assert(says("zero_optimization"));
    ck_assert(says("not supported, because"));
    ck_assert(says("fit_seconds"));
    ck_assert(says("n_embd"));
    shell_leave();
}
END_TEST

START_TEST(own_model_trains_sharded)
{
    shell_enter();
    expect(0, shell_run("%s/cspeed --num_gpus 3 --oversubscribe %s/own_model %s/configs/own_model.json", CS_BIN, CS_BIN,
                        CS_SOURCE));
    char *out = shell_read("out.txt", NULL);
    char *last = strstr(out, "step 500");
    ck_assert_ptr_nonnull(last);
    ck_assert_double_lt(atof(strstr(last, "loss ") + 5), 0.1);
    free(out);
    shell_leave();
}
END_TEST

SUITE_MAIN("train", resumes_fp16_stage_0, resumes_bf16_stage_2, resumes_bf16_stage_3,
           another_world_reads_on_where_the_first_stopped, finished_fresh_and_alone,
           a_restart_does_not_start_over_again, another_model_of_the_same_shapes, checkpoints_that_will_not_fit,
           a_restart_does_not_go_back_again, fresh_behind_a_link, back_to_a_tag, a_failure_says_how_to_go_on,
           names_stay_names, metrics_are_written_to_the_given_file, steps_fit_the_time_also_after_a_resume,
           progress_fits_the_terminal, wrong_things_get_one_sentence_and_a_code,
           a_trainers_file_says_what_it_trains_with, config_help_prints_the_table, own_model_trains_sharded)
