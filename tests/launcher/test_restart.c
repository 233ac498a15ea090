/* test_restart.c - further attempts of a job: after which failures the job is tried again, the port of the ranks, and
 * lost hosts. test_elastic.c is about attempts with fewer or more nodes. */
#include "cluster.h"
#include "jobs.h"
#include "ports.h"
#include "shell.h"
#include "suite.h"

#include "node/proc.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RESTARTED TWO, "--restart_delay", "0.1"

START_TEST(a_second_attempt_may_succeed)
{
    jobs_begin();
    RUN(here, RESTARTED, "--max_restarts", "3", "--log_dir", "logs", SHELL,
        "echo attempt $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS $CSPEED_ATTEMPT; "
        "test $RANK = 1 -a $CSPEED_ATTEMPT = 0 && exit 3; test $CSPEED_ATTEMPT = 1 || sleep 1000");
    jobs_check_code(&here, 0);
    jobs_check_has(here.out, "attempt 0 of 3 0\n");
    jobs_check_has(here.out, "attempt 1 of 3 1\n");
    jobs_check_has(here.err, "starts again");
    jobs_check_has(here.err, "logs/attempt_0/1.err\n"); /* the log of the attempt that failed */
    char *first = jobs_slurp("logs/attempt_0/1.out"), *second = jobs_slurp("logs/attempt_1/1.out");
    ck_assert_str_eq(first, "attempt 0 of 3 0\n");
    ck_assert_str_eq(second, "attempt 1 of 3 1\n");
    free(first);
    free(second);
    jobs_end(&here);
}
END_TEST

START_TEST(only_some_failures_are_tried_again)
{
    static const struct {
        const char *restarts, *on, *script;
        int code, attempts;
    } cases[] = {
        { "1", "any", "exit 3", 3, 2 },
        { "9", "any", "exit 3", 3, 2 }, /* no third attempt: two in a row ended early, without a training step */
        { "9", "4,5", "exit 3", 3, 1 }, /* --restart_on does not list exit code 3 */
        { "9", "4,3", "exit 3", 3, 2 },
        { "9", "any", "exit 64", 64, 1 }, /* this code and the next six would recur in a new attempt */
        { "9", "any", "exit 65", 65, 1 },
        { "9", "any", "exit 66", 66, 1 },
        { "9", "any", "exit 69", 69, 1 },
        { "9", "any", "exit 70", 70, 1 },
        { "9", "any", "exit 76", 76, 1 },
        { "9", "any", "exit 78", 78, 1 },
        { "9", "any", "exec " CS_BIN "/generate refused --prompt a", 78, 1 }, /* the configuration is not supported */
        { "0", "any", "exit 3", 3, 1 },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        jobs_begin();
        char script[512];
        ck_assert_int_eq(shell_run("mkdir refused && cd refused && touch pytorch_model.bin && echo '{}' >config.json"),
                         0);
        snprintf(script, sizeof script, "echo try; %s", cases[i].script);
        RUN(here, "--num_gpus", "1", "--restart_delay", "0.1", "--max_restarts", cases[i].restarts, "--restart_on",
            cases[i].on, SHELL, script);
        jobs_check_code(&here, cases[i].code);
        ck_assert_int_eq(shell_count_of(here.out, "try\n"), cases[i].attempts);
        jobs_end(&here);
    }
}
END_TEST

START_TEST(a_signal_ends_the_job_without_a_restart)
{
    jobs_begin();
    job here = START(RESTARTED, "--max_restarts", "9", SHELL, "touch up.$RANK; sleep 1000");
    jobs_await("up.0");
    jobs_await("up.1");
    kill(here.pid, SIGTERM);
    jobs_finish(&here);
    jobs_check_code(&here, 143);
    ck_assert_int_eq(shell_count_of(here.err, "starts again"), 0);
    jobs_end(&here);
}
END_TEST

/* The signal arrives while the ranks of a failed attempt are being ended. */
START_TEST(a_signal_during_a_failure_ends_the_job)
{
    jobs_begin();
    job here = START(RESTARTED, "--max_restarts", "9", SHELL,
                     "trap 'touch stopping; sleep 1; exit 0' TERM; touch up.$RANK; "
                     "test $RANK = 1 && while ! test -e up.0; do sleep 0.02; done && exit 3; "
                     "while :; do sleep 0.02; done");
    jobs_await("stopping");
    kill(here.pid, SIGTERM);
    jobs_finish(&here);
    jobs_check_code(&here, 3);
    ck_assert_int_eq(shell_count_of(here.err, "starts again"), 0);
    jobs_end(&here);
}
END_TEST

/* The signal arrives while the front waits for other ranks to report failures too. */
START_TEST(a_signal_just_after_a_failure_ends_the_job)
{
    jobs_begin();
    job here = START(RESTARTED, "--max_restarts", "9", SHELL,
                     "touch up.$CSPEED_ATTEMPT.$RANK; while ! test -e go; do sleep 0.02; done; "
                     "test $RANK = 1 && { (sleep 0.12; kill -TERM $(cat front)) & exit 3; }; sleep 1000");
    FILE *front = fopen("front", "w");
    fprintf(front, "%d\n", (int)here.pid);
    fclose(front);
    jobs_await("up.0.0");
    jobs_await("up.0.1");
    fclose(fopen("go", "w"));
    jobs_finish(&here);
    ck_assert_int_eq(shell_count_of(here.err, "starts again"), 0);
    ck_assert_int_ne(access("up.1.0", F_OK), 0);
    jobs_end(&here);
}
END_TEST

/* ---- the join port, which is also the port of the ranks ---- */

/* The program of a rank. Rank 0 listens on MASTER_PORT, and answers every connection until it exits. Another rank
 * prints "met at PORT in ATTEMPT" when it has received the answer of rank 0; rank 0 prints its line when all other
 * ranks have connected. A rank that has printed its line exits with 3 if a file "fail.ATTEMPT" exists. Every rank exits
 * with 0 if a file "done" exists. */
static int run_rank(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const char *attempt = getenv("CSPEED_ATTEMPT"), *port = getenv("MASTER_PORT");
    bool first = strcmp(getenv("RANK"), "0") == 0;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0), left = atoi(getenv("WORLD_SIZE")) - 1;
    char file[32], word[4];
    address.sin_port = htons((uint16_t)atoi(port));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (first && (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 16) < 0))
        return 5;
    while (!first && connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        jobs_pause();
    if (!first && (write(fd, "rank", 4) != 4 || read(fd, word, 4) != 4))
        return 6;
    snprintf(file, sizeof file, "fail.%s", attempt);
    for (bool said = false; access("done", F_OK) < 0;) {
        struct pollfd polled = { fd, POLLIN, 0 };
        if (first && poll(&polled, 1, 20) > 0) {
            int caller = accept(fd, NULL, NULL);
            left -= read(caller, word, 4) == 4 && memcmp(word, "rank", 4) == 0;
            if (write(caller, "met\n", 4) != 4 || close(caller) < 0)
                return 7;
        }
        if (!said && (!first || left == 0)) {
            printf("met at %s in %s\n", port, attempt);
            fflush(stdout);
            snprintf(word, sizeof word, "%s", getenv("RANK"));
            char up[32];
            snprintf(up, sizeof up, "up.%s.%s", attempt, word);
            fclose(fopen(up, "w"));
            said = true;
        }
        if (said && access(file, F_OK) == 0)
            return 3;
        jobs_pause();
    }
    return 0;
}

static job start_node(const char *node, const char *nodes, const char *port)
{
    setenv("CSPEED_TEST_ROLE", "meet", 1);
    job here = jobs_start_as(node, (const char *const[]){ "--no_ssh", "--nnodes", nodes, "--nproc_per_node=1",
                                                          "--node_rank", node, "--master_addr=127.0.0.1", port,
                                                          "--max_restarts=2", "--last_call=2", "--restart_delay=0.1",
                                                          "--prefix", "", "--oversubscribe", jobs_self(), NULL });
    unsetenv("CSPEED_TEST_ROLE");
    return here;
}

static void fail_in(int attempt)
{
    char file[32];
    snprintf(file, sizeof file, "fail.%d", attempt);
    fclose(fopen(file, "w"));
}

/* A port that the user gives is the ranks' port in every attempt: also after the failure of a rank, and after the loss
 * of a node. The replacement of a lost node may connect to this port while the ranks of the earlier attempt still use
 * it. */
START_TEST(a_given_port_belongs_to_the_ranks)
{
    static const struct {
        const char *nodes, *secret;
    } rows[] = { { "3", NULL },
                 { "3", "a secret of 16 bytes or more" },
                 { "2:3", NULL },
                 { "1:3", "a secret of 16 bytes or more" } };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        static const char *const names[] = { "0", "1", "2" };
        char port[32], line[64];
        job nodes[3];
        int number = ports_free("127.0.0.1");
        bool shrinks = strchr(rows[row].nodes, ':') != NULL;
        jobs_begin();
        if (rows[row].secret)
            setenv("CSPEED_SECRET", rows[row].secret, 1);
        snprintf(port, sizeof port, "--master_port=%d", number);
        for (int i = 2; i >= 0; i--)
            nodes[i] = start_node(names[i], rows[row].nodes, port);
        jobs_await_ranks(0, 3);
        fail_in(0);
        jobs_await_ranks(1, 3);
        if (shrinks) { /* the job continues without the node; the node returns before the next attempt */
            jobs_kill(&nodes[2]);
            jobs_await_ranks(2, 2);
        } else {
            kill(nodes[2].pid, SIGSTOP); /* a stopped node does not count as lost yet */
            job late = start_node("2", rows[row].nodes, port);
            jobs_await_words("err.2", "this node comes when the next attempt begins; ");
            jobs_kill(&nodes[2]);
            nodes[2] = late;
            jobs_await_ranks(2, 3);
        }
        fclose(fopen("done", "w"));
        for (int i = 0; i < 3 - shrinks; i++) {
            jobs_finish(&nodes[i]);
            jobs_check_code(&nodes[i], 0);
            for (int attempt = i == 2 ? 2 : 0; attempt < 3; attempt++) {
                snprintf(line, sizeof line, "met at %d in %d\n", number, attempt);
                ck_assert_msg(shell_count_of(nodes[i].out, line) == 1, "row %zu, node %d: not once \"%s\" in %s", row,
                              i, line, nodes[i].out);
            }
            free(nodes[i].out);
            free(nodes[i].err);
        }
        jobs_check_gone();
        jobs_leave();
        unsetenv("CSPEED_SECRET");
    }
}
END_TEST

/* Every 10 s the job prints which node it waits for, and what that node is doing. */
START_TEST(the_awaited_node_is_named)
{
    char port[32];
    jobs_begin();
    snprintf(port, sizeof port, "--master_port=%d", ports_free("127.0.0.1"));
    job here = START("--no_ssh", "--hosts=a:1,b:1", "--node_rank=0", "--master_addr=127.0.0.1", port, "/bin/true");
    jobs_await_words("err", " waits for node 1 (b), which has not called yet; it has waited for 10 s of 600");
    kill(here.pid, SIGTERM);
    jobs_finish(&here);
    jobs_end(&here);
    jobs_begin();
    shell_write("slow.sh", "while ! test -e go; do sleep 0.1; done\n");
    here = START("--num_gpus=1", "--venv_script=slow.sh", "--dead_after=100", "/bin/true");
    jobs_await_words("err",
                     " waits for node 0 (localhost), which makes ready its folder, program, cores and files; it has");
    fclose(fopen("go", "w"));
    jobs_finish(&here);
    jobs_check_code(&here, 0);
    jobs_end(&here);
}
END_TEST

/* values for --hosts and --ssh_port: the two hosts of the cluster, with one rank each */
static char hosts[128], port[16];

static void name_cluster(void)
{
    snprintf(hosts, sizeof hosts, "%s:1,%s:1", cluster_host(0), cluster_host(1));
    snprintf(port, sizeof port, "%d", cluster_port());
}

START_TEST(a_lost_host_is_connected_again)
{
    shell_enter();
    if (cluster_start(2, NULL)) {
        jobs_begin();
        name_cluster();
        job here =
            START("--hosts", hosts, "--ssh_port", port, "--max_restarts", "1", "--restart_delay", "0.1",
                  "--oversubscribe", SHELL,
                  "echo rank $RANK attempt $CSPEED_ATTEMPT; echo $PPID >agent.$RANK; touch up.$CSPEED_ATTEMPT.$RANK; "
                  "test $CSPEED_ATTEMPT = 1 || sleep 1000");
        jobs_await("up.0.0");
        jobs_await("up.0.1");
        char *pid = jobs_slurp("agent.1");
        kill(atoi(pid), SIGKILL);
        free(pid);
        jobs_finish(&here);
        jobs_check_code(&here, 0);
        jobs_check_has(here.out, "rank 1 attempt 1\n");
        jobs_end(&here);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

static int count_zombies(pid_t parent)
{
    int count = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        cl_proc found;
        count += atoi(entry->d_name) > 0 && cl_proc_read(atoi(entry->d_name), &found) && found.zombie &&
                 found.parent == parent;
    }
    closedir(folder);
    return count;
}

/* The front ends and reaps the carrier of a host that does not answer. */
START_TEST(an_unresponsive_host_is_ended)
{
    shell_enter();
    if (cluster_start(2, NULL)) {
        jobs_begin();
        name_cluster();
        job here = START("--hosts", hosts, "--ssh_port", port, "--max_restarts=1", "--restart_delay=0.5",
                         "--dead_after=4", "--heartbeat=0.5", "--oversubscribe", SHELL,
                         "echo $PPID >agent.$RANK; touch up.$CSPEED_ATTEMPT.$RANK; test $CSPEED_ATTEMPT = 0 && "
                         "exec sleep 1000; while ! test -e done; do sleep 0.02; done");
        jobs_await("up.0.0");
        jobs_await("up.0.1");
        char *pid = jobs_slurp("agent.1");
        kill(atoi(pid), SIGSTOP);
        jobs_await("up.1.0");
        jobs_await("up.1.1");
        ck_assert_int_eq(count_zombies(here.pid), 0);
        kill(atoi(pid), SIGKILL);
        free(pid);
        fclose(fopen("done", "w"));
        jobs_finish(&here);
        jobs_check_code(&here, 0);
        jobs_end(&here);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

/* The front of a job that continues without an unreachable host sleeps in poll, without a busy loop, although the host's
 * connection has ended. */
START_TEST(a_job_goes_on_without_an_unreachable_host)
{
    jobs_begin();
    job here = START("--hosts=localhost:1,127.0.0.9:1", "--ssh_port=1", "--nnodes=1:2", "--last_call=0.5",
                     "--master_addr=127.0.0.1", "--oversubscribe", SHELL,
                     "touch up; while ! test -e done; do sleep 0.1; done");
    jobs_await("up");
    shell_await("for i in 1 2 3 4 5 6 7 8 9 10; do grep -q '^State:.S' /proc/%d/status && sleep 0.01 || exit 1; done",
                (int)here.pid);
    fclose(fopen("done", "w"));
    jobs_finish(&here);
    jobs_check_code(&here, 0);
    jobs_check_has(here.err, "1 of 2 nodes take part");
    jobs_end(&here);
}
END_TEST

int main(void)
{
    const char *role = getenv("CSPEED_TEST_ROLE");
    if (role)
        return run_rank();
    const TTest *const tests[] = { a_second_attempt_may_succeed,
                                   only_some_failures_are_tried_again,
                                   a_signal_ends_the_job_without_a_restart,
                                   a_signal_during_a_failure_ends_the_job,
                                   a_signal_just_after_a_failure_ends_the_job,
                                   a_given_port_belongs_to_the_ranks,
                                   the_awaited_node_is_named,
                                   a_lost_host_is_connected_again,
                                   an_unresponsive_host_is_ended,
                                   a_job_goes_on_without_an_unreachable_host };
    return suite_run("restart", tests, (int)(sizeof tests / sizeof *tests));
}
