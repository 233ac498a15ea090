/* test_signals.c - a rank that gets signals: in every mode, without a launcher, under mpirun, again and again. */
#include "jobs.h"
#include "ports.h"
#include "shell.h"
#include "suite.h"

#include "base/asked.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const int handled[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 };
enum { HANDLED = sizeof handled / sizeof *handled, LISTENS = 64 };

static const char config[] =
    "{ \"train_batch_size\": 8, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 2e-3 } },\n"
    "  \"cspeed\": { \"steps\": 1000000, \"save_interval\": 0, \"eval_interval\": 0,\n"
    "    \"data\": { \"train\": \"text.txt\", \"seq_len\": 32 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 64, \"n_positions\": 32, "
    "\"vocab_size\": 256 } } }\n";

static void begin(void)
{
    jobs_begin();
    shell_write("config.json", config);
    ck_assert_int_eq(shell_run("seq 1000 >text.txt"), 0);
}

/* Checks that the newest checkpoint is that of the last step in metrics.jsonl. */
static void check_last_step_is_saved(void)
{
    ck_assert_int_eq(shell_run("step=$(tail -n 1 run/metrics.jsonl | sed 's/^{\"step\": \\([0-9]*\\).*/\\1/') && "
                               "test \"$(cat run/latest)\" = global_step$step && test -d run/global_step$step"),
                     0);
}

/* ---- saving ---- */

START_TEST(a_signal_to_any_rank_saves)
{
    static const struct {
        const char *ranks, *setting;
    } rows[] = { { "1", "zero_optimization.stage=0" }, { "2", "zero_optimization.stage=3" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin();
        job here = START("--oversubscribe", "--num_gpus", rows[i].ranks, "train", "--config", "config.json", "--output",
                         "run", "--set", rows[i].setting);
        jobs_await_words("run/metrics.jsonl", "\"step\": 2,");
        pid_t last = shell_find_rank(strrchr(jobs_folder, '.'), atoi(rows[i].ranks) - 1, "train");
        ck_assert_int_gt(last, 0);
        kill(last, SIGUSR1);
        jobs_await("run/latest");
        char *first = jobs_slurp("run/latest");
        kill(last, SIGTERM);
        jobs_finish(&here);
        jobs_check_code(&here, 143);
        check_last_step_is_saved();
        char *second = jobs_slurp("run/latest");
        ck_assert_str_ne(first, second); /* the training has gone on after the first checkpoint */
        ck_assert_ptr_null(strstr(here.out, "a signal ends the training")); /* the launcher reports it */
        jobs_check_has(here.err, "the same command continues from the checkpoint of step ");
        free(first);
        free(second);
        jobs_end(&here);
    }
}
END_TEST

/* Ranks that mpirun started. One of them gets the signal; the other ends because its peer does. */
START_TEST(ranks_of_mpirun_save)
{
    pid_t rank[2];
    begin();
    shell_write("rank.sh", "export OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_LOCAL_RANK=$1 OMPI_COMM_WORLD_SIZE=2 \\\n"
                           "    OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$2\n"
                           "exec \"$3\"/train --config config.json --output run >said.$1 2>&1\n");
    int port = ports_free("127.0.0.1");
    for (int i = 0; i < 2; i++)
        rank[i] = shell_start("sh rank.sh %d %d '%s'", i, port, CS_BIN);
    jobs_await_words("run/metrics.jsonl", "\"step\": 2,");
    kill(rank[1], SIGUSR2);
    jobs_await_words("said.0", "saved run/global_step");
    kill(rank[1], SIGTERM);
    ck_assert_int_eq(shell_wait(rank[1]), 143);
    ck_assert_int_eq(shell_wait(rank[0]), 75);
    check_last_step_is_saved();
    char *said = jobs_slurp("said.0");
    jobs_check_has(said, "; the same command continues from run/global_step");
    jobs_check_has(said, "a signal has asked another rank to end; this rank ends too");
    free(said);
    jobs_leave();
}
END_TEST

/* ---- the last step ---- */

/* Rank 1 gets the signal while it saves the last step but one, or the last one. Both ranks end before the export, and the
 * same command writes it. */
START_TEST(no_rank_exports_after_a_signal)
{
    pid_t rank[2];
    begin();
    shell_write(
        "rank.sh",
        "export OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_LOCAL_RANK=$1 OMPI_COMM_WORLD_SIZE=2 \\\n"
        "    OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$2 ASAN_OPTIONS=verify_asan_link_order=0\n"
        "test $1 = 0 || export LD_PRELOAD=" CS_SHIM " CSPEED_DENY=\"raise global_step$4 15 1\"\n"
        "exec \"$3\"/train --config config.json --output run$4 --steps 4 --set cspeed.save_interval=1 \\\n"
        "    --set cspeed.export=exported >said.$1 2>&1\n");
    for (int step = 3; step <= 4; step++) {
        int port = ports_free("127.0.0.1");
        for (int i = 0; i < 2; i++)
            rank[i] = shell_start("sh rank.sh %d %d '%s' %d", i, port, CS_BIN, step);
        ck_assert_int_eq(shell_wait(rank[1]), 143);
        ck_assert_int_eq(shell_wait(rank[0]), 75);
        char *said = jobs_slurp("said.0");
        jobs_check_has(said, "a signal ends the training before exported is written: the same command writes it");
        free(said);
        ck_assert_int_eq(shell_run("test -d run%d/global_step4 && test ! -e exported", step), 0);
    }
    ck_assert_int_eq(shell_run("'%s/train' --config config.json --output run4 --steps 4 --set cspeed.export=exported",
                               CS_BIN),
                     0);
    ck_assert_int_eq(shell_run("test -e exported/model.safetensors"), 0);
    jobs_leave();
}
END_TEST

/* A program that has nothing to save ends at once by the signal. */
START_TEST(other_programs_end_at_once)
{
    static const char *const programs[] = { "eval run --data text.txt", "generate run --prompt 1",
                                            "pack --output packed text.txt" };
    static const char *const files[] = { "weights/shard-", "weights/shard-", "text.txt" };
    static const int signals[] = { SIGINT, SIGHUP, SIGTERM };
    begin();
    ck_assert_int_eq(shell_run("'%s/train' --config config.json --output run --steps 2", CS_BIN), 0);
    for (int i = 0; i < 9; i++) {
        int code = shell_run("exec env LD_PRELOAD=" CS_SHIM " ASAN_OPTIONS=verify_asan_link_order=0 "
                             "CSPEED_DENY='raise %s %d 1' '%s'/%s",
                             files[i / 3], signals[i % 3], CS_BIN, programs[i / 3]);
        ck_assert_msg(code == 128 + signals[i % 3], "%s: exit code %d", programs[i / 3], code);
    }
    ck_assert_int_eq(shell_run("ls packed/*.bin"), 2); /* no file of the pack is there */
    jobs_leave();
}
END_TEST

/* ---- many signals ---- */

/* Checks that only the main thread may get the signals that are handled. Returns the number of the other threads. (The
 * main thread blocks signals while it starts a thread.) */
static int check_threads(pid_t process)
{
    char path[320];
    int others = 0;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *folder = opendir(path);
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        int thread = atoi(entry->d_name);
        snprintf(path, sizeof path, "/proc/%d/task/%s/status", process, entry->d_name);
        char *status = thread > 0 && thread != process ? jobs_slurp(path) : NULL;
        const char *mask = status ? strstr(status, "SigBlk:") : NULL; /* no mask: the thread has ended */
        for (int i = 0; mask && i < HANDLED; i++)
            ck_assert_msg(strtoull(mask + strlen("SigBlk:"), NULL, 16) >> (handled[i] - 1) & 1,
                          "thread %d of process %d does not block signal %d", thread, process, handled[i]);
        others += mask != NULL;
        free(status);
    }
    closedir(folder);
    return others;
}

/* Hundreds of signals arrive while the products of oneDNN run, which use the stack pointer for other purposes. */
START_TEST(a_storm_of_signals_changes_nothing)
{
    int sent = 0, status;
    begin();
    shell_write("train.sh",
                "export OMP_NUM_THREADS=2\nexec \"$1\"/train --config config.json --output $2 --steps 12\n");
    ck_assert_int_eq(shell_run("sh train.sh '%s' quiet", CS_BIN), 0);
    pid_t child = shell_start("sh train.sh '%s' run", CS_BIN);
    jobs_await_words("run/metrics.jsonl", "\"step\": 1,");
    int others = check_threads(child);
    for (; waitpid(child, &status, WNOHANG) == 0; sent++) {
        kill(child, SIGUSR1);
        kill(child, SIGUSR2);
    }
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x after %d signals", status, 2 * sent);
    ck_assert_int_gt(sent, 100);
    ck_assert_int_gt(others, 0);
    shell_expect(0, "48 of 48 tensors are the same", "diff quiet run"); /* values of parameters and optimizer */
    jobs_leave();
}
END_TEST

/* ---- the same signal again ---- */

/* Starts a process that listens, and that writes to its standard output, a pipe, what it is asked for. `agent` is the
 * process that CSPEED_AGENT names: the launcher. */
static pid_t start_listener(pid_t agent, int *asked)
{
    char text[32];
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < HANDLED; i++)
            signal(handled[i], SIG_DFL); /* Check has handlers */
        snprintf(text, sizeof text, "%d:1:x", agent);
        setenv("CSPEED_AGENT", text, 1);
        ce_asked_listen();
        for (char bits = LISTENS;; bits = (char)ce_asked_take()) {
            if (bits && write(ends[1], &bits, 1) != 1)
                _exit(1);
            jobs_pause();
        }
    }
    close(ends[1]);
    *asked = ends[0];
    return child;
}

static void await_asked(int asked, int wanted)
{
    char bits = 0;
    ck_assert_int_eq(read(asked, &bits, 1), 1);
    ck_assert_int_eq(bits, wanted);
}

START_TEST(a_second_signal_ends_a_rank_at_once)
{
    enum { ENDS = 3, ROWS = 2 * ENDS };
    pid_t child[ROWS];
    int asked[ROWS], status;
    for (int i = 0; i < ROWS; i++) { /* the first three rows: the signals come from the launcher */
        child[i] = start_listener(i < ENDS ? getpid() : getppid(), &asked[i]);
        await_asked(asked[i], LISTENS);
        kill(child[i], handled[i % ENDS]);
        await_asked(asked[i], CE_ASKED_END);
    }
    sleep(1); /* within a second, the same signal would be the same request */
    for (int i = 0; i < ROWS; i++)
        kill(child[i], handled[i % ENDS]);
    for (int i = 0; i < ENDS; i++) {
        kill(child[i], SIGUSR1);
        await_asked(asked[i], CE_ASKED_SAVE);
        kill(child[i], SIGKILL);
    }
    for (int i = 0; i < ROWS; i++) {
        ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
        ck_assert_int_eq(WTERMSIG(status), i < ENDS ? SIGKILL : handled[i % ENDS]);
        close(asked[i]);
    }
}
END_TEST

SUITE_MAIN("signals", a_second_signal_ends_a_rank_at_once, a_signal_to_any_rank_saves, ranks_of_mpirun_save,
           no_rank_exports_after_a_signal, other_programs_end_at_once, a_storm_of_signals_changes_nothing)
