/* test_rendezvous.c - nodes connect to the front: secrets, ports, addresses, and how long a node waits. */
#include "joining.h"
#include "ports.h"
#include "suite.h"
#include "ground/codes.h"

#include "comm/store/store.h"
#include "security/join.h"
#include "base/status.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *front, *caller; /* the secrets of the front and of the joining node; NULL: none */
    const char *front_job, *caller_job;
    int code;
    const char *says, *news;
} joins[] = {
    { "a secret of 16 bytes or more", "a secret of 16 bytes or more", NULL, NULL, 0, "", NULL },
    { NULL, NULL, NULL, NULL, 0, "", NULL },
    { "a secret of 16 bytes or more", "a secret of 16 bytes or more", "one", "one", 0, "", NULL },
    { "a secret of 16 bytes or more", "another secret of this length", NULL, NULL, 76, "secret", "secret" },
    { "a secret of 16 bytes or more", NULL, NULL, NULL, 76, "secret", "no secret" },
    { NULL, "a secret of 16 bytes or more", NULL, NULL, 76, "secret", "secret" },
    { "a secret of 16 bytes or more", "a secret of 16 bytes or more", "one", "two", 76, "another job", "\"two\"" },
    { "a secret of 16 bytes or more", "fifteen bytes..", NULL, NULL, 65,
      "at least 16 are needed: `openssl rand -hex 32", NULL },
};

START_TEST(only_nodes_with_the_secret_join)
{
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        joining_site front, node;
        cl_rendezvous *rendezvous;
        cl_joined_node accepted;
        char text[4096];
        int output;
        joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
        front.options.job_id = joins[i].front_job;
        joining_set_secret(joins[i].front);
        ck_assert_msg(cl_rendezvous_open(&rendezvous, &front.plan) == 0, "%s", cs_error());
        ck_assert_int_eq(cl_rendezvous_port(rendezvous), front.plan.master_port);
        joining_make(&node, "127.0.0.1", front.plan.master_port);
        node.options.job_id = joins[i].caller_job;
        node.plan.node_rank = 0;
        joining_set_secret(joins[i].caller);
        pid_t pid = joining_start(&node, &output);
        bool joined = joining_serve(rendezvous, &accepted, output);
        ck_assert_msg(joined == !joins[i].code, "row %zu", i);
        if (joined) {
            ck_assert_int_eq(accepted.node_rank, 0);
            ck_assert_str_eq(accepted.host, "worker");
            ck_assert(accepted.digest == cl_hostplan_digest(&front.plan));
            ck_assert_int_eq(accepted.sealed, joins[i].front != NULL);
            joining_exchange(&accepted);
        }
        int code = joining_finish(pid, output, text, sizeof text);
        ck_assert_msg(code == joins[i].code && strstr(text, joins[i].says), "row %zu: %d %s", i, code, text);
        const char *news;
        while (!(news = cl_rendezvous_report(rendezvous)) && joins[i].news)
            ck_assert(!joining_turn(rendezvous, &accepted));
        ck_assert_msg(joins[i].news ? news && strstr(news, joins[i].news) : !news, "row %zu: %s", i, news ? news : "-");
        cl_rendezvous_close(rendezvous);
    }
}
END_TEST

/* While the job has all its nodes, further nodes are refused, and the port stays reserved. Later nodes may join
 * again. */
START_TEST(the_port_is_kept_while_not_listening)
{
    joining_site front, node;
    cl_rendezvous *rendezvous, *other;
    cl_joined_node first, second;
    char text[4096];
    int output, late;
    joining_set_secret(joining_secret);
    joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
    joining_make(&node, "127.0.0.1", front.plan.master_port);
    ck_assert_int_eq(cl_rendezvous_open(&rendezvous, &front.plan), 0);
    pid_t pid = joining_start(&node, &output);
    ck_assert(joining_serve(rendezvous, &first, output));
    cl_rendezvous_listen(rendezvous, false);
    ck_assert_int_eq(cl_rendezvous_open(&other, &node.plan), CL_CODE_SLOTS);
    struct pollfd polled[1];
    ck_assert_int_eq(cl_rendezvous_poll(rendezvous, polled, 1), 0);
    node.options.rdzv_timeout = 0.3;
    pid_t refused = joining_start(&node, &late);
    ck_assert_int_eq(joining_finish(refused, late, text, sizeof text), CL_CODE_PEER);
    ck_assert_msg(strstr(text, "its job has all its nodes"), "%s", text);
    /* Listens on the same port again, although one of its connections is still open. */
    cl_rendezvous_listen(rendezvous, true);
    node.options.rdzv_timeout = SUITE_PATIENCE;
    pid_t again = joining_start(&node, &late);
    ck_assert(joining_serve(rendezvous, &second, late));
    joining_exchange(&first);
    joining_exchange(&second);
    ck_assert_int_eq(joining_finish(pid, output, text, sizeof text), 0);
    ck_assert_int_eq(joining_finish(again, late, text, sizeof text), 0);
    cl_rendezvous_close(rendezvous);
}
END_TEST

typedef enum { BOUND, SILENT, OTHER, STORE } holder;

/* Starts a process that holds the port as ranks may: it does not listen (BOUND), listens and sends nothing (SILENT),
 * is an unrelated program (OTHER), or is rank 0 of our job and waits for another rank (STORE). */
static pid_t hold_port(int port, holder who, bool keyed)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0), key[2];
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    if (who != BOUND)
        ck_assert_int_eq(listen(fd, 8), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0) {
        close(fd);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the test fails, this process is killed */
    char text[16];
    ce_store *store;
    cs_world world = { .rank = 0, .size = 2, .port = port };
    snprintf(world.address, sizeof world.address, "127.0.0.1");
    snprintf(world.job, sizeof world.job, "none");
    snprintf(text, sizeof text, "%d", fd);
    setenv("CSPEED_MASTER_FD", text, 1);
    if (keyed && pipe(key) == 0 && write(key[1], joining_secret, 16) == 16 && write(key[1], joining_secret, 16) == 16) {
        snprintf(text, sizeof text, "%d", key[0]);
        setenv("CSPEED_KEY_FD", text, 1);
    }
    if (who == STORE)
        ce_store_open(&store, &world, 600);
    while (who == OTHER) {
        int caller = accept(fd, NULL, NULL);
        if (caller >= 0 && write(caller, "220 not a front\n", 16) == 16)
            close(caller);
    }
    pause();
    _exit(1);
}

/* A node that may join between two attempts keeps trying while the ranks use the port. */
START_TEST(a_node_waits_while_ranks_use_the_port)
{
    for (int row = 0; row < 8; row++) {
        joining_site front, node;
        cl_rendezvous *rendezvous;
        cl_joined_node accepted;
        char text[4096];
        int output;
        holder who = (holder)(row / 2);
        joining_set_secret(row % 2 ? joining_secret : NULL);
        joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
        joining_make(&node, "127.0.0.1", front.plan.master_port);
        node.options.max_restarts = 1;
        node.plan.master_port_given = true;
        node.plan.max_nodes = 2;
        ck_assert_int_eq(cl_rendezvous_open(&rendezvous, &front.plan), 0);
        cl_rendezvous_share_port(rendezvous);
        pid_t rank = hold_port(front.plan.master_port, who, row % 2);
        pid_t pid = joining_start(&node, &output);
        ssize_t length = read(output, text, sizeof text - 1);
        text[length > 0 ? length : 0] = '\0';
        ck_assert_msg(strstr(text, "this node comes when the next attempt begins; "), "row %d: %s", row, text);
        ck_assert_msg(!strstr(text, "not cspeed's first node") == (who == BOUND), "row %d: %s", row, text);
        cl_rendezvous_listen(rendezvous, true); /* cannot succeed while another process listens on the port */
        kill(rank, SIGKILL);
        ck_assert_int_eq(waitpid(rank, NULL, 0), rank);
        cl_rendezvous_listen(rendezvous, true);
        ck_assert_msg(joining_serve(rendezvous, &accepted, output), "row %d", row);
        joining_exchange(&accepted);
        ck_assert_int_eq(joining_finish(pid, output, text, sizeof text), 0);
        cl_rendezvous_close(rendezvous);
    }
}
END_TEST

/* A refusal by the front ends the node, also on the port of the ranks. The answer of another process, for example
 * a rank, ends the node only if no other attempt can follow. */
START_TEST(a_refusal_by_the_front_is_final)
{
    joining_site front, node;
    cl_rendezvous *rendezvous;
    char text[4096];
    int output;
    for (int again = 0; again < 2; again++) {
        joining_set_secret("another secret of this length");
        joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
        joining_make(&node, "127.0.0.1", front.plan.master_port);
        node.options.max_restarts = again;
        node.plan.master_port_given = true;
        pid_t pid, rank = 0;
        if (again) {
            ck_assert_int_eq(cl_rendezvous_open(&rendezvous, &front.plan), 0);
            cl_rendezvous_share_port(rendezvous);
            cl_rendezvous_listen(rendezvous, true);
            joining_set_secret(joining_secret);
            pid = joining_start(&node, &output);
            cl_joined_node accepted;
            while (!cl_rendezvous_report(rendezvous))
                ck_assert(!joining_turn(rendezvous, &accepted));
            cl_rendezvous_close(rendezvous);
        } else {
            rank = hold_port(front.plan.master_port, STORE, true);
            pid = joining_start(&node, &output);
        }
        ck_assert_int_eq(joining_finish(pid, output, text, sizeof text), CL_CODE_DISAGREE);
        ck_assert_msg(strstr(text, again ? "secrets differ" : "rendezvous of the ranks"), "%s", text);
        if (rank) {
            kill(rank, SIGKILL);
            ck_assert_int_eq(waitpid(rank, NULL, 0), rank);
        }
    }
}
END_TEST

/* ---- ports and addresses ------------------------------------------------------------------------ */

START_TEST(a_taken_port_is_reported_with_its_owner)
{
    joining_site front, second;
    cl_rendezvous *rendezvous, *other;
    char owner[64];
    joining_set_secret(joining_secret);
    joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
    joining_make(&second, "127.0.0.1", front.plan.master_port);
    ck_assert_int_eq(cl_rendezvous_open(&rendezvous, &front.plan), 0);
    ck_assert_int_eq(cl_rendezvous_open(&other, &second.plan), CL_CODE_SLOTS);
    ck_assert_ptr_null(other);
    snprintf(owner, sizeof owner, "(pid %d)", getpid());
    ck_assert_msg(strstr(cs_error(), owner) && strstr(cs_error(), "--master_port"), "%s", cs_error());
    /* Another address with the same port is another rendezvous. */
    joining_make(&second, "127.0.0.2", front.plan.master_port);
    ck_assert_msg(cl_rendezvous_open(&other, &second.plan) == 0, "%s", cs_error());
    cl_rendezvous_close(other);
    cl_rendezvous_close(rendezvous);
    joining_make(&front, "192.0.2.1", ports_free("127.0.0.1")); /* no host has this address */
    ck_assert_int_eq(cl_rendezvous_open(&rendezvous, &front.plan), CL_CODE_SYSTEM);
}
END_TEST

START_TEST(without_a_secret_only_loopback_is_allowed)
{
    static const struct {
        const char *address, *interface;
        bool insecure;
        int code;
    } rows[] = {
        { "127.0.0.1", NULL, false, 0 }, { "::1", NULL, false, 0 },        { "localhost", NULL, false, 0 },
        { "0.0.0.0", NULL, false, 64 },  { "some-name", NULL, false, 64 }, { "", NULL, false, 64 },
        { "0.0.0.0", NULL, true, 0 },    { "some-name", "lo", false, 0 },  { "some-name", "nosuch0", false, 64 },
    };
    joining_set_secret(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        joining_site front;
        cl_rendezvous *rendezvous;
        unsetenv("CSPEED_INSECURE_JOIN");
        joining_make(&front, rows[i].address, ports_free("127.0.0.1"));
        front.options.insecure_join = rows[i].insecure;
        front.options.master_if = rows[i].interface;
        int code = cl_rendezvous_open(&rendezvous, &front.plan);
        ck_assert_msg(code == rows[i].code, "%s: %d %s", rows[i].address, code, cs_error());
        cl_rendezvous_close(rendezvous);
    }
    unsetenv("CSPEED_INSECURE_JOIN");
}
END_TEST

START_TEST(a_secret_file_must_be_private)
{
    joining_site front;
    cl_rendezvous *rendezvous;
    char path[] = "/tmp/cspeed-secret-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, "0123456789abcdef\n", 17), 17);
    joining_set_secret(NULL);
    for (int i = 0; i < 3; i++) {
        joining_make(&front, "0.0.0.0", ports_free("127.0.0.1"));
        setenv("CSPEED_SECRET_FILE", i == 2 ? "/no/such/file" : path, 1);
        fchmod(fd, i == 0 ? 0600 : 0644);
        int code = cl_rendezvous_open(&rendezvous, &front.plan);
        ck_assert_int_eq(code, i == 0 ? 0 : i == 1 ? CL_CODE_FILE : CL_CODE_NO_FILE);
        cl_rendezvous_close(rendezvous);
    }
    close(fd);
    unlink(path);
    joining_set_secret(NULL);
}
END_TEST

/* ---- how long a joining node waits ---------------------------------------------------------------- */

START_TEST(a_node_waits_for_the_front)
{
    joining_site front;
    cl_rendezvous *rendezvous;
    cl_joined_node accepted;
    char text[4096];
    int output;
    joining_set_secret(joining_secret);
    joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
    pid_t pid = joining_start(&front, &output);
    usleep(500000); /* until here no process listens */
    int trap = -1;
    ck_assert_int_eq(cl_rendezvous_open(&rendezvous, &front.plan), 0);
    struct pollfd polled[1];
    cl_rendezvous_poll(rendezvous, polled, 1);
    while (trap < 0) { /* if a connection is closed without an answer, the node tries again */
        poll(polled, 1, 1000);
        trap = accept(polled[0].fd, NULL, NULL);
    }
    close(trap);
    ck_assert(joining_serve(rendezvous, &accepted, output));
    joining_exchange(&accepted);
    ck_assert_int_eq(joining_finish(pid, output, text, sizeof text), 0);
    cl_rendezvous_close(rendezvous);
}
END_TEST

START_TEST(a_node_gives_up_after_its_time_limit)
{
    joining_site front;
    char text[4096];
    int output;
    joining_set_secret(joining_secret);
    joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
    front.options.rdzv_timeout = 0.5;
    pid_t pid = joining_start(&front, &output);
    ck_assert_int_eq(joining_finish(pid, output, text, sizeof text), CL_CODE_PEER);
    ck_assert_msg(strstr(text, "Connection refused") && strstr(text, "--rdzv_timeout"), "%s", text);
    joining_make(&front, "no-such-host.invalid", 29500);
    front.options.rdzv_timeout = 0.5;
    pid = joining_start(&front, &output);
    ck_assert_int_eq(joining_finish(pid, output, text, sizeof text), CL_CODE_PEER);
    ck_assert_msg(strstr(text, "name cannot be resolved") != NULL, "%s", text);
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, &before);
    joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
    pid = joining_start(&front, &output);
    kill(pid, SIGINT);
    ck_assert_int_eq(joining_finish(pid, output, text, sizeof text), CL_CODE_SIGNAL + SIGINT);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
END_TEST

/* Sixty-four nodes join at the same time. */
START_TEST(many_nodes_join_at_once)
{
    enum { NODES = 64 };
    joining_site front, nodes[NODES];
    cl_rendezvous *rendezvous;
    cl_joined_node accepted;
    char text[4096];
    int outputs[NODES];
    pid_t pids[NODES];
    bool seen[NODES] = { false };
    joining_set_secret(joining_secret);
    joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
    ck_assert_int_eq(cl_rendezvous_open(&rendezvous, &front.plan), 0);
    for (int i = 0; i < NODES; i++) {
        joining_make(&nodes[i], "127.0.0.1", front.plan.master_port);
        nodes[i].plan.node_rank = i;
        pids[i] = joining_start(&nodes[i], &outputs[i]);
    }
    for (int i = 0; i < NODES; i++) {
        while (!joining_turn(rendezvous, &accepted))
            ;
        ck_assert(accepted.node_rank >= 0 && accepted.node_rank < NODES && !seen[accepted.node_rank]);
        seen[accepted.node_rank] = true;
        joining_exchange(&accepted);
    }
    for (int i = 0; i < NODES; i++)
        ck_assert_int_eq(joining_finish(pids[i], outputs[i], text, sizeof text), 0);
    cl_rendezvous_close(rendezvous);
}
END_TEST

SUITE_MAIN("rendezvous", only_nodes_with_the_secret_join, the_port_is_kept_while_not_listening,
           a_node_waits_while_ranks_use_the_port, a_refusal_by_the_front_is_final,
           a_taken_port_is_reported_with_its_owner, without_a_secret_only_loopback_is_allowed,
           a_secret_file_must_be_private, a_node_waits_for_the_front, a_node_gives_up_after_its_time_limit,
           many_nodes_join_at_once)
