/* test_nodes.c - nodes over SSH: slow ones, nodes that receive files, and one on which another program runs in place of
 * the agent. */
#include "cluster.h"
#include "jobs.h"
#include "ports.h"
#include "shell.h"
#include "suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char hosts[128], port[32];

/* Starts two hosts, and creates a folder for jobs in the cluster's folder. Returns false if there is no sshd. */
static bool begin(void)
{
    shell_enter();
    if (!cluster_start(2, NULL)) {
        shell_leave();
        return false;
    }
    jobs_begin();
    snprintf(hosts, sizeof hosts, "--hosts=%s:1,%s:1", cluster_host(0), cluster_host(1));
    snprintf(port, sizeof port, "--ssh_port=%d", cluster_port());
    return true;
}

static void leave(job *here)
{
    jobs_end(here);
    cluster_stop();
    shell_leave();
}

/* The first node is ready long before the second, and is asked for progress records while it has no ranks. */
START_TEST(a_node_that_is_slow_to_make_ready)
{
    if (!begin())
        return;
    shell_write("slow.sh", "case $SSH_CONNECTION in *127.0.0.3*) sleep 1;; esac\n");
    RUN(here, hosts, port, "--heartbeat=0.1", "--venv_script=slow.sh", "/bin/echo", "here");
    jobs_check_code(&here, 0);
    ck_assert_int_eq(shell_count_of(here.out, "here\n"), 2);
    leave(&here);
}
END_TEST

/* The process on this machine that carries the connection to a node crashes, but the node itself works. The exit code
 * is therefore that of the crash, not that of a lost node (75). */
START_TEST(a_carrier_that_crashes_is_named)
{
    if (!begin())
        return;
    job here = START(hosts, port, "/bin/sh", "-c", "touch ready.$RANK; exec sleep 1000");
    jobs_await("ready.0");
    jobs_await("ready.1");
    kill(jobs_child_of(here.pid), SIGABRT);
    jobs_finish(&here);
    jobs_check_code(&here, 128 + SIGABRT);
    jobs_check_has(here.err, "was lost: the process on this machine that held its SSH connection (pid ");
    jobs_check_has(here.err, "was killed by SIGABRT");
    leave(&here);
}
END_TEST

/* A node whose cspeed has another version is refused. Two commits of one version are told apart by a warning. */
START_TEST(other_builds_are_named)
{
    static const struct {
        const char *change;
        int code;
        const char *says;
    } cases[] = {
        { "s/commit=COMMIT/commit=COMMIT/", 0, "" },
        { "s/COMMIT/0123456789ab/g", 0, " has cspeed 0.1.0 (commit 0123456789ab" },
        { "s/0\\.1\\.0/0.1.9/g", 76, " has cspeed 0.1.9 (commit " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!begin())
            return;
        if (shell_run("%s/cspeed version | grep -q ^commit", CS_BIN) != 0) { /* built without git */
            jobs_leave();
            cluster_stop();
            shell_leave();
            return;
        }
        ck_assert_int_eq(shell_run("commit=$(%s/cspeed version | sed -n 's/^commit \\([0-9a-f]*\\).*/\\1/p'); "
                                   "sed \"$(echo '%s' | sed s/COMMIT/$commit/)\" %s/cspeed >other; chmod +x other",
                                   CS_BIN, cases[i].change, CS_BIN),
                         0);
        char path[4096] = "--agent_path=";
        ck_assert_ptr_nonnull(realpath("other", path + strlen(path)));
        RUN(here, hosts, port, path, "run", "/bin/echo", "here");
        jobs_check_code(&here, cases[i].code);
        jobs_check_has(here.err, cases[i].says);
        ck_assert_int_eq(strstr(here.err, "cspeed: warning: ") != NULL, i == 1);
        leave(&here);
    }
}
END_TEST

START_TEST(files_are_sent_first)
{
    struct stat facts;
    if (!begin())
        return;
    ck_assert_int_eq(mkdir("far", 0755), 0);
    ck_assert_int_eq(mkdir("sub", 0755), 0);
    shell_write("sub/small", "one line\n");
    ck_assert_int_eq(chmod("sub/small", 0640), 0);
    RUN(here, hosts, port, "--workdir=far", "--stage=sub/small", "/bin/cat", "sub/small");
    jobs_check_code(&here, 0);
    ck_assert_int_eq(shell_count_of(here.out, "one line\n"), 2);
    ck_assert_int_eq(stat("far/sub/small", &facts), 0);
    ck_assert_int_eq(facts.st_mode & 0777, 0640);
    leave(&here);
}
END_TEST

/* Frames that an agent of cspeed never sends. They must do no harm. */
static const char wrong[] = "#!/bin/sh\nprintf '\\ncspeed agent 1\\n'\n"
                            /* HELLO without a value */
                            "printf '\\000\\000\\000\\007\\100\\000\\000\\000\\000version'; sleep 0.3\n"
                            /* by now the order has arrived: STARTED, rank -1 */
                            "printf '\\000\\000\\000\\000\\103\\377\\377\\377\\377'\n"
                            /* OUTPUT, rank -16 */
                            "printf '\\000\\000\\000\\001\\104\\377\\377\\377\\360x'\n"
                            /* ENDED, rank INT_MIN */
                            "printf '\\000\\000\\000\\000\\107\\200\\000\\000\\000'\n"
                            /* BEATS of three bytes */
                            "printf '\\000\\000\\000\\003\\106\\000\\000\\000\\000xyz'\n"
                            /* READY without a core binding */
                            "printf '\\000\\000\\000\\002\\101\\000\\000\\000\\00012'\n"
                            /* FAILED with code 256 */
                            "printf '\\000\\000\\000\\003\\102\\000\\000\\001\\000odd'; sleep 0.3\n";

START_TEST(an_agent_that_talks_nonsense)
{
    if (!begin())
        return;
    shell_write("wrong", wrong);
    ck_assert_int_eq(chmod("wrong", 0755), 0);
    char folder[512], agent[600];
    snprintf(agent, sizeof agent, "--agent_path=%s/wrong", getcwd(folder, sizeof folder));
    RUN(here, hosts, port, agent, "--grace=0", "/bin/true");
    jobs_check_code(&here, 71);
    jobs_check_has(here.err, "failed: odd;");
    leave(&here);
}
END_TEST

/* The command on the second node has another number of ranks than the command on the first one. The message on both
 * nodes has both numbers. */
START_TEST(a_node_with_another_number_of_ranks_is_refused)
{
    char where[32];
    jobs_begin();
    snprintf(where, sizeof where, "--master_port=%d", ports_free("127.0.0.1"));
    job first = jobs_start_as("first", (const char *const[]){ "--hosts=a:2,b:2", "--no_ssh", "--node_rank=0",
                                                              "--master_addr=127.0.0.1", where, "/bin/true", NULL });
    job second = jobs_start_as("second", (const char *const[]){ "--hosts=a:2,b:1", "--no_ssh", "--node_rank=1",
                                                                "--master_addr=127.0.0.1", where, "/bin/true", NULL });
    jobs_finish(&second);
    jobs_finish(&first);
    jobs_check_code(&first, 76);
    jobs_check_code(&second, 76);
    jobs_check_has(first.err, "node 1 (b) was started with 1 rank, but the first node expects 2;");
    jobs_check_has(second.err, "node 1 (b) was started with 1 rank, but the first node expects 2;");
    free(second.out);
    free(second.err);
    jobs_end(&first);
}
END_TEST

/* A job without running ranks ends by an interrupt, not by its time limit for joining, which has another exit code. */
START_TEST(interrupted_while_nodes_are_missing)
{
    char where[32];
    jobs_begin();
    snprintf(where, sizeof where, "--master_port=%d", ports_free("127.0.0.1"));
    job here = START("--hosts=a:1,b:1", "--no_ssh", "--node_rank=0", "--master_addr=127.0.0.1", where, "--log_dir=logs",
                     "/bin/true");
    jobs_await("logs"); /* from here on the job handles signals */
    kill(here.pid, SIGINT);
    jobs_finish(&here);
    jobs_check_code(&here, 130);
    jobs_end(&here);
}
END_TEST

/* The front and the agents raise their own limit of open files; ranks get the limit with which cspeed was started. */
START_TEST(ranks_have_the_limit_of_open_files_that_was_given)
{
    jobs_begin();
    ck_assert_int_eq(shell_run("ulimit -Sn 200; ulimit -Hn 300; exec %s/cspeed /bin/sh -c 'echo rank $(ulimit -Sn) "
                               "$(ulimit -Hn); grep \"open files\" /proc/$PPID/limits'",
                               CS_BIN),
                     0);
    char *out = jobs_slurp("out.txt");
    jobs_check_has(out, "rank 200 300\n");
    jobs_check_has(out, "Max open files            300                  300");
    free(out);
    jobs_leave();
}
END_TEST

/* More nodes join than the front has file descriptors. The front reports that the cause is its own limit, not a node,
 * and does not wait until the deadline. */
START_TEST(too_many_nodes_for_the_limit_of_open_files)
{
    enum { NODES = 30 };
    job nodes[NODES];
    char where[32], rank[16], name[16];
    jobs_begin();
    snprintf(where, sizeof where, "--master_port=%d", ports_free("127.0.0.1"));
    pid_t front = shell_start("sh -c 'ulimit -n 24; exec %s/cspeed --no_ssh --nnodes=31 --nproc_per_node=1 "
                              "--master_addr=127.0.0.1 %s --node_rank=0 --log_dir=logs --rdzv_timeout=20 -q /bin/true'",
                              CS_BIN, where);
    jobs_await("logs");
    for (int i = 0; i < NODES; i++) {
        snprintf(rank, sizeof rank, "--node_rank=%d", i + 1);
        snprintf(name, sizeof name, "%d", i + 1);
        nodes[i] = jobs_start_as(name, (const char *const[]){ "--no_ssh", "--nnodes=31", "--nproc_per_node=1",
                                                              "--master_addr=127.0.0.1", where, rank, "--log_dir=logs",
                                                              "-q", "/bin/true", NULL });
    }
    int code = shell_wait(front);
    char *out = jobs_slurp("out.txt");
    ck_assert_msg(code == 71, "%d: %s", code, out);
    jobs_check_has(out, "no more nodes can be accepted: too many open files: raise ulimit -n (now 24)");
    free(out);
    for (int i = 0; i < NODES; i++)
        jobs_kill(&nodes[i]);
    jobs_check_gone();
    jobs_leave();
}
END_TEST

START_TEST(a_missing_working_directory_is_not_made)
{
    jobs_begin();
    RUN(here, "--workdir=nowhere", "/bin/true");
    jobs_check_code(&here, 66);
    jobs_check_has(here.err, "nowhere: No such file or directory");
    ck_assert_int_lt(access("nowhere", F_OK), 0);
    jobs_end(&here);
}
END_TEST

static const struct {
    const char *first, *second;
    int code;
    const char *says;
} refusals[] = {
    { "--stage=nowhere", "--num_gpus=1", 66, "--stage nowhere: No such file" },
    { "--stage=x", "--no_ssh", 64, "not supported: --stage with --no_ssh" },
    { "--local_addr=10.0.0.1", "--num_gpus=1", 64, "not supported: --local_addr" },
    { "--master_if=nosuch0", "--num_gpus=1", 64, "--master_if nosuch0: this machine has no such interface" },
};

START_TEST(what_cannot_be_is_said)
{
    jobs_begin();
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        RUN(here, refusals[i].first, refusals[i].second, "/bin/true");
        jobs_check_code(&here, refusals[i].code);
        jobs_check_has(here.err, refusals[i].says);
        free(here.out);
        free(here.err);
    }
    jobs_leave();
}
END_TEST

SUITE_MAIN("nodes", other_builds_are_named, a_node_that_is_slow_to_make_ready, a_carrier_that_crashes_is_named,
           files_are_sent_first, an_agent_that_talks_nonsense, interrupted_while_nodes_are_missing,
           a_node_with_another_number_of_ranks_is_refused, ranks_have_the_limit_of_open_files_that_was_given,
           too_many_nodes_for_the_limit_of_open_files, a_missing_working_directory_is_not_made, what_cannot_be_is_said)
