/* test_restart.c - another attempt: the same ranks again, or fewer, or more. */
#include "cluster.h"
#include "jobs.h"
#include "ports.h"
#include "shell.h"
#include "suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TWO   "--oversubscribe", "--num_gpus", "2", "--restart_delay", "0.1"
#define SHELL "/bin/sh", "-c"

START_TEST(a_second_attempt_may_do)
{
    jobs_begin();
    RUN(here, TWO, "--max_restarts", "3", "--log_dir", "logs", SHELL,
        "echo attempt $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS $CSPEED_ATTEMPT; "
        "test $RANK = 1 -a $CSPEED_ATTEMPT = 0 && exit 3; test $CSPEED_ATTEMPT = 1 || sleep 1000");
    jobs_check_code(&here, 0);
    jobs_check_has(here.out, "attempt 0 of 3 0\n");
    jobs_check_has(here.out, "attempt 1 of 3 1\n");
    jobs_check_has(here.err, "starts again");
    char *first = jobs_slurp("logs/attempt_0/1.out"), *second = jobs_slurp("logs/attempt_1/1.out");
    ck_assert_str_eq(first, "attempt 0 of 3 0\n");
    ck_assert_str_eq(second, "attempt 1 of 3 1\n");
    free(first);
    free(second);
    jobs_end(&here);
}
END_TEST

START_TEST(not_every_end_is_tried_again)
{
    static const struct {
        const char *restarts, *on, *script;
        int         code, attempts;
    } cases[] = {
        { "1", "any", "exit 3", 3, 2 },
        { "9", "any", "exit 3", 3, 2 }, /* two in a row, at once, without a step */
        { "9", "4,5", "exit 3", 3, 1 }, /* not one of these */
        { "9", "4,3", "exit 3", 3, 2 },
        { "9", "any", "exit 78", 78, 1 }, /* the configuration will not be better the next time */
        { "0", "any", "exit 3", 3, 1 },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        jobs_begin();
        char script[64];
        snprintf(script, sizeof script, "echo try; %s", cases[i].script);
        RUN(here, "--num_gpus", "1", "--restart_delay", "0.1", "--max_restarts", cases[i].restarts, "--restart_on",
            cases[i].on, SHELL, script);
        jobs_check_code(&here, cases[i].code);
        ck_assert_int_eq(jobs_count_of(here.out, "try\n"), cases[i].attempts);
        jobs_end(&here);
    }
}
END_TEST

START_TEST(a_signal_is_no_failure)
{
    jobs_begin();
    job here = START(TWO, "--max_restarts", "9", SHELL, "touch up.$RANK; sleep 1000");
    jobs_await("up.0");
    jobs_await("up.1");
    kill(here.pid, SIGTERM);
    jobs_finish(&here);
    jobs_check_code(&here, 143);
    ck_assert_int_eq(jobs_count_of(here.err, "starts again"), 0);
    jobs_end(&here);
}
END_TEST

/* ---- elastic jobs without SSH ---- */

static const char elastic[] = "echo rank $RANK of $WORLD_SIZE attempt $CSPEED_ATTEMPT; touch up.$CSPEED_ATTEMPT.$RANK; "
                              "while ! test -e done; do sleep 0.02; done";

static job start_node(const char *node_rank, const char *nodes)
{
    static char port[32]; /* the same for all nodes */
    if (!*port)
        snprintf(port, sizeof port, "--master_port=%d", ports_free("127.0.0.1"));
    return jobs_start_as(node_rank, (const char *const[]){ "--no_ssh",
                                                           "--nnodes",
                                                           nodes,
                                                           "--nproc_per_node",
                                                           "1",
                                                           "--master_addr",
                                                           "127.0.0.1",
                                                           port,
                                                           "--node_rank",
                                                           node_rank,
                                                           "--last_call",
                                                           "1",
                                                           "--restart_delay",
                                                           "0.2",
                                                           "--max_restarts",
                                                           "3",
                                                           "--dead_after",
                                                           "3",
                                                           "--heartbeat",
                                                           "1",
                                                           "--oversubscribe",
                                                           SHELL,
                                                           elastic,
                                                           NULL });
}

START_TEST(a_lost_node_is_done_without_and_may_come_back)
{
    jobs_begin();
    job nodes[3];
    for (int i = 0; i < 3; i++)
        nodes[i] = start_node((const char *const[]){ "0", "1", "2" }[i], "1:3");
    jobs_await("up.0.0");
    jobs_await("up.0.1");
    jobs_await("up.0.2");
    jobs_kill(&nodes[1]);
    jobs_await("up.1.0"); /* the others go on, two of them */
    jobs_await("up.1.1");
    ck_assert_int_ne(access("up.1.2", F_OK), 0);
    nodes[1] = start_node("1", "1:3"); /* waits for the next restart */
    jobs_pause();
    char *pid = jobs_slurp("err.1");
    free(pid);
    sleep(2);
    jobs_kill(&nodes[2]);
    jobs_await("up.2.0");
    jobs_await("up.2.1");
    fclose(fopen("done", "w"));
    jobs_finish(&nodes[0]);
    jobs_finish(&nodes[1]);
    jobs_check_code(&nodes[0], 0);
    jobs_check_code(&nodes[1], 0);
    jobs_check_has(nodes[0].out, "rank 0 of 3 attempt 0\n");
    jobs_check_has(nodes[0].out, "rank 0 of 2 attempt 1\n");
    jobs_check_has(nodes[0].out, "rank 0 of 2 attempt 2\n");
    jobs_check_has(nodes[0].err, "world size 3 -> 2");
    free(nodes[1].out);
    free(nodes[1].err);
    jobs_end(&nodes[0]);
}
END_TEST

/* Only worlds that the configuration's elasticity allows. */
START_TEST(world_sizes_are_those_of_the_configuration)
{
    jobs_begin();
    shell_write("ds.json",
                "{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 4, \"micro_batch_sizes\": [2], "
                "\"min_gpus\": 1, \"max_gpus\": 4, \"version\": 0.1}}");
    RUN(here, "--no_ssh", "--nnodes", "1:3", "--nproc_per_node", "1", "--master_addr", "127.0.0.1", "--node_rank", "0",
        "--last_call", "0.2", "-q", SHELL, "echo world $WORLD_SIZE", "sh", "--config", "ds.json");
    jobs_check_code(&here, 0);
    jobs_check_has(here.out, "world 1\n");
    jobs_end(&here);
}
END_TEST

START_TEST(a_host_is_called_again)
{
    shell_enter();
    if (cluster_start(2, NULL)) {
        char hosts[128], port[16];
        jobs_begin();
        snprintf(hosts, sizeof hosts, "%s:1,%s:1", cluster_host(0), cluster_host(1));
        snprintf(port, sizeof port, "%d", cluster_port());
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

SUITE_MAIN("restart", a_second_attempt_may_do, not_every_end_is_tried_again, a_signal_is_no_failure,
           a_lost_node_is_done_without_and_may_come_back, world_sizes_are_those_of_the_configuration,
           a_host_is_called_again)
