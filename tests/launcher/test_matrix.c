/* test_matrix.c - the kill matrix: whichever process is killed, the job ends, reports the failure, and leaves
 * no process.
 *
 * Each rank has a child in another session that ignores every signal except SIGKILL. CSPEED_MATRIX_ROUNDS=N runs N
 * cells of 1 to 5 nodes drawn at random; otherwise each cell of 1 and 2 nodes runs once. */
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

typedef enum { LOCAL, SSH, NO_SSH, ELASTIC, WAYS } way;
typedef enum {
    WORKER_EXIT,
    WORKER_SEGV,
    WORKER_KILL,
    AGENT_KILL,
    LAUNCHER_TERM,
    LAUNCHER_INT,
    LAUNCHER_KILL,
    LINK_CUT,
    NODE_FROZEN,
    EVENTS
} event;

typedef struct {
    way by;
    int nodes;
    event what;
} cell;

static const char *const way_names[] = { "local", "ssh", "no_ssh", "elastic no_ssh" };
static const char *const event_names[] = { "worker exits",  "worker SEGV",   "worker KILL",
                                           "agent KILL",    "launcher TERM", "launcher INT",
                                           "launcher KILL", "link cut",      "node frozen" };

enum { RANKS_A_NODE = 2, MAX_NODES = 5 };

static const char script[] = "(setsid sh -c 'trap \"\" TERM INT HUP; touch child.'$RANK'; sleep 1000; sleep 1000' &)\n"
                             "while ! test -e child.$RANK; do sleep 0.01; done\n"
                             "echo $PPID >agent.$RANK; echo $$ >pid.$RANK; mv pid.$RANK up.$RANK\n"
                             "while ! test -e exit.$RANK; do sleep 0.02; done; exit 7";

static pid_t read_pid(const char *what, int rank)
{
    char file[32];
    snprintf(file, sizeof file, "%s.%d", what, rank);
    char *text = jobs_slurp(file);
    pid_t pid = atoi(text);
    free(text);
    ck_assert_int_gt(pid, 1);
    return pid;
}

/* ---- starting ---- */

static void add(const char **list, int *count, const char *word)
{
    list[(*count)++] = word;
    list[*count] = NULL;
}

/* Adds the flags with which nodes connect without SSH: either a list of named hosts, or a range for the number of
 * nodes. */
static void add_meeting(const cell *here, int node, const char **list, int *count)
{
    static char port[32], node_rank[32], span[32];
    if (node == 0)
        snprintf(port, sizeof port, "--master_port=%d", ports_free("127.0.0.1"));
    snprintf(node_rank, sizeof node_rank, "--node_rank=%d", node);
    add(list, count, "--no_ssh");
    add(list, count, "--master_addr=127.0.0.1");
    add(list, count, port);
    add(list, count, node_rank);
    if (here->by == NO_SSH)
        return;
    snprintf(span, sizeof span, "--nnodes=1:%d", here->nodes > 1 ? here->nodes : 2);
    add(list, count, span);
    add(list, count, "--nproc_per_node=2");
    add(list, count, "--last_call=1"); /* seconds that the first node waits for a second one */
}

/* Adds "--hosts=NAME:2,...", with a name for each node. */
static void add_hosts(const cell *here, const char **list, int *count)
{
    static char hosts[256];
    int used = snprintf(hosts, sizeof hosts, "--hosts=");
    for (int i = 0; i < here->nodes; i++) {
        char own[] = { (char)('a' + i), 0 };
        used += snprintf(hosts + used, sizeof hosts - (size_t)used, "%s%s:%d", i ? "," : "",
                         here->by == SSH ? cluster_host(i) : own, RANKS_A_NODE);
    }
    add(list, count, hosts);
}

static job start_node(const cell *here, int node)
{
    static char ssh_port[32];
    const char *list[48];
    int count = 0;
    add(list, &count, here->what == NODE_FROZEN ? "--dead_after=3" : "--dead_after=60");
    add(list, &count, "--heartbeat=1");
    add(list, &count, "--grace=2");
    add(list, &count, "--oversubscribe");
    add(list, &count, "--env=CSPEED_TEST_MARK");
    if (here->by == LOCAL)
        add(list, &count, "--num_gpus=2");
    if (here->by == SSH || here->by == NO_SSH)
        add_hosts(here, list, &count);
    if (here->by == SSH) {
        snprintf(ssh_port, sizeof ssh_port, "--ssh_port=%d", cluster_port());
        add(list, &count, ssh_port);
    }
    if (here->by == NO_SSH || here->by == ELASTIC)
        add_meeting(here, node, list, &count);
    add(list, &count, "/bin/sh");
    add(list, &count, "-c");
    add(list, &count, script);
    char name[16];
    snprintf(name, sizeof name, "%d", node);
    return jobs_start_as(name, list);
}

/* ---- the kill ---- */

static void strike(const cell *here, int victim, job *jobs, int *frozen)
{
    char file[32];
    *frozen = 0;
    switch (here->what) {
    case WORKER_EXIT:
        snprintf(file, sizeof file, "exit.%d", victim);
        fclose(fopen(file, "w"));
        break;
    case WORKER_SEGV:
        kill(read_pid("up", victim), SIGSEGV);
        break;
    case WORKER_KILL:
        kill(read_pid("up", victim), SIGKILL);
        break;
    case AGENT_KILL:
        kill(read_pid("agent", victim), SIGKILL);
        break;
    case LAUNCHER_TERM:
        kill(jobs[0].pid, SIGTERM);
        break;
    case LAUNCHER_INT:
        kill(jobs[0].pid, SIGINT);
        break;
    case LAUNCHER_KILL:
        kill(jobs[0].pid, SIGKILL);
        break;
    case LINK_CUT: /* kills the process that carries the connection */
        kill(here->by == SSH ? jobs_child_of(jobs[0].pid) : jobs[1].pid, SIGKILL);
        break;
    default:
        *frozen = read_pid("agent", victim);
        kill(*frozen, SIGSTOP);
        break;
    }
}

static int expected_code(const cell *here)
{
    static const int codes[EVENTS] = { 7, 139, 137, 75, 143, 130, -SIGKILL, 75, 75 };
    bool own_agent = here->by == LOCAL || (here->by != SSH && here->nodes == 1);
    return here->what == AGENT_KILL && own_agent ? 137 : codes[here->what];
}

static bool is_possible(const cell *here)
{
    if (here->by == LOCAL && here->nodes > 1)
        return false;
    return here->what != LINK_CUT || here->by == SSH || (here->by != LOCAL && here->nodes > 1);
}

static void check_words(const cell *here, int victim, const job *front)
{
    char words[64];
    if (here->what <= WORKER_KILL) {
        snprintf(words, sizeof words, "first failure   rank %d ", victim);
        jobs_check_has(front->err, words);
    } else if (here->what == LINK_CUT || here->what == NODE_FROZEN) {
        jobs_check_has(front->err, "was lost");
    }
}

static void check_cell(const cell *here)
{
    int ranks = RANKS_A_NODE * here->nodes, victim = ranks - 1, frozen;
    job jobs[MAX_NODES] = { 0 };
    pid_t agents[MAX_NODES * RANKS_A_NODE];
    char file[32];
    int processes = here->by == NO_SSH || here->by == ELASTIC ? here->nodes : 1;
    for (int i = 0; i < processes; i++)
        jobs[i] = start_node(here, i);
    for (int rank = 0; rank < ranks; rank++) {
        snprintf(file, sizeof file, "up.%d", rank);
        jobs_await(file);
        agents[rank] = read_pid("agent", rank);
    }
    strike(here, victim, jobs, &frozen);
    for (int i = 0; i < processes; i++)
        jobs_finish(&jobs[i]);
    if (frozen)
        kill(frozen, SIGCONT);
    ck_assert_msg(jobs[0].code == expected_code(here), "%s, %s, %d nodes: exit code %d, not %d: %.1500s",
                  event_names[here->what], way_names[here->by], here->nodes, jobs[0].code, expected_code(here),
                  jobs[0].err);
    check_words(here, victim, &jobs[0]);
    jobs_check_gone();
    for (int rank = 0; rank < ranks; rank++)
        shell_await("! kill -0 %d", agents[rank]);
    for (int i = 0; i < processes; i++) {
        free(jobs[i].out);
        free(jobs[i].err);
    }
    ck_assert_int_eq(system("rm -f up.* child.* agent.* exit.* out.* err.*"), 0);
}

static void check_way(way by)
{
    const char *rounds = getenv("CSPEED_MATRIX_ROUNDS");
    int nodes = rounds ? MAX_NODES : 2, count = rounds ? (atoi(rounds) + WAYS - 1) / WAYS : nodes * EVENTS;
    for (int i = 0; i < count; i++) {
        int draw = rounds ? rand() : i;
        cell here = { by, 1 + draw % nodes, (event)(draw / nodes % EVENTS) };
        while (rounds && !is_possible(&here)) {
            draw = rand();
            here = (cell){ by, 1 + draw % nodes, (event)(draw / nodes % EVENTS) };
        }
        if (is_possible(&here))
            check_cell(&here);
    }
}

START_TEST(local)
{
    jobs_begin();
    check_way(LOCAL);
    jobs_leave();
}
END_TEST

START_TEST(no_ssh)
{
    jobs_begin();
    check_way(NO_SSH);
    jobs_leave();
}
END_TEST

START_TEST(elastic)
{
    jobs_begin();
    check_way(ELASTIC);
    jobs_leave();
}
END_TEST

START_TEST(ssh)
{
    shell_enter();
    if (cluster_start(MAX_NODES, NULL)) {
        jobs_begin();
        check_way(SSH);
        jobs_leave();
        cluster_stop();
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("matrix", local, no_ssh, elastic, ssh)
