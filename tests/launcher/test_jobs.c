/* test_jobs.c - the commands for running jobs: ps, status, logs, stop, clean; and report. */
#include "suite.h"

#include "node/leftover.h"
#include "node/proc.h"
#include "shell.h"

#include "json/json.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *text; /* the output of the last command */

static void check_has(const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in:\n%s", part, text);
}

/* Runs a command; its output goes to a file and into `text`. */
static void command(int code, const char *line)
{
    int got = shell_run("%s/cspeed %s", CS_BIN, line);
    free(text);
    text = shell_read("out.txt", NULL);
    ck_assert_msg(got == code, "cspeed %s: exit code %d, not %d: %s", line, got, code, text);
}

static void enter(void)
{
    char here[4096];
    shell_enter();
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    setenv("XDG_RUNTIME_DIR", here, 1);
}

static pid_t start_job(const char *id, const char *script)
{
    pid_t job = fork();
    if (job == 0) {
        int file = open("job.txt", O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(file, 1);
        dup2(file, 2);
        setpgid(0, 0);
        execl(CS_BIN "/cspeed", "cspeed", "--job_id", id, "--oversubscribe", "--num_gpus", "2", "--log_dir", "logs",
              "/bin/sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    return job;
}

static const char sleeper[] = "echo out $RANK; echo err $RANK >&2; printf unfinished; touch up.$RANK; sleep 1000";

START_TEST(a_job_that_runs)
{
    enter();
    command(0, "ps");
    check_has("no job runs");
    pid_t job = start_job("alpha", sleeper);
    shell_await("test -e up.0");
    shell_await("test -e up.1");
    command(0, "ps");
    check_has("alpha");
    check_has("running");
    check_has("sh -c");
    command(0, "status al");
    check_has("job alpha (pid ");
    check_has("running, attempt 0, 2 ranks");
    check_has("     1  ");
    command(0, "status alpha --json");
    json_t *state = json_loads(text, 0, NULL);
    ck_assert_msg(json_array_size(json_object_get(state, "ranks")) == 2, "%s", text);
    json_decref(state);
    command(66, "status beta");
    check_has("these do: alpha");
    command(0, "logs alpha --rank 1");
    check_has("out 1\n");
    ck_assert_ptr_null(strstr(text, "out 0"));
    command(0, "stop alp");
    check_has("job alpha has ended");
    ck_assert_int_eq(shell_wait(job), 143);
    command(0, "ps");
    check_has("no job runs");
    command(66, "stop alpha");
    command(0, "status ./logs");
    check_has(
        "job alpha: stopped (SIGTERM), exit code 143, 2 ranks, 0 restarts, step -\nreason   ended by SIGTERM\nended    20");
    check_has(", after 0:");
    command(0, "status ./logs --json");
    check_has("\"signal\": \"SIGTERM\"");
    shell_leave();
}
END_TEST

START_TEST(stop_now_does_not_wait_for_the_grace)
{
    enter();
    pid_t job = start_job("deaf", "trap '' TERM; touch up.$RANK; while :; do sleep 0.1; done");
    shell_await("test -e up.0");
    shell_await("test -e up.1");
    /* `stop --now` does not wait for the grace period of 30 s, which is longer than this test's time limit */
    command(0, "stop deaf --now");
    ck_assert_int_eq(shell_wait(job), 130);
    shell_leave();
}
END_TEST

START_TEST(two_jobs_of_one_id)
{
    enter();
    pid_t first = start_job("twin", sleeper);
    shell_await("test -e up.0");
    ck_assert_int_eq(shell_wait(start_job("twin", "true")), 64);
    ck_assert_int_eq(shell_wait(start_job("other", "true")), 0);
    kill(first, SIGTERM);
    ck_assert_int_eq(shell_wait(first), 143);
    shell_leave();
}
END_TEST

START_TEST(logs_are_followed_to_the_end)
{
    enter();
    pid_t job = start_job("grow", "echo one $RANK; touch up.$RANK; while ! test -e go; do sleep 0.01; done; "
                                  "echo two $RANK; printf 'last %s' $RANK");
    shell_await("test -e up.0");
    shell_await("test -e up.1");
    pid_t reader = shell_start("%s/cspeed logs -f gro", CS_BIN);
    usleep(300000);
    shell_write("go", "");
    ck_assert_int_eq(shell_wait(job), 0);
    ck_assert_int_eq(shell_wait(reader), 0);
    free(text);
    text = shell_read("out.txt", NULL);
    for (int rank = 0; rank < 2; rank++) {
        char wanted[3][32];
        for (int i = 0; i < 3; i++) {
            snprintf(wanted[i], sizeof wanted[i], "%d| %s %d\n", rank, (const char *[]){ "one", "two", "last" }[i],
                     rank);
            check_has(wanted[i]);
        }
        ck_assert(strstr(text, wanted[0]) < strstr(text, wanted[1]));
    }
    shell_leave();
}
END_TEST

START_TEST(logs_of_jobs_that_have_ended)
{
    static const struct {
        const char *arguments;
        int code;
        const char *says;
    } cases[] = {
        { "logs ab12", 0, "0| new\n1| newer\n" },
        { "logs ab12_run", 0, "0| new\n1| newer\n" }, /* an id that contains a '_' */
        { "logs latest", 0, "0| new\n1| newer\n" },
        { "logs ./cspeed_runs/latest --rank=1", 0, "newer\n" },
        { "logs -f latest --rank 0", 0, "oldest\nold\nnew\n" },
        { "logs latest --rank 7", 66, "rank 7 has no log file" },
        { "logs nosuch", 66, "./cspeed_runs has no logs of it" },
        { "logs ./elsewhere", 66, "no log files" },
        { "logs", 64, "which JOB" },
        { "logs a b", 64, "unknown argument b" },
        { "logs a --rank x", 64, "--rank" },
    };
    enter();
    ck_assert_int_eq(shell_run("mkdir -p cspeed_runs/2026-01-01_000000_ab12_run_1/attempt_0 && cd cspeed_runs && "
                               "ln -s *_run_1 latest && mkdir latest/attempt_1 && cd latest/attempt_1 && "
                               "echo oldest >0.out.2; echo old >0.out.1; echo new >0.out; printf newer >1.err; "
                               "echo stale >../attempt_0/0.out; touch 0.core x.out"),
                     0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        command(cases[i].code, cases[i].arguments);
        if (cases[i].code == 0 && cases[i].says[1] == '|') {
            ck_assert_str_eq(text, "0| oldest\n0| old\n0| new\n1| newer\n");
        } else {
            check_has(cases[i].says);
            ck_assert_ptr_null(strstr(text, "stale"));
        }
    }
    shell_leave();
}
END_TEST

/* `ps --all` and `status` read how a job has ended from its folder in cspeed_runs. */
START_TEST(jobs_that_have_ended)
{
    static const struct {
        const char *line;
        int code;
        const char *row, *status;
    } cases[] = {
        { "--job_id fine /bin/true", 0, "fine         done        0  20", "job fine: done, exit code 0, 1 rank," },
        { "--job_id bad /bin/sh -c 'exit 7'", 7, "bad          failed      7  20", "\nfailed   rank 0 on localhost\n" },
        { "--job_id slow --timeout 0.1 /bin/sleep 1000", 124, "slow         timeout   124  20",
          "job slow: timeout, exit code 124," },
        { "--job_id none ./nosuch", 127, "none         failed    127  20", "nosuch" },
    };
    char line[256];
    enter();
    command(0, "ps --all");
    check_has("no job runs\nno job has ended in ./cspeed_runs\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line, "-q --num_gpus 1 %s", cases[i].line);
        command(cases[i].code, line);
        command(0, "status latest");
        check_has(cases[i].status);
    }
    ck_assert_int_eq(shell_run("mkdir -p cspeed_runs/2026-01-01_000000_gone/attempt_0"), 0);
    command(0, "ps -a");
    check_has(
        "ENDED JOB    STATE    CODE  ENDED                 DURATION     STEP  FOLDER\n"
        "gone         killed      -  -                            -        -  cspeed_runs/2026-01-01_000000_gone\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_has(cases[i].row);
    command(66, "status gone");
    check_has("its launcher was killed");
    pid_t job = shell_start("%s/cspeed -q --num_gpus 1 --job_id runs /bin/sh -c "
                            "'trap \"echo late; exit\" TERM; touch up; while :; do sleep 0.01; done'",
                            CS_BIN);
    shell_await("test -e up");
    ck_assert_int_eq(shell_run("%s/cspeed -q --job_id runs /bin/true", CS_BIN), 64);
    command(0, "status latest");
    check_has("job runs (pid ");
    command(0, "ps --all");
    ck_assert_ptr_null(strstr(strstr(text, "ENDED JOB"), "\nruns "));
    pid_t reader = shell_start("%s/cspeed logs -f latest >late.txt", CS_BIN);
    usleep(300000);
    command(0, "stop runs");
    ck_assert_int_eq(shell_wait(job), 143);
    ck_assert_int_eq(shell_wait(reader), 0);
    ck_assert_int_eq(shell_run("grep -q '0| late' late.txt"), 0);
    ck_assert_int_eq(shell_run("test $(ls -d cspeed_runs/*_runs | wc -l) = 1"), 0);
    shell_leave();
}
END_TEST

/* The command of --on_end runs once for every kind of end, and does not change the exit code. */
START_TEST(a_command_runs_when_a_job_has_ended)
{
    static const struct {
        const char *flags, *program, *ended;
        int code;
    } cases[] = {
        { "", "/bin/true", "j 0 ", 0 },
        { "--max_restarts 1 --restart_delay 0", "/bin/sh -c 'exit 1'", "j 1 a failure", 1 },
        { "--timeout 0.1", "/bin/sleep 1000", "j 124 the time of --timeout was over", 124 },
        { "--hosts nosuchhost.invalid", "/bin/true", "j 68 nosuchhost.invalid", 68 },
        { "", "./nosuch", "j 127 ", 127 },
    };
    enter();
    setenv("CSPEED_ON_END",
           "echo \"$CSPEED_JOB $CSPEED_EXIT_CODE $CSPEED_WHY\" >>ended; test -s \"$CSPEED_RESULT\" && "
           "test -z \"$CSPEED_ON_END\" && exit 9",
           1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "-q --job_id j %s run %s", cases[i].flags, cases[i].program);
        command(cases[i].code, line);
        check_has("cspeed: warning: the command of --on_end ended with exit code 9; that of the job stays ");
        char *ended = shell_read("ended", NULL);
        ck_assert_msg(strncmp(ended, cases[i].ended, strlen(cases[i].ended)) == 0, "%s", ended);
        ck_assert_int_eq((int)strcspn(ended, "\n") + 1, (int)strlen(ended));
        free(ended);
        unlink("ended");
    }
    unsetenv("CSPEED_ON_END");
    shell_leave();
}
END_TEST

/* A signal ends the job; a second one ends the command, with all of its processes. */
START_TEST(a_signal_ends_the_command_of_on_end)
{
    char word[64];
    enter();
    snprintf(word, sizeof word, "TEST_ON_END=%d.", getpid());
    pid_t job = shell_start("env %s=1 %s/cspeed -q --num_gpus 1 --job_id j --on_end 'sleep 1000 & "
                            "echo $CSPEED_EXIT_CODE $CSPEED_WHY >ended; touch waits; wait' /bin/sh -c "
                            "'touch up; exec sleep 1000'",
                            word, CS_BIN);
    shell_await("test -e up");
    kill(job, SIGTERM);
    shell_await("test -e waits");
    command(0, "status latest");
    check_has("job j: stopped (SIGTERM), exit code 143");
    kill(job, SIGTERM);
    ck_assert_int_eq(shell_wait(job), 143);
    shell_await_left(word, 0);
    char *ended = shell_read("ended", NULL);
    ck_assert_str_eq(ended, "143 ended by SIGTERM\n");
    free(ended);
    shell_leave();
}
END_TEST

/* Returns a value of CSPEED_AGENT, which identifies an agent by process id and start time. It has the process id of
 * this test and another start time, so it stands for an agent that has ended. */
static const char *dead_agent(void)
{
    static char mark[CL_LEFTOVER_MARK];
    char own[CL_LEFTOVER_MARK];
    ck_assert(cl_leftover_mark(getpid(), own));
    snprintf(mark, sizeof mark, "%d:1%s", getpid(), strchr(strchr(own, ':') + 1, ':'));
    return mark;
}

START_TEST(clean_ends_what_is_left_and_nothing_else)
{
    enter();
    char line[128];
    const char *gone = dead_agent();
    pid_t job = start_job("lives", sleeper);
    shell_await("test -e up.0");
    shell_await("test -e up.1");
    pid_t plain = shell_start("sleep 1001"),
          left = shell_start("env CSPEED_AGENT=%s CSPEED_JOB_ID=gone_test_jobs sleep 1002", gone);
    pid_t deaf = shell_start("env CSPEED_AGENT=%s CSPEED_JOB_ID=gone_test_jobs sh -c 'trap \"\" TERM; touch deaf; "
                             "sleep 1003; sleep 1003'",
                             gone);
    /* For the process `kept`, CSPEED_AGENT identifies this test as the agent. The test runs, so `kept` must not be
     * reported, whatever jobs run on this host. */
    char agent[CL_LEFTOVER_MARK];
    ck_assert(cl_leftover_mark(getpid(), agent));
    pid_t kept = shell_start("env CSPEED_AGENT=%s CSPEED_JOB_ID=gone_test_jobs sleep 1004", agent);
    shell_await("test -e deaf");
    command(0, "clean");
    snprintf(line, sizeof line, "process of ended job gone_test_jobs: pid %d (sleep)\n", left);
    check_has(line);
    check_has("`cspeed clean --yes` ends them");
    ck_assert_ptr_null(strstr(text, "lives"));
    ck_assert_int_eq(waitpid(left, NULL, WNOHANG), 0);
    /* `left` and `deaf` are children of this test. The test must reap these children while the command checks whether
     * they have ended. */
    pid_t cleaner = shell_start("%s/cspeed clean --yes", CS_BIN);
    ck_assert_int_eq(shell_wait(left), 128 + SIGTERM);
    ck_assert_int_eq(shell_wait(deaf), 128 + SIGKILL);
    ck_assert_int_eq(shell_wait(cleaner), 0);
    free(text);
    text = shell_read("out.txt", NULL);
    check_has(" ended\n");
    ck_assert_int_eq(waitpid(plain, NULL, WNOHANG), 0);
    ck_assert_int_eq(waitpid(kept, NULL, WNOHANG), 0);
    ck_assert_int_eq(waitpid(job, NULL, WNOHANG), 0);
    kill(plain, SIGKILL);
    kill(kept, SIGKILL);
    shell_wait(plain);
    shell_wait(kept);
    kill(job, SIGTERM);
    ck_assert_int_eq(shell_wait(job), 143);
    command(0, "clean");
    check_has("no process of an ended job runs\n");
    shell_leave();
}
END_TEST

/* A process is not ended if its agent may be alive, or if it belongs to another user. */
START_TEST(what_is_not_certain_is_not_left_over)
{
    static const char *const marks[] = { "%d:1", "%d:0:pid:[1]", "%d:1:pid:[1]time:[1]", "1:1:pid:[1]", "" };
    enum { MARKS = sizeof marks / sizeof *marks };
    pid_t pids[MARKS + 1];
    char mark[CL_LEFTOVER_MARK], folder[4096];
    enter();
    for (int i = 0; i < MARKS; i++) {
        snprintf(mark, sizeof mark, marks[i], getpid());
        pids[i] = shell_start("env 'CSPEED_AGENT=%s' sleep 1005", mark);
    }
    /* If the user of a process may not read the program's file, Linux makes root the owner of /proc/PID. */
    ck_assert_ptr_nonnull(getcwd(folder, sizeof folder));
    ck_assert_int_eq(shell_run("cp $(command -v sleep) rest && chmod 711 . rest"), 0);
    pids[MARKS] = geteuid() == 0 ? shell_start("env CSPEED_AGENT=%s setpriv --reuid 65534 --clear-groups %s/rest 1006",
                                               dead_agent(), folder)
                                 : shell_start("sleep 1006");
    nanosleep(&(struct timespec){ 0, 300000000 }, NULL);
    command(0, "clean --yes");
    check_has("no process of an ended job runs\n");
    for (int i = 0; i <= MARKS; i++) {
        ck_assert_int_eq(waitpid(pids[i], NULL, WNOHANG), 0);
        kill(pids[i], SIGKILL);
        shell_wait(pids[i]);
    }
    shell_leave();
}
END_TEST

/* If /proc does not show a process that still runs, as with hidepid, the process does not count as ended. */
START_TEST(only_a_process_that_has_ended_is_gone)
{
    struct rlimit limit;
    const pid_t self = getpid();
    const unsigned long long start = cl_proc_start(self);
    ck_assert(!cl_proc_is_gone(self, start));
    ck_assert(cl_proc_is_gone(self, start + 1));
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 3, limit.rlim_max }), 0);
    bool gone = cl_proc_is_gone(self, start), other = cl_proc_is_gone(1, start);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert(!gone && !other);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert(cl_proc_is_gone(child, start));
}
END_TEST

/* All cspeed processes of a job are killed at the same time, and the job's ranks end with them. The ranks have started
 * processes in other sessions; the next job that begins on this host ends these processes. Processes of another job
 * that still runs are not ended. */
START_TEST(the_next_job_ends_what_is_left)
{
    char word[64], kept[64];
    enter();
    snprintf(word, sizeof word, "TEST_LEFT=%d.", getpid());
    snprintf(kept, sizeof kept, "%d.", getpid());
    setenv("TEST_KEPT", kept, 1);
    pid_t lives = start_job("lives", "(setsid sleep 1010 &); touch up.$RANK; sleep 1000");
    unsetenv("TEST_KEPT");
    shell_await("test -e up.0");
    shell_await("test -e up.1");
    pid_t victim = shell_start("env %s=1 %s/cspeed -q --num_gpus 1 --job_id killed --oversubscribe /bin/sh -c "
                               "'(setsid sleep 1011 &); touch child; exec sleep 1000'",
                               word, CS_BIN);
    shell_await("test -e child");
    ck_assert_int_eq(shell_run("pids=$(for d in /proc/[0-9]*; do grep -qs %s $d/environ && grep -qsx cspeed $d/comm && "
                               "echo ${d#/proc/}; done); kill -STOP $pids; kill -KILL $pids",
                               word),
                     0);
    ck_assert_int_eq(shell_wait(victim), 128 + SIGKILL);
    shell_await_left(word, 1);
    command(0, "-q --num_gpus 1 /bin/true");
    shell_await_left(word, 0);
    check_has("job killed and its agent were killed on this machine and had left 1 process running: ");
    check_has(" (sleep); ended by SIGKILL\n");
    snprintf(kept, sizeof kept, "TEST_KEPT=%d.", getpid());
    ck_assert_int_ge(shell_left(kept), 3);
    ck_assert_int_eq(waitpid(lives, NULL, WNOHANG), 0);
    kill(lives, SIGTERM);
    ck_assert_int_eq(shell_wait(lives), 143);
    shell_leave();
}
END_TEST

/* Writes the registry entry of a job whose front is this test's process, which does not answer queries. */
static void write_entry(const char *id, const char *hosts)
{
    char path[128], entry[1024];
    snprintf(path, sizeof path, "cspeed/%s.json", id);
    snprintf(entry, sizeof entry,
             "{\"job\": \"%s\", \"pid\": %d, \"start\": %llu, \"since\": 1, \"ranks\": 8, \"hosts\": \"%s\", "
             "\"run_dir\": \"\", \"command\": \"COMMAND\"}",
             id, getpid(), cl_proc_start(getpid()), hosts);
    shell_write(path, entry);
}

/* Columns keep their width however long a name or a list of hosts is. */
START_TEST(columns_keep_their_width)
{
    enter();
    command(0, "ps");
    write_entry("one", "a");
    write_entry("two", "worker-0,worker-1,worker-2,worker-3");
    write_entry("three_with_a_long_name", "a-host-with-a-very-long-name.example.com,b,c");
    write_entry("four", "another-host-with-a-very-long-name.example.com");
    command(0, "ps");
    check_has("worker-0 +3 ");
    check_has("a-host-with-a +2 ");
    int lines = 0, column = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line; lines++) {
        const char *at = strstr(line, "COMMAND");
        ck_assert_msg(at && (lines == 0 || at - line == column), "%s", line);
        column = (int)(at - line);
    }
    ck_assert_int_eq(lines, 5);
    shell_leave();
}
END_TEST

/* A job runs although it cannot be registered, and it prints which commands will not find it. */
START_TEST(a_registry_that_cannot_be_used)
{
    enter();
    ck_assert_int_eq(shell_run("mkdir -m 0777 cspeed"), 0);
    command(0, "-q --num_gpus 1 /bin/echo it ran");
    check_has("does not belong to this user alone");
    check_has("`cspeed ps`, `status` and `stop` will not find it");
    check_has("it ran\n");
    shell_leave();
}
END_TEST

START_TEST(the_report_has_every_section)
{
    static const char *const wanted[][2] = { { "build", "jansson" },     { "build", "oneDNN" },
                                             { "cpu", "AMX" },           { "cpu", "NUMA nodes" },
                                             { "cpu", "bf16 products" }, { "limits", "/dev/shm" },
                                             { "limits", "open files" }, { "gpus", "NVIDIA" },
                                             { "network", "lo" },        { "machine", "kernel" } };
    enter();
    command(0, "report --json");
    json_t *report = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(report != NULL, "%s", text);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const char *value = json_string_value(json_object_get(json_object_get(report, wanted[i][0]), wanted[i][1]));
        ck_assert_msg(value && *value, "no %s of %s: %s", wanted[i][1], wanted[i][0], text);
    }
    json_decref(report);
    command(0, "report");
    ck_assert_ptr_null(strchr(text, '\033')); /* the output is not a terminal, so it has no colours */
    command(64, "report --json --all_hosts");
    check_has("not supported: --json with --all_hosts, because");
    command(64, "report --jsno");
    shell_leave();
}
END_TEST

SUITE_MAIN("jobs", a_job_that_runs, stop_now_does_not_wait_for_the_grace, two_jobs_of_one_id,
           logs_are_followed_to_the_end, logs_of_jobs_that_have_ended, jobs_that_have_ended,
           a_command_runs_when_a_job_has_ended, a_signal_ends_the_command_of_on_end,
           clean_ends_what_is_left_and_nothing_else, what_is_not_certain_is_not_left_over,
           only_a_process_that_has_ended_is_gone, the_next_job_ends_what_is_left, columns_keep_their_width,
           a_registry_that_cannot_be_used, the_report_has_every_section)
