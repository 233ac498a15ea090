/* test_rendezvous_intruders.c - programs that connect to the rendezvous and do not know the secret do not keep nodes
 * from joining. */
#include "joining.h"
#include "ports.h"
#include "suite.h"
#include "ground/codes.h"

#include "base/clock.h"
#include "security/join.h"
#include "base/status.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A node joins while hundreds of connections that send nothing, or invalid bytes, stay open. One line reports them. */
START_TEST(unauthenticated_callers_delay_no_node)
{
    enum { CALLERS = 300 };
    joining_site front;
    cl_rendezvous *rendezvous;
    cl_joined_node accepted;
    struct pollfd polled[JOINING_POLLED];
    char text[4096];
    int fds[CALLERS], output, lines = 0;
    joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
    joining_set_secret(joining_secret);
    ck_assert_int_eq(cl_rendezvous_open(&rendezvous, &front.plan), 0);
    for (int i = 0; i < CALLERS; i++) {
        fds[i] = joining_connect(front.plan.master_port);
        if (i % 3 == 0)
            ck_assert_int_gt(send(fds[i], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 0);
        if (i % 3 == 1) /* the head of a hello message without its body */
            ck_assert_int_gt(send(fds[i], "CSJN\3\1\0\177", 8, MSG_NOSIGNAL), 0);
        cl_rendezvous_accept(rendezvous);
        cl_rendezvous_advance(rendezvous, &accepted);
    }
    pid_t pid = joining_start(&front, &output);
    ck_assert(joining_serve(rendezvous, &accepted, output));
    ck_assert_int_gt(cl_rendezvous_poll(rendezvous, polled, JOINING_POLLED), CALLERS / 3); /* of the callers */
    joining_exchange(&accepted);
    ck_assert_int_eq(joining_finish(pid, output, text, sizeof text), 0);
    for (const char *line; (line = cl_rendezvous_report(rendezvous)); lines++)
        ck_assert_msg(strstr(line, "127.0.0.1") != NULL, "%s", line);
    ck_assert_int_eq(lines, 1);
    for (int i = 0; i < CALLERS; i++)
        close(fds[i]);
    cl_rendezvous_close(rendezvous);
}
END_TEST

/* A node that takes long to authenticate keeps its connection, because it has named its job. Connections that have sent
 * nothing are closed. */
START_TEST(a_slow_node_keeps_its_connection)
{
    /* more connections than the rendezvous keeps, but few enough for the time limit of a handshake */
    enum { CALLERS = 160 };
    static const unsigned char who[] = "0\0slow\0"
                                       "0";
    joining_site front;
    cl_rendezvous *rendezvous;
    cl_joined_node accepted;
    ce_join join;
    unsigned char key[CE_MAC_BYTES];
    int fds[CALLERS];
    joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
    joining_set_secret(joining_secret);
    ce_mac_key(joining_secret, strlen(joining_secret), key);
    ck_assert_int_eq(cl_rendezvous_open(&rendezvous, &front.plan), 0);
    int node = joining_connect(front.plan.master_port);
    ck_assert_int_eq(ce_join_begin(&join, true, key, "none", CE_JOIN_NODES, who, sizeof who), CS_OK);
    ck_assert_int_eq(ce_join_advance(&join, node), CE_JOIN_WAITS); /* the node's hello message has been sent */
    while (poll(&(struct pollfd){ .fd = node, .events = POLLIN }, 1, 0) == 0) /* until the answer is there */
        ck_assert(!joining_turn(rendezvous, &accepted));
    for (int i = 0; i < CALLERS; i++) {
        fds[i] = joining_connect(front.plan.master_port);
        ck_assert_int_eq(cl_rendezvous_accept(rendezvous), 0);
        ck_assert(!cl_rendezvous_advance(rendezvous, &accepted));
    }
    do
        ck_assert_int_ne(ce_join_advance(&join, node), CE_JOIN_REFUSED);
    while (!joining_turn(rendezvous, &accepted));
    ck_assert_str_eq(accepted.host, "slow");
    close(accepted.fd);
    close(node);
    for (int i = 0; i < CALLERS; i++)
        close(fds[i]);
    cl_rendezvous_close(rendezvous);
}
END_TEST

/* Limits this process to `more` additional open files. Returns the previous limits. */
static struct rlimit limit_files(int more)
{
    struct rlimit before;
    int lowest = dup(STDERR_FILENO); /* no descriptor above this one is open in these tests */
    close(lowest);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)(lowest + more), before.rlim_max }), 0);
    return before;
}

/* If no file descriptor is free, the connection of an unauthenticated caller is closed to accept the next one. If there
 * is no such caller, the rendezvous reports the lack, and waits without a busy loop. */
START_TEST(a_lack_of_descriptors_is_reported)
{
    joining_site front;
    cl_rendezvous *rendezvous;
    cl_joined_node accepted;
    struct pollfd polled[JOINING_POLLED];
    int callers[2];
    joining_set_secret(joining_secret);
    joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
    ck_assert_int_eq(cl_rendezvous_open(&rendezvous, &front.plan), 0);
    for (int i = 0; i < 2; i++)
        callers[i] = joining_connect(front.plan.master_port);
    struct rlimit before = limit_files(0);
    ck_assert_int_eq(cl_rendezvous_accept(rendezvous), CL_CODE_SYSTEM);
    ck_assert_msg(strstr(cs_error(), "too many open files: raise ulimit -n"), "%s", cs_error());
    ck_assert_int_eq(cl_rendezvous_poll(rendezvous, polled, JOINING_POLLED), 0);
    ck_assert(cl_rendezvous_due(rendezvous) > ce_clock_now() && cl_rendezvous_due(rendezvous) < INT64_MAX);
    while (cl_rendezvous_due(rendezvous) < INT64_MAX)
        usleep(10000);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    limit_files(1);
    ck_assert_int_eq(cl_rendezvous_accept(rendezvous), 0);
    ck_assert(!cl_rendezvous_advance(rendezvous, &accepted));
    /* Two descriptors are polled: the listening socket, and the second caller. */
    ck_assert_int_eq(cl_rendezvous_poll(rendezvous, polled, JOINING_POLLED), 2);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 2; i++)
        close(callers[i]);
    cl_rendezvous_close(rendezvous);
}
END_TEST

/* Records a complete join and sends it again, byte for byte. */
START_TEST(a_replay_is_refused)
{
    joining_site front;
    cl_rendezvous *rendezvous;
    cl_joined_node accepted;
    char said[8192];
    size_t said_bytes = 0;
    int output, port = ports_free("127.0.0.1");
    joining_make(&front, "127.0.0.1", ports_free("127.0.0.1"));
    joining_set_secret(joining_secret);
    ck_assert_int_eq(cl_rendezvous_open(&rendezvous, &front.plan), 0);
    joining_site between;
    joining_make(&between, "127.0.0.1", port);
    /* Only the forwarder's listening socket is used; this test copies the bytes. */
    cl_rendezvous *forwarder;
    ck_assert_int_eq(cl_rendezvous_open(&forwarder, &between.plan), 0);
    struct pollfd polled[1];
    ck_assert_int_eq(cl_rendezvous_poll(forwarder, polled, 1), 1);
    pid_t pid = joining_start(&between, &output);
    int caller = -1, wire = joining_connect(front.plan.master_port);
    while (caller < 0) {
        poll(polled, 1, 1000);
        caller = accept4(polled[0].fd, NULL, NULL, SOCK_CLOEXEC);
    }
    bool joined = false;
    while (!joined) {
        char bytes[4096];
        ssize_t count = recv(caller, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count > 0) {
            memcpy(said + said_bytes, bytes, (size_t)count);
            said_bytes += (size_t)count;
            ck_assert_int_eq(send(wire, bytes, (size_t)count, MSG_NOSIGNAL), count);
        }
        joined = joining_turn(rendezvous, &accepted);
        count = recv(wire, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count > 0)
            ck_assert_int_eq(send(caller, bytes, (size_t)count, MSG_NOSIGNAL), count);
    }
    int again = joining_connect(front.plan.master_port);
    ck_assert_int_eq(send(again, said, said_bytes, MSG_NOSIGNAL), (ssize_t)said_bytes);
    cl_joined_node second;
    const char *news;
    while (!(news = cl_rendezvous_report(rendezvous)))
        ck_assert(!joining_turn(rendezvous, &second));
    ck_assert_msg(strstr(news, "repeats recorded messages") != NULL, "%s", news);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    const int fds[] = { accepted.fd, again, wire, caller, output };
    for (int i = 0; i < 5; i++)
        close(fds[i]);
    cl_rendezvous_close(forwarder);
    cl_rendezvous_close(rendezvous);
}
END_TEST

SUITE_MAIN("rendezvous_intruders", unauthenticated_callers_delay_no_node, a_slow_node_keeps_its_connection,
           a_lack_of_descriptors_is_reported, a_replay_is_refused)
