/* test_elastic_join.c - nodes that join a running elastic job: the job restarts with them, from a new checkpoint if the
 * program saves on request. */
#include "jobs.h"
#include "ports.h"
#include "shell.h"
#include "suite.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Prints the rank, the world size and the attempt, and ends when the file `done` exists; fails in attempt N if the file
 * `fail.N` exists. */
static const char script[] =
    "echo rank $RANK of $WORLD_SIZE attempt $CSPEED_ATTEMPT restart $TORCHELASTIC_RESTART_COUNT; "
    "touch up.$CSPEED_ATTEMPT.$RANK; "
    "while ! test -e done; do test -e fail.$CSPEED_ATTEMPT && exit 3; sleep 0.02; done";

static char endpoint[32], last_call[8], restarts[8];

static void begin(const char *call, const char *max_restarts)
{
    jobs_begin();
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", ports_free("127.0.0.1"));
    snprintf(last_call, sizeof last_call, "%s", call);
    snprintf(restarts, sizeof restarts, "%s", max_restarts);
}

/* Starts a node with the options of torchrun. `place` is its node rank, `name` the suffix of its output files. */
static job start_node(const char *nodes, const char *place, const char *name, const char *const *program)
{
    const char *words[40] = { "--no_ssh", "--nnodes",        nodes,     "--nproc_per_node", "1",      "--rdzv_endpoint",
                              endpoint,   "--last_call",     last_call, "--max_restarts",   restarts, "--node_rank",
                              place,      "--restart_delay", "1",       "--dead_after",     "6",      "--heartbeat",
                              "1",        "--oversubscribe" };
    int count = 20;
    while (*program)
        words[count++] = *program++;
    return jobs_start_as(name, words);
}

#define NODE(nodes, place) NAMED(nodes, place, place)
#define NAMED(nodes, place, name) start_node(nodes, place, name, (const char *const[]){ SHELL, script, NULL })

static void end_all(job *nodes, int count)
{
    for (int i = 0; i < count; i++) {
        jobs_finish(&nodes[i]);
        jobs_check_code(&nodes[i], 0);
    }
    jobs_check_gone();
}

static void free_output(job *nodes, int count)
{
    for (int i = 0; i < count; i++) {
        free(nodes[i].out);
        free(nodes[i].err);
    }
    jobs_leave();
}

/* The job starts again with the second node although --max_restarts is 0, because this does not count as a restart. The
 * third node waits, because the job has all its nodes. */
START_TEST(a_node_that_comes_takes_part)
{
    begin("0.5", "0");
    job nodes[3] = { NODE("1:2", "0") };
    jobs_await("up.0.0");
    nodes[1] = NODE("1:2", "1");
    jobs_await("up.1.0");
    jobs_await("up.1.1");
    job late = NAMED("1:2", "1", "late");
    jobs_await_words("err.late", "its job has all its nodes");
    ck_assert_int_ne(access("up.2.0", F_OK), 0);
    kill(late.pid, SIGTERM);
    jobs_finish(&late);
    fclose(fopen("done", "w"));
    end_all(nodes, 2);
    jobs_check_has(nodes[0].err, "waits for the next attempt, for which the ranks are ended soon (--last_call)");
    jobs_check_has(nodes[0].err, "starts again with 2 nodes instead of 1: its ranks are ended");
    jobs_check_has(nodes[0].err, "world size 1 -> 2");
    jobs_check_has(nodes[0].out, "rank 0 of 2 attempt 1 restart 0\n");
    ck_assert_int_eq(shell_count_of(nodes[0].err, "FAILED"), 0);
    free(late.out);
    free(late.err);
    free_output(nodes, 2);
}
END_TEST

/* A node that joins between two attempts takes part in the next one. All nodes are then there, so the attempt begins at
 * once. */
START_TEST(a_node_that_comes_during_a_restart_takes_part)
{
    begin("20", "1");
    job nodes[3] = { NODE("2:3", "0"), NODE("2:3", "1") };
    nodes[2] = NODE("2:3", "2");
    jobs_await_ranks(0, 3);
    jobs_kill(&nodes[2]);
    jobs_await_words("err.0", "starts again in");
    nodes[2] = NODE("2:3", "2");
    jobs_await_ranks(1, 3);
    fclose(fopen("done", "w"));
    end_all(nodes, 3);
    jobs_check_has(nodes[0].out, "rank 0 of 3 attempt 1 restart 1\n");
    free_output(nodes, 3);
}
END_TEST

/* After a node has joined, its agent is suspended (SIGSTOP). Attempt 1 waits for this agent in vain; attempt 2 runs
 * without the node. */
START_TEST(a_node_that_is_lost_during_the_re_forming_costs_nothing)
{
    begin("2", "0");
    job nodes[2] = { NODE("1:3", "0") };
    jobs_await("up.0.0");
    nodes[1] = NODE("1:3", "1");
    jobs_await_words("err.0", "node 1 (node1) has joined");
    jobs_kill(&nodes[1]); /* the node ends before the job restarts for it: the ranks continue */
    nodes[1] = NODE("1:3", "1");
    jobs_await_times("err.0", "node 1 (node1) has joined", 2);
    pid_t agent = jobs_child_of(nodes[1].pid);
    kill(agent, SIGSTOP);
    jobs_await("up.2.0");
    kill(agent, SIGKILL);
    jobs_kill(&nodes[1]);
    fclose(fopen("done", "w"));
    end_all(nodes, 1);
    jobs_check_has(nodes[0].out, "rank 0 of 1 attempt 2 restart 0\n");
    free_output(nodes, 1);
}
END_TEST

/* The second node does not find the program. The job continues without the node, and the node prints the reason. */
START_TEST(a_node_that_cannot_run_the_program_is_sent_away)
{
    char path[4096], text[512];
    begin("0.5", "0");
    ck_assert_int_eq(shell_run("mkdir bin"), 0);
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
    shell_write("bin/only_here", text);
    ck_assert_int_eq(shell_run("chmod +x bin/only_here"), 0);
    const char *const program[] = { "run", "only_here", NULL };
    const char *before = getenv("PATH");
    snprintf(path, sizeof path, "%s", before);
    snprintf(path + strlen(path), sizeof path - strlen(path), ":%s/bin", jobs_folder);
    char *usual = strdup(before);
    setenv("PATH", path, 1);
    job nodes[2] = { start_node("1:2", "0", "0", program) };
    setenv("PATH", usual, 1);
    jobs_await("up.0.0");
    nodes[1] = start_node("1:2", "1", "1", program);
    jobs_await("up.2.0");
    fclose(fopen("done", "w"));
    end_all(nodes, 1);
    jobs_finish(&nodes[1]);
    jobs_check_code(&nodes[1], 127);
    jobs_check_has(nodes[1].err, "only_here");
    jobs_check_has(nodes[0].out, "rank 0 of 1 attempt 2 restart 0\n");
    free(usual);
    free_output(nodes, 2);
}
END_TEST

/* The elasticity section allows 1 and 2 ranks, so the third node waits, and the ranks continue. */
START_TEST(a_node_that_makes_no_larger_world_waits)
{
    const char *const program[] = { SHELL, script, "sh", "--config", "ds.json", NULL };
    begin("0", "0");
    shell_write("ds.json",
                "{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 4, \"micro_batch_sizes\": [2], "
                "\"min_gpus\": 1, \"max_gpus\": 4, \"version\": 0.1}}");
    job nodes[3] = { start_node("1:3", "0", "0", program) };
    jobs_await_ranks(0, 1);
    nodes[1] = start_node("1:3", "1", "1", program);
    jobs_await_ranks(1, 2);
    nodes[2] = start_node("1:3", "2", "2", program);
    jobs_await_words("err.0", "because \"elasticity\" allows no larger world with those there");
    fclose(fopen("done", "w"));
    end_all(nodes, 3);
    ck_assert_int_ne(access("up.2.0", F_OK), 0);
    free_output(nodes, 3);
}
END_TEST

/* The configuration has tp 2, so the third node waits for the fourth. */
START_TEST(the_world_size_is_a_multiple_of_tp)
{
    const char *const program[] = { SHELL, script, "sh", "--config", "ds.json", NULL };
    begin("0", "0");
    shell_write("ds.json", "{\"tensor_parallel\": {\"autotp_size\": 2}}");
    job nodes[4] = { start_node("2:4", "0", "0", program), start_node("2:4", "1", "1", program) };
    jobs_await_ranks(0, 2);
    nodes[2] = start_node("2:4", "2", "2", program);
    jobs_await_words("err.0", "because tp 2 allows no larger world with those there");
    nodes[3] = start_node("2:4", "3", "3", program);
    jobs_await_ranks(1, 4);
    fclose(fopen("done", "w"));
    end_all(nodes, 4);
    jobs_check_has(nodes[0].err, "cspeed: warning: tensor-parallel groups that are not on one host");
    free_output(nodes, 4);
}
END_TEST

START_TEST(a_signal_during_the_re_forming_ends_the_job)
{
    static const char slow[] = "trap 'touch stopping; sleep 1; exit 0' TERM; touch up.$CSPEED_ATTEMPT.$RANK; "
                               "while :; do sleep 0.02; done";
    const char *const program[] = { SHELL, slow, NULL };
    begin("0", "3");
    job nodes[2] = { start_node("1:2", "0", "0", program) };
    jobs_await("up.0.0");
    nodes[1] = start_node("1:2", "1", "1", program);
    jobs_await("stopping");
    kill(nodes[0].pid, SIGTERM);
    for (int i = 0; i < 2; i++) {
        jobs_finish(&nodes[i]);
        jobs_check_code(&nodes[i], 143);
    }
    ck_assert_int_ne(access("up.1.0", F_OK), 0);
    jobs_check_gone();
    free_output(nodes, 2);
}
END_TEST

/* ---- train saves on request -------------------------------------------------------------------- */

enum { COMPARED = 20 };

static const char config[] =
    "{ \"train_batch_size\": 8, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 2e-3 } },\n"
    "  \"zero_optimization\": { \"stage\": 2 },\n"
    "  \"cspeed\": { \"steps\": 1000000, \"seed\": 5, \"save_interval\": 0, \"eval_interval\": 0,\n"
    "    \"data\": { \"train\": \"data/train-*.bin\", \"seq_len\": 32 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 64, \"n_positions\": 32, "
    "\"vocab_size\": 256 } } }\n";

/* Reads the losses of the steps after `step` from a metrics file. Returns how many of the COMPARED losses it has. */
static int read_losses(const char *path, long step, double losses[COMPARED])
{
    char *text = jobs_slurp(path), *next;
    int found = 0;
    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        const char *at = strstr(line, "\"step\": "), *loss = strstr(line, "\"loss\": ");
        long number = at ? strtol(at + 8, NULL, 10) : 0;
        if (loss && number > step && number <= step + COMPARED) {
            losses[number - step - 1] = strtod(loss + 8, NULL);
            found++;
        }
    }
    free(text);
    return found;
}

START_TEST(a_training_goes_on_with_more_ranks_from_a_checkpoint_of_that_moment)
{
    double losses[COMPARED], wanted[COMPARED];
    char *end;
    begin("0.5", "0");
    shell_write("config.json", config);
    ck_assert_int_eq(shell_run("seq 4000 >text.txt; %s/pack --output data text.txt", CS_BIN), 0);
    const char *const program[] = { "train", "--config", "config.json", "--output", "out", NULL };
    job nodes[2] = { start_node("1:2", "0", "0", program) };
    while (read_losses("out/metrics.jsonl", 0, losses) < COMPARED)
        jobs_pause();
    nodes[1] = start_node("1:2", "1", "1", program);
    jobs_await_words("out.0", "continuing at step ");
    char *out = jobs_slurp("out.0");
    long step = strtol(strstr(out, "continuing at step ") + 19, &end, 10);
    jobs_check_has(out, "a signal asks for a checkpoint");
    ck_assert_int_gt(step, COMPARED);
    ck_assert_int_eq(shell_count_of(out, "saved out/global_step"), 1);
    free(out);
    while (read_losses("out/metrics.jsonl", step, losses) < COMPARED)
        jobs_pause();
    kill(nodes[0].pid, SIGTERM);
    for (int i = 0; i < 2; i++) {
        jobs_finish(&nodes[i]);
        jobs_check_code(&nodes[i], 143);
    }
    jobs_check_has(nodes[0].err, "its ranks save a checkpoint and end");
    jobs_check_has(nodes[0].err, "world size 1 -> 2");
    ck_assert_int_eq(shell_run("%s/train --config config.json --output one --steps %ld", CS_BIN, step + COMPARED), 0);
    ck_assert_int_eq(read_losses("one/metrics.jsonl", step, wanted), COMPARED);
    for (int i = 0; i < COMPARED; i++)
        ck_assert_msg(fabs(losses[i] - wanted[i]) < 1e-3 * wanted[i], "step %ld: %g with 2 ranks, %g with 1",
                      step + 1 + i, losses[i], wanted[i]);
    free_output(nodes, 2);
}
END_TEST

SUITE_MAIN("elastic_join", a_node_that_comes_takes_part, a_node_that_comes_during_a_restart_takes_part,
           a_node_that_is_lost_during_the_re_forming_costs_nothing, a_node_that_cannot_run_the_program_is_sent_away,
           a_node_that_makes_no_larger_world_waits, the_world_size_is_a_multiple_of_tp,
           a_signal_during_the_re_forming_ends_the_job,
           a_training_goes_on_with_more_ranks_from_a_checkpoint_of_that_moment)
