/* test_storage.c - training on storage that refuses calls: read errors that pass and read errors that stay, file systems
 * that exchange or rename no directories, and writes of metrics that fail. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const char *deny; /* CSPEED_DENY (shim/deny.c) */
    const char *arguments;
    int code;
    const char *says;
} row;

/* The shim ends all pauses at once. */
static int run(const char *deny, const char *arguments)
{
    return shell_run("env LD_PRELOAD=" CS_SHIM
                     " CSPEED_DENY='pause pause 0 1000000 %s' ASAN_OPTIONS=verify_asan_link_order=0 " CS_BIN
                     "/train --config config.json --output c %s",
                     deny, arguments);
}

/* `out` has the checkpoints of steps 6 and 12. */
static void prepare(void)
{
    training_prepare();
    training_config("bf16", "", 1);
    training_run(1, "--output out --steps 12");
}

/* A resume never goes back because a file could not be read. */
START_TEST(a_read_error_is_no_damage)
{
    static const row rows[] = {
        { "pread shard- 116 1", "", 0, "continuing at step 12" },        /* ESTALE, once */
        { "pread shard- 116 5", "", 0, "the checkpoint is read again" }, /* until the second reading */
        { "open shard- 13 1", "", 0, "continuing at step 12" },          /* EACCES, once */
        { "open shard- 13 1 pread shard- 0 6 pread shard- 5 4", "", 0, "continuing at step 12" }, /* two failures */
        { "open manifest.json 23 2", "", 0, "continuing at step 12" },                            /* ENFILE, twice */
        { "open latest 5 3", "", 0, "continuing at step 12" },                                    /* EIO */
        { "cached manifest.json 74 100000", "", 0, "continuing at step 12" },            /* EBADMSG from the cache */
        { "pread shard- 5 100000", "", 1, "the checkpoint may be intact, so no older" }, /* EIO, for good */
        { "open shard- 13 100000", "", 1, "this user may not read it" },                 /* another user's */
        { "pread shard- 5 100000", "--set cspeed.checkpoint.verify_on_load=full", 1, "the checkpoint may be intact," },
        { "open latest 5 100000", "", 1, "c/latest: Input/output error; the checkpoint may be intact," },
        { "open config.json 116 1000", "", 1, "config.json cannot be opened: Stale file handle" }, /* no final code */
    };
    prepare();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(shell_run("rm -rf c; cp -a out c"), 0);
        training_expect(rows[i].code, run(rows[i].deny, rows[i].arguments));
        ck_assert_msg(training_says(rows[i].says), "%s", rows[i].deny);
        ck_assert_msg(shell_run("ls -d c/*~damaged") != 0, "%s: a whole checkpoint was set aside", rows[i].deny);
    }
    training_expect(0, run("", ""));
    ck_assert(training_says("continuing at step 12"));
    shell_leave();
}
END_TEST

/* Tokens, or a model's config.json, that cannot be read are not missing, and the former are not made again: the reason is
 * named, and the code restarts the job. What a
 * run that was killed while it made tokens has left is removed by the next one that makes tokens. */
START_TEST(what_cannot_be_read_is_not_missing)
{
#define TEXT "--steps 1 --set cspeed.data.cache=cache --data song.txt"
    static const row rows[] = {
        { "", TEXT, 0, "incomplete tokens of a run that was killed are removed: cache/0123456789abcdef.part" },
        { "open made_from.txt 5 2", TEXT, 0, "where an earlier run saved them" },
        { "open made_from.txt 5 100000", TEXT, 1,
          "made_from.txt: Input/output error; the tokens of song.txt are saved there; set cspeed.data.cache to "
          "another" },
        { "open made_from.txt 13 100000", TEXT, 1, "made_from.txt: Permission denied" },
        { "lstat base/config.json 116 2", TEXT " --model base", 0, "saved c/global_step1" },
        { "lstat base/config.json 116 100000 open base/config.json 116 100000", TEXT " --model base", 1,
          "base/config.json cannot be opened: Stale file handle" },
        { "open train-00000.bin 5 100000", TEXT, 1, "train-00000.bin: cannot open this token shard: Input/output" },
    };
    training_prepare();
    training_config("bf16", "", 1);
    ck_assert_int_eq(shell_run("mkdir -p cache/0123456789abcdef.part cache/fedcba9876543210.part; touch "
                               "cache/0123456789abcdef.lock cache/0123456789abcdef.part/train-00000.bin.tmp"),
                     0);
    shell_write_below("base", "config.json",
                      "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 32, "
                      "\"n_positions\": 32, \"vocab_size\": 256}");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(shell_run("rm -rf c"), 0);
        training_expect(rows[i].code, run(rows[i].deny, rows[i].arguments));
        ck_assert_msg(training_says(rows[i].says), "%s", rows[i].deny);
    }
    shell_leave();
}
END_TEST

/* Runs train on the checkpoints of steps 6 and 12 and sixty copies of the former, when no manifest can be read. */
START_TEST(a_dead_file_system_is_not_waited_for)
{
    prepare();
    ck_assert_int_eq(shell_run("cp -a out c; for i in $(seq 60); do cp -a out/global_step6 c/copy$i; done"), 0);
    training_expect(1, run("open manifest.json 5 1000000", ""));
    ck_assert(training_says("reads have been repeated for 30 s in total: from now on a failed read is not repeated,"));
    ck_assert(training_says("the checkpoint may be intact, so no older one is loaded instead:"));
    shell_leave();
}
END_TEST

/* A folder that is neither loaded nor whole is named: when an older checkpoint is loaded, and when none is left. */
START_TEST(what_is_left_out_is_named)
{
    prepare();
    ck_assert_int_eq(shell_run("cp -a out c; cp -a c/global_step6 c/global_step9; rm c/latest c/global_step12/*/*"), 0);
    training_expect(0, run("open global_step9/manifest.json 13 1000", "--steps 12"));
    ck_assert(training_says("c/global_step9 is left out: c/global_step9/manifest.json: Permission denied"));
    ck_assert(training_says("c/global_step12 is left out: c/global_step12/"));
    ck_assert(training_says("loading c/global_step6 instead, the newest complete checkpoint (step 6)"));
    ck_assert_int_eq(shell_run("rm -rf c; cp -a out c; rm -r c/global_step6/optim; rm c/global_step12/manifest.json"),
                     0);
    training_expect(65, run("", ""));
    ck_assert(training_says("c/global_step6 is left out: c/global_step6/"));
    ck_assert(training_says(
        "c contains no other complete checkpoint: copy one from a backup, or start over (train --fresh)"));
    ck_assert_int_eq(shell_run("rm -rf c; cp -a out c; rm c/latest"), 0);
    training_expect(1, run("open manifest.json 5 1000", "")); /* no code of damage, as nothing is known to be damaged */
    ck_assert(training_says("c contains no complete checkpoint: c/global_step"));
    shell_leave();
}
END_TEST

/* --tag goes back and a later save replaces a checkpoint, and old checkpoints are removed, on every file system. */
START_TEST(a_file_system_may_lack_renames)
{
    static const char nfs[] = "exchange c/ 22 1000", overlay[] = "exchange c/ 18 1000 move c/global 18 1000";
    static const row rows[] = {
        { nfs, "--tag global_step6", 0, "saved c/global_step12" },
        { overlay, "--tag global_step6", 0, "saved c/global_step12" },
        { overlay, "--tag global_step6 --set cspeed.keep_last=1", 0, "saved c/global_step24" },
    };
    prepare();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(shell_run("rm -rf c; cp -a out c"), 0);
        training_expect(rows[i].code, run(rows[i].deny, rows[i].arguments));
        ck_assert_msg(training_says(rows[i].says), "%s", rows[i].deny);
        ck_assert_int_eq(shell_run("ls -A c | grep '^.cspeed'"), 1);
    }
    ck_assert_int_eq(shell_run("ls -d c/global_step6 c/global_step12"), 2); /* both are removed */
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed verify c"), 0);
    shell_leave();
}
END_TEST

/* A damaged checkpoint that cannot be renamed stays in its place, marked, until a save under its tag replaces it. The
 * second run of a row is on an overlayfs whose lower layer has the checkpoints, where this machine can mount one. */
START_TEST(a_damaged_checkpoint_may_stay)
{
    static const char *const damages[] = { "rm c/global_step12/manifest.json",
                                           "printf X | dd of=c/global_step12/weights/shard-00001-of-00001.safetensors "
                                           "bs=1 seek=300 conv=notrunc status=none" };
    prepare();
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        ck_assert_int_eq(shell_run("rm -rf c; cp -a out c; %s", damages[i]), 0);
        training_expect(0, run("move c/global 18 1000 exchange c/ 22 1000", "--steps 7 --set cspeed.save_interval=7"));
        ck_assert(training_says("the damaged checkpoint c/global_step12 is not renamed, because this file system"));
        ck_assert_int_eq(shell_run("test -e c/global_step12/.cspeed-damaged && mv c/latest . && " CS_BIN
                                   "/train --config config.json --output c --steps 8 && ! grep damaged out.txt"),
                         0);
        ck_assert_int_eq(
            shell_run("rm -rf c o; cp -a out c; %s; mkdir o; unshare -m true || exit 77; unshare -m sh -c '"
                      "mount -t tmpfs t o && mkdir o/up o/work && mount -t overlay x -o "
                      "lowerdir=c,upperdir=o/up,workdir=o/work c || exit 77; " CS_BIN "/train --config "
                      "config.json --output c --steps 18 && " CS_BIN "/cspeed verify c/global_step12'",
                      damages[i]) %
                77,
            0);
        if (training_says_nothing_of("is not renamed, because"))
            printf("skipped: this machine mounts no overlayfs for this user\n");
    }
    shell_leave();
}
END_TEST

/* A line of metrics that cannot be written does not end the metrics, and no line is incomplete. */
START_TEST(metrics_go_on)
{
    prepare();
    ck_assert_int_eq(shell_run("rm -rf c"), 0);
    training_expect(0, run("write metrics.jsonl 28 3", "--steps 12"));
    ck_assert(training_says("cannot write the metrics of step 1 to c/metrics.jsonl: No space left on device"));
    ck_assert(training_says("c/metrics.jsonl is written again at step 4"));
    ck_assert(training_says("c/metrics.jsonl lacks the lines of 3 steps"));
    ck_assert_int_eq(training_lines("c/metrics.jsonl"), 9);
    ck_assert_int_eq(shell_run("rm -rf c"), 0);
    training_expect(0, run("short metrics.jsonl 0 1 write metrics.jsonl 28 1", "--steps 12"));
    ck_assert_int_eq(training_lines("c/metrics.jsonl"), 11);
    ck_assert_int_eq(shell_run("grep -c '^{.*}$' c/metrics.jsonl | grep -qx 11"), 0);
    ck_assert_int_eq(shell_run("rm -rf c"), 0);
    training_expect(0, run("stale metrics.jsonl 116 1", "--steps 12")); /* until the file is opened again */
    ck_assert(training_says("Stale file handle; the next step tries again"));
    ck_assert_int_eq(training_lines("c/metrics.jsonl"), 11);
    shell_leave();
}
END_TEST

/* A failure ends neither the CSV files nor the TensorBoard files, and the latter continue in a new file. */
START_TEST(monitors_go_on)
{
    static const struct {
        const char *deny, *says;
        int lines;
    } rows[] = {
        { "fopen mon/ 28 2", "csv_monitor: cannot write in mon/c: No space left on device; the next step tries again",
          12 },
        { "fopen mon/ 28 2", "tensorboard: cannot write in mon/t: No space left on device; the next step tries again",
          12 },
        { "fopen mon/ 28 2", "csv_monitor: values are missing in mon/c, up to 9", 12 },
        { "fflush mon/c 116 1", "csv_monitor: cannot write in mon/c: Stale file handle; the next step tries again",
          13 },
        { "fflush mon/t 116 1", "tensorboard: values are missing in mon/t, up to 9", 13 },
    };
    prepare();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(shell_run("rm -rf c mon"), 0);
        training_expect(0,
                        run(rows[i].deny, "--steps 12 --set csv_monitor.enabled=true --set csv_monitor.output_path=mon "
                                          "--set csv_monitor.job_name=c --set tensorboard.enabled=true "
                                          "--set tensorboard.output_path=mon --set tensorboard.job_name=t"));
        ck_assert_msg(training_says(rows[i].says), "%s", rows[i].deny);
        ck_assert_int_eq(training_lines("mon/c/Train_Samples_lr.csv"), rows[i].lines);
        ck_assert_int_eq(shell_run("test $(ls mon/t | wc -l) = %d", strstr(rows[i].deny, "mon/t") ? 2 : 1), 0);
    }
    shell_leave();
}
END_TEST

/* A log file of a rank that cannot be written is opened again for the next output. */
START_TEST(log_files_go_on)
{
    shell_enter();
    ck_assert_int_eq(shell_run("env LD_PRELOAD=" CS_SHIM " CSPEED_DENY='stale attempt_0/0.out 116 1' "
                               "ASAN_OPTIONS=verify_asan_link_order=0 " CS_BIN
                               "/cspeed --oversubscribe --num_gpus 1 --log_dir logs run sh -c "
                               "'echo first; while ! grep -q written out.txt; do sleep 0.02; done; echo second'"),
                     0);
    ck_assert(shell_says("/attempt_0/0.out cannot be written: Stale file handle; the job continues, and tries again"));
    ck_assert(shell_says("/attempt_0/0.out can be written again; 6 bytes are missing in it"));
    ck_assert_int_eq(shell_run("grep -qx second logs/attempt_0/0.out"), 0);
    shell_leave();
}
END_TEST

/* The name of the output folder is flushed too, in its parent and in the parents that are made. */
START_TEST(the_output_folder_is_flushed)
{
    training_prepare();
    training_config("bf16", "", 1);
    ck_assert_int_eq(shell_run("mkdir above"), 0);
    training_expect(0, shell_run("env LD_PRELOAD=" CS_SHIM " CSPEED_DENY='fsync /above 5 2' "
                                 "ASAN_OPTIONS=verify_asan_link_order=0 " CS_BIN
                                 "/train --config config.json --steps 1 --output above/new/out"));
    ck_assert(training_says("flushing the folder of above/new to the disk: Input/output error"));
    ck_assert(training_says("flushing the folder of above/new/out to the disk: Input/output error"));
    shell_leave();
}
END_TEST

/* Runs a long training, changes its data with `command` when it has made a step, and returns its exit code. */
static int train_and_change(const char *command)
{
    ck_assert_int_eq(shell_run("rm -rf c"), 0);
    pid_t child = shell_start("%s/train --config config.json --steps 1000000 --output c --set cspeed.eval_interval=0 "
                              "--set cspeed.save_interval=0",
                              CS_BIN);
    shell_await("test -e c/metrics.jsonl");
    ck_assert_int_eq(system(command), 0);
    return shell_wait(child);
}

/* Data that change while a training reads them are named. */
START_TEST(changed_data_are_named)
{
    training_prepare();
    training_config("bf16", "", 1);
    ck_assert_int_eq(shell_run("cp -r data kept"), 0);
    training_expect(65, train_and_change("for f in data/train-*.bin; do truncate -s 4096 $f; done"));
    ck_assert(training_says(".bin was truncated from "));
    ck_assert_int_eq(shell_run("rm -rf data; cp -r kept data"), 0);
    training_expect(65, train_and_change("for f in data/train-*.bin; do tr '\\000' '\\377' <$f >new; "
                                         "dd if=new of=$f conv=notrunc status=none; done"));
    ck_assert(training_says(".bin was modified while the training reads it"));
    ck_assert(training_says("the file was changed while the training reads it"));
    shell_leave();
}
END_TEST

/* A limit of the address space is reported as such; oneDNN without memory would end the run by SIGSEGV. AddressSanitizer
 * needs a large address space for itself. */
START_TEST(little_address_space_is_reported)
{
#ifndef __SANITIZE_ADDRESS__
    training_prepare();
    training_config("bf16", "", 1);
    ck_assert_int_eq(shell_run("for v in $(seq 230000 10000 330000); do (ulimit -v $v; " CS_BIN "/train --config "
                               "config.json --steps 1 --output o$v); test $? -ne 139 || exit 9; done"),
                     0);
    ck_assert(training_says("no memory"));
    shell_leave();
#endif
}
END_TEST

SUITE_MAIN("storage", what_cannot_be_read_is_not_missing, a_read_error_is_no_damage,
           a_dead_file_system_is_not_waited_for, what_is_left_out_is_named, a_file_system_may_lack_renames,
           a_damaged_checkpoint_may_stay, metrics_go_on, monitors_go_on, log_files_go_on, the_output_folder_is_flushed,
           changed_data_are_named, little_address_space_is_reported)
