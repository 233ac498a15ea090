/* test_restart.c - further attempts of a job, with the same, fewer or more ranks. */
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define TWO "--oversubscribe", "--num_gpus", "2", "--restart_delay", "0.1"
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
        int code, attempts;
    } cases[] = {
        { "1", "any", "exit 3", 3, 2 },
        { "9", "any", "exit 3", 3, 2 }, /* two attempts in a row that end at once, without a step */
        { "9", "4,5", "exit 3", 3, 1 }, /* the code is not one of these */
        { "9", "4,3", "exit 3", 3, 2 },
        { "9", "any", "exit 64", 64, 1 }, /* these seven would end in the same way the next time */
        { "9", "any", "exit 65", 65, 1 },
        { "9", "any", "exit 66", 66, 1 },
        { "9", "any", "exit 69", 69, 1 },
        { "9", "any", "exit 70", 70, 1 },
        { "9", "any", "exit 76", 76, 1 },
        { "9", "any", "exit 78", 78, 1 },
        { "9", "any", "exec " CS_BIN "/generate refused --prompt a", 78, 1 }, /* an unsupported configuration */
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

static void await_words(const char *file, const char *words)
{
    bool found = false;
    for (double until = jobs_seconds() + JOBS_LIMIT; !found; jobs_pause()) {
        char *text = jobs_slurp(file);
        found = strstr(text, words) != NULL;
        ck_assert_msg(found || jobs_seconds() < until, "\"%s\" is not in %s: %.1500s", words, file, text);
        free(text);
    }
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
    jobs_await("up.1.0"); /* the other two nodes continue */
    jobs_await("up.1.1");
    ck_assert_int_ne(access("up.1.2", F_OK), 0);
    nodes[1] = start_node("1", "1:3"); /* the node waits for the next restart and says so */
    await_words("err.1", "this node comes when the next attempt begins; 1 s of 600");
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

/* ---- every set of nodes that may join ---- */

enum { MOST = 5 };

static const int slots[MOST] = { 1, 2, 3, 1, 2 };
/* the names of the hosts, and of their output files */
static const char *const letters[MOST] = { "a", "b", "c", "d", "e" };

typedef struct {
    int min, max;
    /* the nodes of the first attempt; bit i: node i; a node that is absent joins for the second attempt */
    unsigned first;
} gathering;

static const gathering few[] = { { 1, 4, 0x3 }, { 1, 3, 0x5 }, { 2, 5, 0x19 } };

static int ranks_of(unsigned set)
{
    int ranks = 0;
    for (int i = 0; i < MOST; i++)
        ranks += set >> i & 1 ? slots[i] : 0;
    return ranks;
}

static job join_gathering(const gathering *g, int node, const char *port)
{
    char hosts[64] = "--hosts=a:1", nodes[32], rank[32];
    for (int i = 1; i < g->max; i++)
        snprintf(hosts + strlen(hosts), sizeof hosts - strlen(hosts), ",%s:%d", letters[i], slots[i]);
    snprintf(nodes, sizeof nodes, "--nnodes=%d:%d", g->min, g->max);
    snprintf(rank, sizeof rank, "--node_rank=%d", node);
    setenv("PLACE", letters[node], 1); /* the ranks of a node have its own environment, not that of the first node */
    return jobs_start_as(letters[node],
                         (const char *const[]){
                             "--no_ssh", hosts, nodes, rank, port, "--master_addr=127.0.0.1", "--last_call=1.5",
                             "--restart_delay=0.1", "--max_restarts=1", "--bind=none", SHELL,
                             "echo $PLACE has $RANK of $WORLD_SIZE in $CSPEED_ATTEMPT; touch up.$CSPEED_ATTEMPT.$RANK; "
                             "while ! test -e done; do test -e fail.$CSPEED_ATTEMPT && exit 3; sleep 0.05; done",
                             NULL });
}

static void await_ranks(int attempt, int count)
{
    char file[32];
    for (int rank = 0; rank <= count; rank++) {
        snprintf(file, sizeof file, "up.%d.%d", attempt, rank);
        if (rank < count)
            jobs_await(file);
        else
            ck_assert_int_ne(access(file, F_OK), 0);
    }
}

/* Checks that node `node` has shown each of its ranks of one attempt once, under its host's name. Of the nodes in the
 * set, those that took part in the previous attempt (`early`) have the lower ranks. */
static void check_shown(const char *out, int node, int attempt, unsigned set, unsigned early)
{
    char prefix[16] = "", line[64];
    unsigned own = 1u << node, before = early & own ? early & (own - 1) : early | (own - 1);
    int first = ranks_of(set & before);
    for (int rank = first; rank < first + slots[node]; rank++) {
        if (set & (set - 1)) /* there are several nodes */
            snprintf(prefix, sizeof prefix, "%s:%d| ", letters[node], rank);
        snprintf(line, sizeof line, "%s%s has %d of %d in %d\n", prefix, letters[node], rank, ranks_of(set), attempt);
        ck_assert_msg(jobs_count_of(out, line) == 1, "not once \"%s\" in: %.1500s", line, out);
    }
}

/* Runs an attempt with some nodes, then one without the last of them and with another, if those are enough nodes. */
static void gather(const gathering *g)
{
    char port[32];
    job nodes[MOST];
    unsigned second = g->first, all = (1u << g->max) - 1;
    int leaver = 0, comer = 0;
    jobs_begin();
    snprintf(port, sizeof port, "--master_port=%d", ports_free("127.0.0.1"));
    for (int i = 0; i < g->max; i++)
        if (g->first >> i & 1) {
            nodes[i] = join_gathering(g, i, port);
            leaver = i;
        } else {
            comer = i;
        }
    second |= comer ? 1u << comer : 0;
    leaver = __builtin_popcount(second) > g->min ? leaver : 0;
    second &= leaver ? ~(1u << leaver) : all;
    await_ranks(0, ranks_of(g->first));
    if (comer)
        nodes[comer] = join_gathering(g, comer, port);
    if (leaver)
        jobs_kill(&nodes[leaver]);
    else
        fclose(fopen("fail.0", "w"));
    await_ranks(1, ranks_of(second));
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

START_TEST(nodes_that_come_or_stay_away)
{
    bool all = getenv("CSPEED_ELASTIC_ALL") != NULL;
    for (size_t i = 0; !all && i < sizeof few / sizeof *few; i++)
        gather(&few[i]);
    for (int max = 2; all && max <= MOST; max++)
        for (int min = 1; min < max; min++)
            for (unsigned set = 1; set < 1u << max; set += 2) /* node 0 always takes part */
                if (__builtin_popcount(set) >= min)
                    gather(&(gathering){ min, max, set });
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

/* A node never joins: no ranks exist yet, so the retry cannot examine their last step. */
START_TEST(a_node_that_never_comes)
{
    char port[32];
    jobs_begin();
    snprintf(port, sizeof port, "--master_port=%d", ports_free("127.0.0.1"));
    RUN(here, "--no_ssh", "--hosts=a:1,b:1", "--node_rank=0", "--master_addr=127.0.0.1", port, "--max_restarts=1",
        "--rdzv_timeout=0.5", "--restart_delay=0.1", "/bin/true");
    jobs_check_code(&here, 75);
    ck_assert_int_eq(jobs_count_of(here.err, "did not come within"), 2);
    jobs_end(&here);
}
END_TEST

/* ---- the join port, which is also the port of the ranks ---- */

/* Runs as a rank: rank 0 listens on MASTER_PORT, and the others connect to it; then "met at PORT in ATTEMPT" is
 * printed. Ranks exit with 3 if a file "fail.ATTEMPT" exists, and with 0 if a file "done" exists. Until then rank 0
 * answers every other caller. */
static int meet(void)
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

static job meet_as(const char *node, const char *nodes, const char *port)
{
    static char self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    setenv("CSPEED_TEST_ROLE", "meet", 1);
    job here = jobs_start_as(node, (const char *const[]){ "--no_ssh", "--nnodes", nodes, "--nproc_per_node=1",
                                                          "--node_rank", node, "--master_addr=127.0.0.1", port,
                                                          "--max_restarts=2", "--last_call=2", "--restart_delay=0.1",
                                                          "--prefix", "", "--oversubscribe", self, NULL });
    unsetenv("CSPEED_TEST_ROLE");
    return here;
}

static void fail_in(int attempt)
{
    char file[32];
    snprintf(file, sizeof file, "fail.%d", attempt);
    fclose(fopen(file, "w"));
}

/* A port that the user gives belongs to the ranks in every attempt: when a rank has failed, and when a node was lost
 * and its replacement connects while the ranks still use the port. */
START_TEST(the_port_that_is_given_is_the_ranks_own)
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
            nodes[i] = meet_as(names[i], rows[row].nodes, port);
        await_ranks(0, 3);
        fail_in(0);
        await_ranks(1, 3);
        if (shrinks) { /* the job continues without the node, which returns before the next attempt */
            jobs_kill(&nodes[2]);
            await_ranks(2, 2);
        } else {
            kill(nodes[2].pid, SIGSTOP); /* the node does not count as lost yet */
            job late = meet_as("2", rows[row].nodes, port);
            await_words("err.2", "this node comes when the next attempt begins; 1 s of 600");
            jobs_kill(&nodes[2]);
            nodes[2] = late;
            await_ranks(2, 3);
        }
        fclose(fopen("done", "w"));
        for (int i = 0; i < 3 - shrinks; i++) {
            jobs_finish(&nodes[i]);
            jobs_check_code(&nodes[i], 0);
            for (int attempt = i == 2 ? 2 : 0; attempt < 3; attempt++) {
                snprintf(line, sizeof line, "met at %d in %d\n", number, attempt);
                ck_assert_msg(jobs_count_of(nodes[i].out, line) == 1, "row %zu, node %d: not once \"%s\" in %s", row, i,
                              line, nodes[i].out);
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
START_TEST(who_is_waited_for)
{
    char port[32];
    jobs_begin();
    snprintf(port, sizeof port, "--master_port=%d", ports_free("127.0.0.1"));
    job here = START("--no_ssh", "--hosts=a:1,b:1", "--node_rank=0", "--master_addr=127.0.0.1", port, "/bin/true");
    await_words("err", " waits for node 1 (b), which has not called yet; it has waited for 10 s of 600");
    kill(here.pid, SIGTERM);
    jobs_finish(&here);
    jobs_end(&here);
    jobs_begin();
    shell_write("slow.sh", "while ! test -e go; do sleep 0.1; done\n");
    here = START("--num_gpus=1", "--venv_script=slow.sh", "--dead_after=100", "/bin/true");
    await_words("err", " waits for node 0 (localhost), which makes ready its folder, program, cores and files; it has");
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

START_TEST(a_host_is_called_again)
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

/* The process that carried the connection of a silent host is ended and reaped. */
START_TEST(a_host_that_is_silent)
{
    shell_enter();
    if (cluster_start(2, NULL)) {
        jobs_begin();
        name_cluster();
        job here = START("--hosts", hosts, "--ssh_port", port, "--max_restarts=1", "--restart_delay=0.5",
                         "--dead_after=1.5", "--heartbeat=0.3", "--oversubscribe", SHELL,
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

/* A job that continues without an unreachable host sleeps in poll (no busy loop), although the connection has ended. */
START_TEST(a_host_that_cannot_be_reached)
{
    struct rusage before, after;
    jobs_begin();
    getrusage(RUSAGE_CHILDREN, &before);
    RUN(here, "--hosts=localhost:1,127.0.0.9:1", "--ssh_port=1", "--nnodes=1:2", "--last_call=0.5",
        "--master_addr=127.0.0.1", "--oversubscribe", "/bin/sleep", "4");
    getrusage(RUSAGE_CHILDREN, &after);
    jobs_check_code(&here, 0);
    jobs_check_has(here.err, "1 of 2 nodes take part");
    ck_assert_int_le(after.ru_stime.tv_sec * 1000 + after.ru_stime.tv_usec / 1000 - before.ru_stime.tv_sec * 1000 -
                         before.ru_stime.tv_usec / 1000,
                     250);
    jobs_end(&here);
}
END_TEST

int main(void)
{
    const char *role = getenv("CSPEED_TEST_ROLE");
    if (role)
        return meet();
    const TTest *const tests[] = { a_second_attempt_may_do,
                                   not_every_end_is_tried_again,
                                   a_signal_is_no_failure,
                                   a_lost_node_is_done_without_and_may_come_back,
                                   nodes_that_come_or_stay_away,
                                   world_sizes_are_those_of_the_configuration,
                                   a_node_that_never_comes,
                                   the_port_that_is_given_is_the_ranks_own,
                                   who_is_waited_for,
                                   a_host_is_called_again,
                                   a_host_that_is_silent,
                                   a_host_that_cannot_be_reached };
    return suite_run("restart", tests, (int)(sizeof tests / sizeof *tests));
}
