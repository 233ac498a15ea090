/* test_drain.c - signals by which a cluster announces the end: `train` saves a checkpoint before it ends. */
#include "cluster.h"
#include "jobs.h"
#include "ports.h"
#include "shell.h"
#include "suite.h"

#include "base/asked.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char config[] =
    "{ \"train_batch_size\": 8, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 2e-3 } },\n"
    "  \"zero_optimization\": { \"stage\": 2 },\n"
    "  \"cspeed\": { \"steps\": 1000000, \"save_interval\": 0, \"eval_interval\": 0,\n"
    "    \"data\": { \"train\": \"text.txt\", \"seq_len\": 32 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 16, \"n_positions\": 32, "
    "\"vocab_size\": 256 } } }\n";

static void begin(void)
{
    jobs_begin();
    shell_write("config.json", config);
    ck_assert_int_eq(shell_run("seq 1000 >text.txt"), 0);
}

/* Checks that the newest checkpoint is that of the last step in metrics.jsonl: no step of the run was lost. */
static void check_nothing_is_lost(const char *output)
{
    char path[256], tag[64];
    snprintf(path, sizeof path, "%s/metrics.jsonl", output);
    char *metrics = jobs_slurp(path), *last = metrics;
    for (char *at = metrics; (at = strstr(at, "\"step\": ")); at++)
        last = at;
    snprintf(tag, sizeof tag, "global_step%ld", strtol(last + strlen("\"step\": "), NULL, 10));
    snprintf(path, sizeof path, "%s/latest", output);
    char *latest = jobs_slurp(path);
    ck_assert_msg(strncmp(latest, tag, strlen(tag)) == 0, "latest is %s, the last step's is %s", latest, tag);
    free(latest);
    free(metrics);
}

START_TEST(a_signal_to_the_launcher_saves_first)
{
    static const struct {
        int number, code;
        const char *setting;
    } rows[] = { { SIGTERM, 143, "cspeed.comm=shm" },
                 { SIGINT, 130, "cspeed.comm=tcp" },
                 { SIGHUP, 129, "cspeed.async_save=true" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin();
        job here = START(TWO, "train", "--config", "config.json", "--output", "run", "--set", rows[i].setting);
        jobs_await_words("run/metrics.jsonl", "\"step\": 2,");
        kill(here.pid, rows[i].number);
        jobs_finish(&here);
        jobs_check_code(&here, rows[i].code);
        jobs_check_has(here.out, "a signal asks for a checkpoint");
        jobs_check_has(here.err, "the same command continues from the checkpoint of step ");
        check_nothing_is_lost("run");
        jobs_end(&here);
    }
}
END_TEST

START_TEST(a_rank_without_a_launcher_saves_first)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        begin();
        pid_t child = shell_start("%s/train --config config.json --output run", CS_BIN);
        jobs_await_words("run/metrics.jsonl", "\"step\": 2,");
        kill(child, numbers[i]);
        ck_assert_int_eq(shell_wait(child), 128 + numbers[i]);
        check_nothing_is_lost("run");
        jobs_leave();
    }
}
END_TEST

START_TEST(a_user_signal_saves_and_goes_on)
{
    static const int numbers[] = { SIGUSR1, SIGUSR2 };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        begin();
        job here = START(TWO, "train", "--config", "config.json", "--output", "run");
        jobs_await_words("run/metrics.jsonl", "\"step\": 2,");
        kill(here.pid, numbers[i]);
        jobs_await("run/latest");
        char *first = jobs_slurp("run/latest");
        kill(here.pid, SIGTERM);
        jobs_finish(&here);
        jobs_check_code(&here, 143);
        check_nothing_is_lost("run");
        char *second = jobs_slurp("run/latest");
        ck_assert_str_ne(first, second); /* the training has gone on after the first checkpoint */
        free(first);
        free(second);
        jobs_end(&here);
    }
}
END_TEST

static job start_node(const char *endpoint, const char *place, const char *name)
{
    const char *const words[] = { "--no_ssh",    "--nnodes",        "2",      "--nproc_per_node",
                                  "1",           "--rdzv_endpoint", endpoint, "--node_rank",
                                  place,         "--max_restarts",  "1",      "--restart_delay",
                                  "0",           "--oversubscribe", "train",  "--config",
                                  "config.json", "--output",        "run",    NULL };
    return jobs_start_as(name, words);
}

START_TEST(a_drained_node_leaves_and_is_replaced)
{
    char endpoint[64];
    begin();
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", ports_free("127.0.0.1"));
    job nodes[2] = { start_node(endpoint, "0", "0"), start_node(endpoint, "1", "1") };
    jobs_await_words("run/metrics.jsonl", "\"step\": 2,");
    kill(nodes[1].pid, SIGTERM);
    jobs_finish(&nodes[1]); /* the drained node ends, although the job goes on */
    jobs_check_code(&nodes[1], 143);
    jobs_check_has(nodes[1].err, "cspeed: node 1 of 2 joined 127.0.0.1:");
    jobs_check_has(nodes[1].err, "cspeed: node 1 (");
    jobs_await_words("err.0", ") was asked to end by SIGTERM");
    ck_assert_int_eq(waitpid(nodes[0].pid, NULL, WNOHANG), 0);
    check_nothing_is_lost("run");
    job replacement = start_node(endpoint, "1", "2");
    jobs_await_words("out.0", "continuing at step ");
    kill(nodes[0].pid, SIGTERM);
    jobs_finish(&nodes[0]);
    jobs_check_code(&nodes[0], 143);
    jobs_check_has(nodes[0].err, "first failure   node 1 (");
    jobs_finish(&replacement);
    jobs_check_code(&replacement, 143);
    job *all[] = { &nodes[0], &nodes[1], &replacement };
    for (int i = 0; i < 3; i++) {
        free(all[i]->out);
        free(all[i]->err);
    }
    jobs_check_gone();
    jobs_leave();
}
END_TEST

/* With --max_restarts the ranks start again, as after any end of a rank that the launcher did not cause. */
START_TEST(a_signal_to_one_rank_saves_first_and_is_reported)
{
    begin();
    job here = START(TWO, "--max_restarts", "1", "--restart_delay", "0", "train", "--config", "config.json", "--output",
                     "run");
    jobs_await_words("run/metrics.jsonl", "\"step\": 2,");
    kill(shell_find_rank(getenv("CSPEED_TEST_MARK"), 1, "train"), SIGTERM);
    jobs_await_words("out", "continuing at step ");
    kill(here.pid, SIGTERM);
    jobs_finish(&here);
    jobs_check_code(&here, 143);
    jobs_check_has(here.err,
                   "SIGTERM (signal 15), not sent by cspeed; the rank has first saved the checkpoint of step ");
    jobs_check_has(here.err, ") saved a checkpoint and ended by SIGTERM; exit code 143");
    check_nothing_is_lost("run");
    jobs_end(&here);
}
END_TEST

/* Sends SIGTERM to the agent of the second host, which runs the program of rank 1. */
static void drain_second_host(void)
{
    jobs_await("agent.1");
    jobs_await_words("run/metrics.jsonl", "\"step\": 2,");
    char *pid = jobs_slurp("agent.1");
    ck_assert_int_gt(atoi(pid), 1);
    kill(atoi(pid), SIGTERM);
    free(pid);
}

static job start_by_ssh(const char *nodes)
{
    static const char rank[] = "echo $PPID >agent.$RANK; exec " CS_BIN "/train --config config.json --output run";
    char hosts[128], port[16];
    snprintf(hosts, sizeof hosts, "%s:1,%s:1", cluster_host(0), cluster_host(1));
    snprintf(port, sizeof port, "%d", cluster_port());
    return START("--hosts", hosts, "--ssh_port", port, "--nnodes", nodes, "--last_call", "0", "--max_restarts", "1",
                 "--restart_delay", "0", "--oversubscribe", SHELL, rank);
}

/* cspeed connects to the drained host again; an elastic job goes on without it. */
START_TEST(a_host_that_is_drained_leaves)
{
    static const struct {
        const char *nodes, *says;
    } rows[] = { { "2", "starts again in 0 s, restart 1 of 1" },
                 { "1:2", "1 of 2 nodes take part: world size 2 -> 1" } };
    shell_enter();
    bool started = cluster_start(2, NULL);
    for (size_t i = 0; started && i < sizeof rows / sizeof *rows; i++) {
        begin();
        job here = start_by_ssh(rows[i].nodes);
        drain_second_host();
        jobs_await_words("out", "continuing at step ");
        kill(here.pid, SIGUSR1);
        kill(here.pid, SIGTERM);
        jobs_finish(&here);
        jobs_check_code(&here, 143);
        jobs_check_has(here.err, ") was asked to end by SIGTERM");
        jobs_check_has(here.err, rows[i].says);
        check_nothing_is_lost("run");
        jobs_end(&here);
    }
    if (started)
        cluster_stop();
    shell_leave();
}
END_TEST

/* Without a stack of its own, a handler that interrupts a matrix product of oneDNN overwrites the heap. */
START_TEST(handlers_have_a_stack_of_their_own)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 };
    struct sigaction action;
    stack_t stack;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], SIG_DFL); /* Check has handlers */
    ce_asked_listen();
    ck_assert_int_eq(sigaltstack(NULL, &stack), 0);
    ck_assert_int_eq(stack.ss_flags & SS_DISABLE, 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ck_assert_int_eq(sigaction(numbers[i], NULL, &action), 0);
        ck_assert_int_ne(action.sa_flags & SA_ONSTACK, 0);
    }
}
END_TEST

SUITE_MAIN("drain", a_signal_to_one_rank_saves_first_and_is_reported, a_host_that_is_drained_leaves,
           handlers_have_a_stack_of_their_own, a_drained_node_leaves_and_is_replaced,
           a_signal_to_the_launcher_saves_first, a_rank_without_a_launcher_saves_first, a_user_signal_saves_and_goes_on)
