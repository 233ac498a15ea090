/* test_elastic.c - attempts of a job with fewer or more nodes than the attempt before, without SSH. With
 * CSPEED_ELASTIC_ALL every set of nodes is tested. */
#include "jobs.h"
#include "ports.h"
#include "shell.h"
#include "suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char elastic[] = "echo rank $RANK of $WORLD_SIZE attempt $CSPEED_ATTEMPT; touch up.$CSPEED_ATTEMPT.$RANK; "
                              "while ! test -e done; do sleep 0.02; done";

static job start_node(const char *node_rank, const char *nodes)
{
    static char port[32]; /* all nodes use the same port */
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
                                                           "60",
                                                           "--heartbeat",
                                                           "1",
                                                           "--oversubscribe",
                                                           SHELL,
                                                           elastic,
                                                           NULL });
}

START_TEST(a_job_goes_on_without_a_lost_node_which_may_come_back)
{
    jobs_begin();
    job nodes[3];
    for (int i = 0; i < 3; i++)
        nodes[i] = start_node((const char *const[]){ "0", "1", "2" }[i], "1:3");
    jobs_await("up.0.0");
    jobs_await("up.0.1");
    jobs_await("up.0.2");
    jobs_kill(&nodes[1]);
    jobs_await("up.1.0"); /* the next attempt runs on the other two nodes */
    jobs_await("up.1.1");
    ck_assert_int_ne(access("up.1.2", F_OK), 0);
    /* The node waits for the next restart, and prints that it waits. */
    nodes[1] = start_node("1", "1:3");
    jobs_await_words("err.1", "this node comes when the next attempt begins; ");
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

static job start_trainer(const char *node_rank, const char *port)
{
    return jobs_start_as(node_rank, (const char *const[]){ "--no_ssh", "--nnodes=1:2", "--nproc_per_node=1",
                                                           "--master_addr=127.0.0.1", port, "--node_rank", node_rank,
                                                           "--last_call=1", "--restart_delay=0", "--max_restarts=1",
                                                           "--oversubscribe", "train", "--config", "config.json",
                                                           "--output", "run", NULL });
}

/* A job over tcp may shrink to one rank. */
START_TEST(a_training_over_tcp_shrinks_to_one_rank)
{
    char port[32];
    jobs_begin();
    shell_write("config.json",
                "{\"train_batch_size\": 2, \"zero_optimization\": {\"stage\": 1}, \"optimizer\": {\"type\": \"SGD\", "
                "\"params\": {\"lr\": 1e-3}}, \"cspeed\": {\"comm\": \"tcp\", \"model\": {\"model_type\": \"gpt2\", "
                "\"vocab_size\": 256, \"n_embd\": 16, \"n_layer\": 1, \"n_head\": 1, \"n_positions\": 16}, \"data\": "
                "{\"train\": \"text.txt\", \"seq_len\": 16}, \"steps\": 1000000, \"save_interval\": 2}}");
    ck_assert_int_eq(shell_run("seq 2000 >text.txt"), 0);
    snprintf(port, sizeof port, "--master_port=%d", ports_free("127.0.0.1"));
    job nodes[2] = { start_trainer("0", port), start_trainer("1", port) };
    jobs_await("run/latest");
    kill(nodes[1].pid, SIGTERM);
    jobs_await_words("out.0", "continuing at step ");
    kill(nodes[0].pid, SIGTERM);
    for (int i = 0; i < 2; i++) {
        jobs_finish(&nodes[i]);
        jobs_check_code(&nodes[i], 143);
    }
    jobs_check_has(nodes[0].err, "world size 2 -> 1");
    free(nodes[1].out);
    free(nodes[1].err);
    jobs_end(&nodes[0]);
}
END_TEST

/* ---- every set of nodes that may join ---- */

enum { MAX_NODES = 5 };

static const int slots[MAX_NODES] = { 1, 2, 3, 1, 2 };
/* the names of the hosts, and of their output files */
static const char *const names[MAX_NODES] = { "a", "b", "c", "d", "e" };

typedef struct {
    int min, max;
    /* bit i: node i takes part in the first attempt. Of the other nodes, the last one joins for the second attempt. */
    unsigned first;
} node_set;

static const node_set few[] = { { 1, 4, 0x3 }, { 1, 3, 0x5 }, { 2, 5, 0x19 } };

static int ranks_of(unsigned set)
{
    int ranks = 0;
    for (int i = 0; i < MAX_NODES; i++)
        ranks += set >> i & 1 ? slots[i] : 0;
    return ranks;
}

static job start_member(const node_set *g, int node, const char *port)
{
    char hosts[64] = "--hosts=a:1", nodes[32], rank[32];
    for (int i = 1; i < g->max; i++)
        snprintf(hosts + strlen(hosts), sizeof hosts - strlen(hosts), ",%s:%d", names[i], slots[i]);
    snprintf(nodes, sizeof nodes, "--nnodes=%d:%d", g->min, g->max);
    snprintf(rank, sizeof rank, "--node_rank=%d", node);
    setenv("PLACE", names[node], 1); /* ranks get the environment of their own node, not that of the first node */
    return jobs_start_as(names[node],
                         (const char *const[]){
                             "--no_ssh", hosts, nodes, rank, port, "--master_addr=127.0.0.1", "--last_call=1.5",
                             "--restart_delay=0.1", "--max_restarts=1", "--bind=none", SHELL,
                             "echo $PLACE has $RANK of $WORLD_SIZE in $CSPEED_ATTEMPT; touch up.$CSPEED_ATTEMPT.$RANK; "
                             "while ! test -e done; do test -e fail.$CSPEED_ATTEMPT && exit 3; sleep 0.05; done",
                             NULL });
}

/* Checks that the output `out` has each rank of node `node` once, with the name of the node's host. `set`: the nodes of
 * this attempt. `early`: the nodes that took part in the previous attempt too; nodes in `early` have the lower
 * ranks. */
static void check_shown(const char *out, int node, int attempt, unsigned set, unsigned early)
{
    char prefix[16] = "", line[64];
    unsigned bit = 1u << node, before = early & bit ? early & (bit - 1) : early | (bit - 1);
    int first = ranks_of(set & before);
    for (int rank = first; rank < first + slots[node]; rank++) {
        if (set & (set - 1)) /* lines have a prefix if there are several nodes */
            snprintf(prefix, sizeof prefix, "%s:%d| ", names[node], rank);
        snprintf(line, sizeof line, "%s%s has %d of %d in %d\n", prefix, names[node], rank, ranks_of(set), attempt);
        ck_assert_msg(shell_count_of(out, line) == 1, "not once \"%s\" in: %.1500s", line, out);
    }
}

/* Runs two attempts. The nodes of the first attempt are `g->first`. If some of the `g->max` nodes are not in
 * `g->first`, the last of these nodes joins for the second attempt. If at least `g->min` nodes remain without the last
 * node of `g->first`, this node leaves before the second attempt, unless it is node 0. */
static void run_node_set(const node_set *g)
{
    char port[32];
    job nodes[MAX_NODES];
    unsigned second = g->first, all = (1u << g->max) - 1;
    int leaver = 0, comer = 0;
    jobs_begin();
    snprintf(port, sizeof port, "--master_port=%d", ports_free("127.0.0.1"));
    for (int i = 0; i < g->max; i++)
        if (g->first >> i & 1) {
            nodes[i] = start_member(g, i, port);
            leaver = i;
        } else {
            comer = i;
        }
    second |= comer ? 1u << comer : 0;
    leaver = __builtin_popcount(second) > g->min ? leaver : 0;
    second &= leaver ? ~(1u << leaver) : all;
    jobs_await_ranks(0, ranks_of(g->first));
    if (comer)
        nodes[comer] = start_member(g, comer, port);
    if (leaver)
        jobs_kill(&nodes[leaver]);
    else
        fclose(fopen("fail.0", "w"));
    jobs_await_ranks(1, ranks_of(second));
    fclose(fopen("done", "w"));
    for (int i = 0; i < g->max; i++)
        if (second >> i & 1) {
            jobs_finish(&nodes[i]);
            jobs_check_code(&nodes[i], 0);
            check_shown(nodes[i].out, i, 1, second, g->first);
            if (g->first >> i & 1)
                check_shown(nodes[i].out, i, 0, g->first, g->first);
            free(nodes[i].out);
            free(nodes[i].err);
        }
    jobs_check_gone();
    jobs_leave();
}

START_TEST(every_set_of_nodes_gets_its_ranks)
{
    bool all = getenv("CSPEED_ELASTIC_ALL") != NULL;
    for (size_t i = 0; !all && i < sizeof few / sizeof *few; i++)
        run_node_set(&few[i]);
    for (int max = 2; all && max <= MAX_NODES; max++)
        for (int min = 1; min < max; min++)
            for (unsigned set = 1; set < 1u << max; set += 2) /* node 0 always takes part */
                if (__builtin_popcount(set) >= min)
                    run_node_set(&(node_set){ min, max, set });
}
END_TEST

/* The world size is always one that the configuration's elasticity allows. */
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

/* One node never joins. No ranks have run, so the decision to try again cannot depend on their last step. */
START_TEST(a_missing_node_is_named)
{
    char port[32];
    jobs_begin();
    snprintf(port, sizeof port, "--master_port=%d", ports_free("127.0.0.1"));
    RUN(here, "--no_ssh", "--hosts=a:1,b:1", "--node_rank=0", "--master_addr=127.0.0.1", port, "--max_restarts=1",
        "--rdzv_timeout=0.5", "--restart_delay=0.1", "/bin/true");
    jobs_check_code(&here, 75);
    ck_assert_int_eq(shell_count_of(here.err, "did not join within"), 2);
    jobs_end(&here);
}
END_TEST

SUITE_MAIN("elastic", a_job_goes_on_without_a_lost_node_which_may_come_back, a_training_over_tcp_shrinks_to_one_rank,
           every_set_of_nodes_gets_its_ranks, world_sizes_are_those_of_the_configuration, a_missing_node_is_named)
