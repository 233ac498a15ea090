/* test_node_signals.c - signals to the nodes of a job, in every phase of the job: who ends, with which exit code, and what
 * the others do. test_drain.c is about the checkpoints that `train` saves at these signals. */
#include "jobs.h"
#include "ports.h"
#include "shell.h"
#include "suite.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A rank runs until the file `done` exists, or fails if the file fail.ATTEMPT.RANK exists. After the stop signal it
 * stays while the file `hold` exists. */
static const char script[] =
    "trap 'touch told.$CSPEED_ATTEMPT.$RANK; while test -e hold; do sleep 0.02; done; exit 0' TERM; "
    "trap 'touch user.$RANK' USR1 USR2; touch up.$CSPEED_ATTEMPT.$RANK; "
    "while ! test -e done; do test -e fail.$CSPEED_ATTEMPT.$RANK && exit 3; sleep 0.02; done";

static const int ends[] = { SIGTERM, SIGINT, SIGHUP };
enum { ENDS = sizeof ends / sizeof *ends, NODES = 3 };

static char endpoint[64];
static job nodes[NODES];

static void touch(const char *file)
{
    fclose(fopen(file, "w"));
}

/* Starts the node `place` of a job with the given --nnodes and --restart_delay. Its output files are err.NAME and
 * out.NAME. */
static job start_node(const char *count, const char *delay, int place, const char *name)
{
    char rank[12];
    snprintf(rank, sizeof rank, "%d", place);
    return jobs_start_as(name, (const char *const[]){ "--no_ssh",   "--nnodes",
                                                      count,        "--node_rank",
                                                      rank,         "--nproc_per_node",
                                                      "1",          "--last_call",
                                                      "0",          "--rdzv_endpoint",
                                                      endpoint,     "--max_restarts",
                                                      "1",          "--grace",
                                                      "1000",       "--restart_delay",
                                                      delay,        "--venv_script",
                                                      "prepare.sh", "--oversubscribe",
                                                      SHELL,        script,
                                                      "sh",         "--config",
                                                      "ds.json",    NULL });
}

/* Starts the first `started` nodes of a job of `count` nodes. An elastic job may have 1 or 2 ranks, so its third node
 * is spare. */
static void begin(const char *count, const char *delay, int started)
{
    static const char *const names[NODES] = { "0", "1", "2" };
    jobs_begin();
    shell_write("prepare.sh", "touch preparing; while test -e wait; do sleep 0.02; done\n");
    shell_write("ds.json", "{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 4, \"micro_batch_sizes\": "
                           "[2], \"min_gpus\": 1, \"max_gpus\": 4, \"version\": 0.1}}");
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", ports_free("127.0.0.1"));
    for (int i = 0; i < started; i++)
        nodes[i] = start_node(count, delay, i, names[i]);
}

static void await_agent(const job *node)
{
    while (!jobs_child_of(node->pid)) /* a node starts its agent when it has joined */
        jobs_pause();
}

static void finish(job *node, int code, const char *says)
{
    jobs_finish(node);
    jobs_check_code(node, code);
    jobs_check_has(node->err, says);
    free(node->out);
    free(node->err);
}

static void leave(void)
{
    jobs_check_gone();
    jobs_leave();
}

/* Ends the job by a signal to its first node, while it waits for the next attempt. */
static void end_while_it_waits(void)
{
    jobs_await_words("err.0", "starts again in 1000 s");
    kill(nodes[0].pid, SIGTERM);
    finish(&nodes[0], 143, "ended by SIGTERM");
    ck_assert_int_ne(access("up.1.0", F_OK), 0);
}

/* ---- the first node: the job ends, and no other attempt follows ---- */

/* Brings a job of two nodes into a phase. Returns the exit code that a signal then causes. */
static int reach(const char *phase, int number)
{
    bool reforms = strcmp(phase, "re-forming") == 0;
    if (strcmp(phase, "preparing") == 0) {
        begin("2", "1000", 0);
        touch("wait");
        nodes[0] = start_node("2", "1000", 0, "0");
        nodes[1] = start_node("2", "1000", 1, "1");
        jobs_await("preparing");
        return 128 + number;
    }
    begin(reforms ? "1:2" : "2", "1000", strcmp(phase, "waiting") == 0 || reforms ? 1 : 2);
    if (strcmp(phase, "waiting") == 0) {
        jobs_await("cspeed_runs/latest");
        return 128 + number;
    }
    jobs_await("up.0.0");
    if (reforms)
        nodes[1] = start_node("1:2", "1000", 1, "1");
    else
        jobs_await("up.0.1");
    if (strcmp(phase, "running") == 0)
        return 128 + number;
    if (strcmp(phase, "between") != 0)
        touch("hold");
    if (!reforms)
        touch("fail.0.1");
    if (strcmp(phase, "between") == 0) {
        jobs_await_words("err.0", "starts again in 1000 s");
        return 128 + number;
    }
    jobs_await("told.0.0");
    return reforms ? 128 + number : 3; /* the failure that began the end is the cause */
}

static const char *const phases[] = { "waiting", "preparing", "running", "stopping", "re-forming", "between" };
enum { PHASES = sizeof phases / sizeof *phases };

START_TEST(a_signal_to_the_first_node_ends_the_job)
{
    for (int i = 0; i < PHASES * ENDS; i++) {
        const char *phase = phases[i / ENDS];
        int number = ends[i % ENDS], code = reach(phase, number);
        kill(nodes[0].pid, number);
        unlink("wait");
        unlink("hold");
        finish(&nodes[0], code, "");
        if (strcmp(phase, "waiting") != 0)
            finish(&nodes[1], code, "");
        ck_assert_msg(access("up.1.0", F_OK) != 0, "%s", phase);
        leave();
    }
}
END_TEST

/* Sends the signal until the process has ended. A signal within a second is the same request, so time decides only how
 * often it is sent. */
static void insist(const job *node, int number)
{
    siginfo_t ended = { .si_pid = 0 };
    for (double until = ce_clock_seconds() + SUITE_PATIENCE; ended.si_pid == 0; jobs_pause()) {
        ck_assert_msg(ce_clock_seconds() < until, "signal %d does not end the process", number);
        kill(node->pid, number);
        waitid(P_PID, (id_t)node->pid, &ended, WEXITED | WNOHANG | WNOWAIT);
    }
}

START_TEST(a_signal_that_comes_again_ends_at_once)
{
    static const char *const slow[] = { "running", "stopping", "re-forming" };
    for (int i = 0; i < 3 * ENDS; i++) {
        int number = ends[i % ENDS], code = reach(slow[i / ENDS], number);
        touch("hold"); /* the ranks do not end in the grace period of 1000 s */
        insist(&nodes[0], number);
        finish(&nodes[0], code, "");
        finish(&nodes[1], code, "");
        leave();
    }
}
END_TEST

/* ---- another node: it leaves, and the job starts again with its replacement, or without it ---- */

START_TEST(a_signal_to_another_node_ends_its_part)
{
    static const char *const when[] = { "running", "stopping", "between" };
    for (int i = 0; i < 3 * ENDS; i++) {
        char says[64];
        int number = ends[i % ENDS];
        reach(when[i / ENDS], number);
        kill(nodes[1].pid, number);
        unlink("hold");
        snprintf(says, sizeof says, "cspeed: node 1 (node1) was asked to end by SIG%s\n", sigabbrev_np(number));
        finish(&nodes[1], 128 + number, says);
        end_while_it_waits();
        leave();
    }
}
END_TEST

START_TEST(each_node_that_leaves_gets_its_own_reason)
{
    begin("3", "1000", 3);
    touch("hold");
    jobs_await_ranks(0, 3);
    kill(nodes[1].pid, SIGTERM);
    jobs_await("told.0.2");
    kill(nodes[2].pid, SIGHUP);
    unlink("hold");
    finish(&nodes[1], 143, "cspeed: node 1 (node1) was asked to end by SIGTERM\n");
    finish(&nodes[2], 129, "cspeed: node 2 (node2) was asked to end by SIGHUP\n");
    end_while_it_waits();
    leave();
}
END_TEST

/* The other node has joined, and the job waits for the third one. */
START_TEST(a_node_that_leaves_while_the_job_waits_is_replaced)
{
    begin("3", "1000", 2);
    await_agent(&nodes[1]);
    kill(nodes[1].pid, SIGTERM);
    finish(&nodes[1], 143, "");
    nodes[1] = start_node("3", "1000", 1, "again");
    nodes[2] = start_node("3", "1000", 2, "2");
    jobs_await_ranks(0, 3);
    touch("done");
    for (int node = 0; node < NODES; node++)
        finish(&nodes[node], 0, "");
    leave();
}
END_TEST

START_TEST(a_signal_that_comes_again_ends_the_node_at_once)
{
    for (int i = 0; i < ENDS; i++) {
        reach("running", ends[i]);
        touch("hold");
        insist(&nodes[1], ends[i]);
        finish(&nodes[1], 128 + ends[i], " was received again: the ranks of this node are killed now");
        unlink("hold");
        end_while_it_waits();
        leave();
    }
}
END_TEST

/* ---- elastic jobs ---- */

START_TEST(an_elastic_job_goes_on_without_a_node_that_leaves)
{
    begin("1:2", "0", 2);
    jobs_await_words("err.1", "cspeed: node 1 of 2 joined");
    kill(nodes[1].pid, SIGINT);
    finish(&nodes[1], 130, "cspeed: node 1 (node1) was asked to end by ");
    jobs_await_words("err.0", "1 of 2 nodes take part: world size 2 -> 1");
    touch("done");
    finish(&nodes[0], 0, "node 1 (node1) was asked to end by ");
    leave();
}
END_TEST

/* The third node is spare, because the elasticity section allows no three ranks. */
START_TEST(a_spare_node_leaves_alone)
{
    begin("1:3", "0", 2);
    jobs_await_words("err.1", "cspeed: node 1 of 2 joined");
    nodes[2] = start_node("1:3", "0", 2, "2");
    jobs_await_words("err.0", "because \"elasticity\" allows no larger world with those there");
    kill(nodes[2].pid, SIGUSR1);
    kill(nodes[2].pid, SIGHUP);
    finish(&nodes[2], 129, "cspeed: node 2 (node2) was asked to end by ");
    jobs_await_words("err.0", "; it leaves job ");
    touch("done");
    finish(&nodes[0], 0, "cspeed: node 2 (node2) was asked to end by ");
    finish(&nodes[1], 0, "");
    ck_assert_int_ne(access("up.2.0", F_OK), 0); /* at most two attempts: without and with the second node */
    leave();
}
END_TEST

/* The node for which the job starts again leaves before the ranks have ended. */
START_TEST(a_node_that_leaves_during_the_re_forming_costs_no_restart)
{
    reach("re-forming", SIGTERM);
    kill(nodes[1].pid, SIGTERM);
    finish(&nodes[1], 143, "cspeed: node 1 (node1) was asked to end by ");
    unlink("hold");
    jobs_await("up.1.0");
    touch("done");
    finish(&nodes[0], 0, "; it leaves job ");
    leave();
}
END_TEST

/* ---- signals for the ranks ---- */

START_TEST(a_user_signal_ends_nothing)
{
    begin("2", "1", 1);
    jobs_await("cspeed_runs/latest");
    kill(nodes[0].pid, SIGUSR1);
    nodes[1] = start_node("2", "1", 1, "1");
    jobs_await_ranks(0, 2);
    kill(nodes[1].pid, SIGUSR1);
    jobs_await("user.1");
    ck_assert_int_ne(access("user.0", F_OK), 0); /* the other node's rank does not get the signal */
    kill(nodes[0].pid, SIGUSR2);
    jobs_await("user.0");
    touch("fail.0.1");
    jobs_await_words("err.0", "starts again in 1 s");
    kill(nodes[0].pid, SIGUSR1);
    kill(nodes[1].pid, SIGUSR2);
    jobs_await_ranks(1, 2);
    touch("done");
    finish(&nodes[0], 0, "");
    finish(&nodes[1], 0, "");
    leave();
}
END_TEST

SUITE_MAIN("node_signals", a_signal_to_the_first_node_ends_the_job, a_signal_that_comes_again_ends_at_once,
           a_signal_to_another_node_ends_its_part, each_node_that_leaves_gets_its_own_reason,
           a_node_that_leaves_while_the_job_waits_is_replaced, a_signal_that_comes_again_ends_the_node_at_once,
           an_elastic_job_goes_on_without_a_node_that_leaves, a_spare_node_leaves_alone,
           a_node_that_leaves_during_the_re_forming_costs_no_restart, a_user_signal_ends_nothing)
