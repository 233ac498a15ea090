/* test_owner.c - only one run at a time may write to an output folder: which of two runs may, and what happens to the
 * owner file of a killed run. */
#include "shell.h"
#include "suite.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20, TAKEN = 69 };

#define RECORD "out/.cspeed-owner"
#define LONG "--steps 1000000 --save_interval 0"

static const char config_text[] =
    "{ \"train_micro_batch_size_per_gpu\": 1, \"optimizer\": { \"type\": \"SGD\", \"params\": { \"lr\": 1e-2 } },\n"
    "  \"cspeed\": { \"output\": \"out\", \"threads\": 1, \"eval_interval\": 0,\n"
    "    \"data\": { \"train\": \"data/train-*.bin\", \"seq_len\": 16 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 8, \"n_positions\": 16,\n"
    "               \"vocab_size\": 256 } } }\n";

static void enter(void)
{
    shell_enter();
    shell_write("config.json", config_text);
    ck_assert_int_eq(shell_run("seq 200 >song.txt && '%s/pack' --valid 0 --output data song.txt", CS_BIN), 0);
}

static void pause_ms(long milliseconds)
{
    nanosleep(&(struct timespec){ milliseconds / 1000, milliseconds % 1000 * 1000000 }, NULL);
}

/* Starts a run whose output goes to NAME.txt. */
static pid_t start(const char *name, const char *arguments)
{
    return shell_start("'%s/train' --config config.json %s >%s.txt 2>&1", CS_BIN, arguments, name);
}

static int train(const char *environment, const char *arguments)
{
    return shell_run("env %s '%s/train' --config config.json %s", environment, CS_BIN, arguments);
}

static void check_says(const char *file, const char *words)
{
    char *text = shell_read(file, NULL);
    ck_assert_msg(strstr(text, words) != NULL, "%s does not say \"%s\":\n%s", file, words, text);
    free(text);
}

static void kill_run(pid_t run)
{
    ck_assert_int_eq(kill(run, SIGKILL), 0);
    ck_assert_int_eq(shell_wait(run), 128 + SIGKILL);
}

/* Waits until one of the two runs ends. Checks that it was refused because of the other run, and that the other run
 * continues. Returns the index of the refused run. */
static int refused_of(const pid_t *run)
{
    int status = 0, ended = -1;
    for (int turns = 0; ended < 0; turns++) {
        ck_assert_int_lt(turns, SUITE_PATIENCE * 100);
        for (int i = 0; i < 2 && ended < 0; i++)
            ended = waitpid(run[i], &status, WNOHANG) == run[i] ? i : -1;
        pause_ms(10);
    }
    char file[16], words[64];
    snprintf(file, sizeof file, "%d.txt", ended);
    snprintf(words, sizeof words, "another training writes the output folder out: process %d on ", (int)run[1 - ended]);
    check_says(file, words);
    ck_assert_int_eq(WEXITSTATUS(status), TAKEN);
    return ended;
}

/* The two runs start at the same time, or 50 ms apart. Each round begins with the files that the killed run of the
 * previous round left. */
START_TEST(one_of_two_wins)
{
    enter();
    for (int round = 0; round < ROUNDS; round++) {
        pid_t run[2];
        run[0] = start("0", LONG);
        if (round % 2)
            pause_ms(50);
        run[1] = start("1", LONG);
        int winner = 1 - refused_of(run);
        shell_await(winner ? "grep -q 'step ' 1.txt" : "grep -q 'step ' 0.txt");
        ck_assert_int_eq(waitpid(run[winner], NULL, WNOHANG), 0);
        kill_run(run[winner]);
    }
    shell_leave();
}
END_TEST

/* This test holds a lock on the owner file, and both runs wait for the lock. When the test releases the lock, the runs
 * take it one after the other. */
START_TEST(decisions_are_serialized)
{
    enter();
    ck_assert_int_eq(shell_run("mkdir out"), 0);
    int file = open(RECORD, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    pid_t run[2] = { 0 };
    ck_assert_int_eq(flock(file, LOCK_EX), 0);
    for (int i = 0; i < 2; i++)
        run[i] = start(i ? "1" : "0", LONG);
    pause_ms(1500);
    ck_assert_int_eq(lseek(file, 0, SEEK_END), 0);
    close(file);
    kill_run(run[1 - refused_of(run)]);
    shell_leave();
}
END_TEST

/* The owner is stopped (SIGSTOP), so a change in the folder could only be made by the refused runs. */
START_TEST(who_is_refused_touches_nothing)
{
    static const char *const others[] = { "", "--fresh", "--load out", "--output out/" };
    enter();
    pid_t holder = start("holder", "--steps 1000000 --save_interval 20");
    shell_await("test -s out/latest && test -s out/metrics.jsonl");
    char words[64];
    snprintf(words, sizeof words, "or stop it with `kill %d`;", (int)holder);
    ck_assert_int_eq(kill(holder, SIGSTOP), 0);
    ck_assert_int_eq(shell_run("find out -printf '%%p %%i %%s %%T@\\n' | sort >before"), 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ck_assert_msg(train("", others[i]) == TAKEN, "train %s was not refused", others[i]);
        check_says("out.txt", "--force_output this training takes the folder,");
        check_says("out.txt", words);
    }
    ck_assert_int_eq(shell_run("! ls -d out.[0-9]* 2>/dev/null && find out -printf '%%p %%i %%s %%T@\\n' | sort | "
                               "diff before -"),
                     0);
    ck_assert_int_eq(shell_run("sed -i 's/^job .*/job j7/' " RECORD), 0);
    ck_assert_int_eq(train("", ""), TAKEN);
    check_says("out.txt", "or stop it with `cspeed stop j7` on this host, or the host where it was started;");
    kill_run(holder);
    ck_assert_int_eq(train("", "--fresh --steps 1"), 0);
    ck_assert_int_eq(shell_run("test -s out.1/latest && ! test -e out.1/.cspeed-owner && ! test -e " RECORD), 0);
    shell_leave();
}
END_TEST

/* While a run is suspended (SIGSTOP) between two saves, another run takes its output folder. After SIGCONT the first
 * run ends at its next save, and nothing of that save remains. */
static void loses_to(const char *taker, bool ends, const char *words)
{
    enter();
    pid_t holder = start("holder", "--steps 1000000 --save_interval 3000"), other = 0;
    shell_await("test -s out/latest");
    ck_assert_int_eq(kill(holder, SIGSTOP), 0);
    other = start("taker", taker);
    if (ends)
        ck_assert_int_eq(shell_wait(other), 0);
    else
        shell_await("grep -q 'step ' taker.txt");
    check_says("taker.txt", "--force_output: out is taken from process ");
    ck_assert_int_eq(shell_run("ls -A out >before"), 0);
    ck_assert_int_eq(kill(holder, SIGCONT), 0);
    ck_assert_int_eq(shell_wait(holder), TAKEN);
    check_says("holder.txt", words);
    ck_assert_int_eq(shell_run("ls -A out | diff before -"), 0);
    if (!ends)
        kill_run(other);
    shell_leave();
}

START_TEST(a_taken_folder_is_left_alone)
{
    loses_to("--force_output " LONG, false, "another training has taken the output folder ");
    loses_to("--force_output --fresh --steps 2", true, ".cspeed-owner is gone");
}
END_TEST

#define ELSEWHERE "s/^boot .*/boot 0/; s/^host .*/host far/; "

/* Each row describes an owner file and a run that finds this file. The sed commands `change` make the file from a real
 * owner file; in `change`, PID and BEGAN stand for the process id and the start time of this test. The run has the
 * variables `environment`, and must end with the exit code `code`: TAKEN if it is refused, otherwise 0. */
static const struct {
    const char *change, *environment;
    int code;
    const char *words; /* words of the output; NULL: not checked */
} records[] = {
    { "s/^began .*/began 1/", "", 0, NULL }, /* the process was killed */
    { "s/^process .*/process PID/; s/^began .*/began BEGAN/", "", TAKEN, "process PID on " },
    /* the process id now belongs to another process */
    { "s/^process .*/process PID/; s/^began .*/began 1/", "", 0, NULL },
    { "s/^boot .*/boot 0/; s/^process .*/process PID/; s/^began .*/began BEGAN/", "CSPEED_JOB_ID=j CSPEED_ATTEMPT=1",
      TAKEN, "process PID on " },
    { ELSEWHERE "s/^job .*/job j/", "CSPEED_JOB_ID=j CSPEED_ATTEMPT=1", 0, NULL },
    { ELSEWHERE "s/^job .*/job j/; s/^attempt .*/attempt 1/", "CSPEED_JOB_ID=j CSPEED_ATTEMPT=1", TAKEN,
      "on far, of job j, attempt 1. Wait until it has ended, or stop it with `cspeed stop j` on the host where it "
      "was started;" },
    { ELSEWHERE "s/^job .*/job i/", "CSPEED_JOB_ID=j CSPEED_ATTEMPT=1", TAKEN, "on far, of job i, attempt 0." },
    { ELSEWHERE, "", TAKEN, "on far. Wait until it has ended, or stop it there;" },
    /* the process is in another container */
    { "s/^process_space .*/process_space pid:[1]/", "", TAKEN, "another training writes the output folder" },
    { "s/^job /jab /", "", 0, NULL },
    { "d", "", 0, NULL },
};

static void fill_in(char *to, size_t capacity, const char *from)
{
    char stat[1024] = "";
    FILE *file = fopen("/proc/self/stat", "r");
    unsigned long long began = 0;
    ck_assert_ptr_nonnull(file);
    ck_assert(fgets(stat, sizeof stat, file) != NULL);
    fclose(file);
    char *at = strrchr(stat, ')');
    for (int space = 0; space < 20; space++)
        at = strchr(at + 1, ' ');
    began = strtoull(at, NULL, 10);
    to[0] = 0;
    for (size_t used = 0; *from; used = strlen(to)) {
        bool pid = strncmp(from, "PID", 3) == 0, start_of = strncmp(from, "BEGAN", 5) == 0;
        if (pid)
            snprintf(to + used, capacity - used, "%d", (int)getpid());
        else if (start_of)
            snprintf(to + used, capacity - used, "%llu", began);
        else
            snprintf(to + used, capacity - used, "%c", *from);
        from += pid ? 3 : start_of ? 5 : 1;
    }
}

/* Another process touches the owner file all the time, as a running owner does. */
START_TEST(a_record_tells_whether_its_run_lives)
{
    enter();
    pid_t run = start("first", LONG);
    shell_await("grep -q 'step ' first.txt");
    kill_run(run);
    ck_assert_int_eq(shell_run("cp " RECORD " record"), 0);
    pid_t toucher = shell_start("sh -c 'while sleep 0.3; do touch -c " RECORD "; done'");
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        char change[512], words[128];
        fill_in(change, sizeof change, records[i].change);
        ck_assert_int_eq(shell_run("sed '%s' record >" RECORD, change), 0);
        int code = train(records[i].environment, "--steps 1");
        ck_assert_msg(code == records[i].code, "%s: exit code %d", change, code);
        if (records[i].words) {
            fill_in(words, sizeof words, records[i].words);
            check_says("out.txt", words);
        }
        ck_assert_int_eq(access(RECORD, F_OK) == 0, code != 0);
    }
    ck_assert_int_eq(kill(toucher, SIGTERM), 0);
    shell_wait(toucher);
    shell_leave();
}
END_TEST

/* Each wait takes one minute, so this test runs only if CSPEED_OWNER_WAIT is set. */
START_TEST(another_hosts_run_is_waited_for)
{
    if (!getenv("CSPEED_OWNER_WAIT"))
        return;
    enter();
    pid_t run = start("first", LONG);
    shell_await("grep -q 'step ' first.txt");
    kill_run(run);
    ck_assert_int_eq(shell_run("sed -i '" ELSEWHERE "' " RECORD), 0);
    time_t began = time(NULL);
    ck_assert_int_eq(train("", "--steps 1"), 0);
    ck_assert_int_ge(time(NULL) - began, 50);
    check_says("out.txt", "on far; checking for 60 s whether that training is still running");
    run = start("second", LONG);
    shell_await("grep -q 'step ' second.txt");
    ck_assert_int_eq(shell_run("touch before && sleep 15 && test " RECORD " -nt before"), 0);
    kill_run(run);
    shell_leave();
}
END_TEST

SUITE_MAIN("owner", one_of_two_wins, decisions_are_serialized, who_is_refused_touches_nothing,
           a_taken_folder_is_left_alone, a_record_tells_whether_its_run_lives, another_hosts_run_is_waited_for)
