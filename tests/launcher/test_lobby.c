/* test_lobby.c - joining through the lobby: nodes that know the secret are accepted, and strangers cannot disturb
 * them. */
#include "ports.h"
#include "suite.h"
#include "codes.h"
#include "wire/link.h"
#include "wire/lobby.h"

#include "base/clock.h"
#include "comm/store.h"
#include "base/join.h"
#include "base/status.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_POLLED = 160 };

static const char *const secret = "a secret of 16 bytes or more";

/* The part of a plan that the lobby reads. */
typedef struct {
    cl_options options;
    cl_host host;
    cl_plan_node node;
    cl_plan plan;
} site;

static void make_site(site *s, const char *address, int port)
{
    static char name[] = "worker";
    static char *arguments[] = { name, NULL };
    memset(s, 0, sizeof *s);
    s->options.rdzv_timeout = 10;
    s->host.name = name;
    s->node = (cl_plan_node){ .host = &s->host };
    s->plan = (cl_plan){ .options = &s->options, .nodes = &s->node, .node_count = 1, .rank_count = 1, .no_ssh = true };
    s->plan.master_port = port;
    s->plan.arguments = arguments;
    snprintf(s->plan.master_addr, sizeof s->plan.master_addr, "%s", address);
}

/* Serves the lobby until a node has joined or the time is over. */
static bool serve(cl_lobby *lobby, cl_guest_node *guest, double seconds)
{
    for (double until = ce_clock_seconds() + seconds; ce_clock_seconds() < until;) {
        struct pollfd polled[MOST_POLLED];
        cl_lobby_accept(lobby);
        if (cl_lobby_serve(lobby, guest))
            return true;
        poll(polled, (nfds_t)cl_lobby_poll(lobby, polled, MOST_POLLED), 20);
    }
    return false;
}

/* Starts a node as a separate process: it joins, receives a message and sends one back. *output receives its stderr. */
static pid_t call(const site *caller, int *output)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        cl_guest_node guest;
        cl_link link;
        cl_message message;
        dup2(ends[1], STDERR_FILENO);
        int code = cl_lobby_call(&caller->plan, &guest);
        if (code) {
            fprintf(stderr, "%s\n", cs_error());
            _exit(code);
        }
        cl_link_open(&link, guest.fd, guest.fd, guest.sealed ? guest.key : NULL, true);
        while (!link.broken && !cl_link_next(&link, &message)) {
            poll(&(struct pollfd){ .fd = guest.fd, .events = POLLIN }, 1, 1000);
            cl_link_fill(&link, 0);
        }
        cl_link_say(&link, CL_LINK_SAY, message.rank, "%.*s", (int)message.length, message.bytes);
        cl_link_flush(&link);
        _exit(link.broken);
    }
    close(ends[1]);
    *output = ends[0];
    return pid;
}

static int finish(pid_t pid, int output, char *text, size_t room)
{
    int status;
    ssize_t length = read(output, text, room - 1);
    text[length > 0 ? length : 0] = '\0';
    close(output);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The front's side of the exchange that call() makes. */
static void talk(const cl_guest_node *guest)
{
    cl_link link;
    cl_message message = { 0 };
    cl_link_open(&link, guest->fd, guest->fd, guest->sealed ? guest->key : NULL, false);
    cl_link_say(&link, CL_LINK_SAY, 7, "hello");
    cl_link_flush(&link);
    for (int i = 0; i < 100 && !cl_link_next(&link, &message); i++) {
        poll(&(struct pollfd){ .fd = guest->fd, .events = POLLIN }, 1, 100);
        cl_link_fill(&link, 0);
    }
    ck_assert_uint_eq(message.length, 5);
    ck_assert_int_eq(memcmp(message.bytes, "hello", 5), 0);
    cl_link_close(&link);
}

static const struct {
    const char *front, *caller; /* the secrets; NULL: none */
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
    { "a secret of 16 bytes or more", "fifteen bytes..", NULL, NULL, 65, "at least 16 are needed: openssl rand -hex 32",
      NULL },
};

static void set_secret(const char *value)
{
    unsetenv("CSPEED_SECRET_FILE");
    if (value)
        setenv("CSPEED_SECRET", value, 1);
    else
        unsetenv("CSPEED_SECRET");
}

START_TEST(who_knows_the_secret_joins)
{
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        site front, node;
        cl_lobby *lobby;
        cl_guest_node guest;
        char text[4096];
        int output;
        make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
        front.options.job_id = joins[i].front_job;
        set_secret(joins[i].front);
        ck_assert_msg(cl_lobby_open(&lobby, &front.plan) == 0, "%s", cs_error());
        ck_assert_int_eq(cl_lobby_port(lobby), front.plan.master_port);
        make_site(&node, "127.0.0.1", front.plan.master_port);
        node.options.job_id = joins[i].caller_job;
        node.plan.node_rank = 0;
        set_secret(joins[i].caller);
        pid_t pid = call(&node, &output);
        bool joined = serve(lobby, &guest, joins[i].code ? 0.5 : 10);
        ck_assert_msg(joined == !joins[i].code, "row %zu", i);
        if (joined) {
            ck_assert_int_eq(guest.node_rank, 0);
            ck_assert_str_eq(guest.host, "worker");
            ck_assert(guest.digest == cl_hostplan_digest(&front.plan));
            ck_assert_int_eq(guest.sealed, joins[i].front != NULL);
            talk(&guest);
        }
        int code = finish(pid, output, text, sizeof text);
        ck_assert_msg(code == joins[i].code && strstr(text, joins[i].says), "row %zu: %d %s", i, code, text);
        const char *news = cl_lobby_news(lobby);
        ck_assert_msg(joins[i].news ? news && strstr(news, joins[i].news) : !news, "row %zu: %s", i, news ? news : "-");
        cl_lobby_close(lobby);
    }
}
END_TEST

/* ---- strangers ---------------------------------------------------------------------------------- */

static int dial(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Hundreds of callers that say nothing, or nonsense, do not keep a node from joining soon; one line reports them. */
START_TEST(strangers_disturb_nobody)
{
    enum { STRANGERS = 300 };
    site front;
    cl_lobby *lobby;
    cl_guest_node guest;
    char text[4096];
    int fds[STRANGERS], output, lines = 0;
    make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
    set_secret(secret);
    ck_assert_int_eq(cl_lobby_open(&lobby, &front.plan), 0);
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = dial(front.plan.master_port);
        if (i % 3 == 0)
            ck_assert_int_gt(send(fds[i], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 0);
        if (i % 3 == 1) /* the head of a hello message whose body does not follow */
            ck_assert_int_gt(send(fds[i], "CSJN\3\1\0\177", 8, MSG_NOSIGNAL), 0);
        cl_lobby_accept(lobby);
        cl_lobby_serve(lobby, &guest);
    }
    pid_t pid = call(&front, &output);
    double began = ce_clock_seconds();
    ck_assert(serve(lobby, &guest, 5));
    ck_assert_double_lt(ce_clock_seconds() - began, 5);
    talk(&guest);
    ck_assert_int_eq(finish(pid, output, text, sizeof text), 0);
    for (const char *line; (line = cl_lobby_news(lobby)); lines++)
        ck_assert_msg(strstr(line, "127.0.0.1") != NULL, "%s", line);
    ck_assert_int_eq(lines, 1);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    cl_lobby_close(lobby);
}
END_TEST

/* A node that takes long to authenticate keeps its place, since it has named its job; silent strangers are removed. */
START_TEST(a_slow_node_is_not_crowded_out)
{
    enum { STRANGERS = 300 };
    static const unsigned char who[] = "0\0slow\0"
                                       "0";
    site front;
    cl_lobby *lobby;
    cl_guest_node guest;
    ce_join join;
    unsigned char key[CS_MAC_BYTES];
    int fds[STRANGERS];
    bool joined = false;
    make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
    set_secret(secret);
    ce_mac_key(secret, strlen(secret), key);
    ck_assert_int_eq(cl_lobby_open(&lobby, &front.plan), 0);
    int node = dial(front.plan.master_port);
    ck_assert_int_eq(ce_join_begin(&join, true, key, "none", CS_JOIN_NODES, who, sizeof who), CS_OK);
    ck_assert_int_eq(ce_join_advance(&join, node), CS_JOIN_WAITS); /* its hello message has been sent */
    ck_assert(!serve(lobby, &guest, 0.2));
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = dial(front.plan.master_port);
        ck_assert(!serve(lobby, &guest, 0.001));
    }
    for (int turn = 0; turn < 200 && !joined; turn++) {
        ck_assert_int_ne(ce_join_advance(&join, node), CS_JOIN_REFUSED);
        joined = serve(lobby, &guest, 0.02);
    }
    ck_assert(joined);
    ck_assert_str_eq(guest.host, "slow");
    close(guest.fd);
    close(node);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    cl_lobby_close(lobby);
}
END_TEST

/* While the job cannot accept nodes, callers are refused and no other process gets the port; later nodes may join
 * again. */
START_TEST(a_lobby_that_does_not_listen_keeps_its_port)
{
    site front, node;
    cl_lobby *lobby, *other;
    cl_guest_node first, second;
    char text[4096];
    int output, late;
    set_secret(secret);
    make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
    make_site(&node, "127.0.0.1", front.plan.master_port);
    ck_assert_int_eq(cl_lobby_open(&lobby, &front.plan), 0);
    pid_t pid = call(&node, &output);
    ck_assert(serve(lobby, &first, 10));
    cl_lobby_listen(lobby, false);
    ck_assert_int_eq(cl_lobby_open(&other, &node.plan), CL_CODE_SLOTS);
    struct pollfd polled[1];
    ck_assert_int_eq(cl_lobby_poll(lobby, polled, 1), 0);
    node.options.rdzv_timeout = 0.3;
    pid_t refused = call(&node, &late);
    ck_assert_int_eq(finish(refused, late, text, sizeof text), CL_CODE_PEER);
    ck_assert_msg(strstr(text, "its job has all its nodes"), "%s", text);
    cl_lobby_listen(lobby, true); /* the port can be used again although one of its connections is open */
    node.options.rdzv_timeout = 10;
    pid_t again = call(&node, &late);
    ck_assert(serve(lobby, &second, 10));
    talk(&first);
    talk(&second);
    ck_assert_int_eq(finish(pid, output, text, sizeof text), 0);
    ck_assert_int_eq(finish(again, late, text, sizeof text), 0);
    cl_lobby_close(lobby);
}
END_TEST

typedef enum { NOBODY, SILENT, OTHER, STORE } holder;

/* Starts a process that holds the port as the ranks of a job may: without listening (NOBODY), listening without sending
 * anything (SILENT), as an unrelated program (OTHER), or as rank 0 of our job that waits for another rank (STORE). */
static pid_t hold_port(int port, holder who, bool keyed)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0), key[2];
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    if (who != NOBODY)
        ck_assert_int_eq(listen(fd, 8), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0) {
        close(fd);
        return pid;
    }
    char text[16];
    ce_store *store;
    cs_world world = { .rank = 0, .size = 2, .port = port };
    snprintf(world.address, sizeof world.address, "127.0.0.1");
    snprintf(world.job, sizeof world.job, "none");
    snprintf(text, sizeof text, "%d", fd);
    setenv("CSPEED_MASTER_FD", text, 1);
    if (keyed && pipe(key) == 0 && write(key[1], secret, 16) == 16 && write(key[1], secret, 16) == 16) {
        snprintf(text, sizeof text, "%d", key[0]);
        setenv("CSPEED_KEY_FD", text, 1);
    }
    if (who == STORE)
        ce_store_open(&store, &world, 600);
    while (who == OTHER) {
        int caller = accept(fd, NULL, NULL);
        if (caller >= 0 && write(caller, "220 not a lobby\n", 16) == 16)
            close(caller);
    }
    pause();
    _exit(1);
}

/* A node that may join between two attempts continues to try while the ranks use their port. */
START_TEST(a_node_that_comes_while_ranks_hold_the_port)
{
    for (int row = 0; row < 8; row++) {
        site front, node;
        cl_lobby *lobby;
        cl_guest_node guest;
        char text[4096];
        int output;
        holder who = (holder)(row / 2);
        set_secret(row % 2 ? secret : NULL);
        make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
        make_site(&node, "127.0.0.1", front.plan.master_port);
        node.options.max_restarts = 1;
        node.plan.master_port_given = true;
        node.plan.max_nodes = 2;
        ck_assert_int_eq(cl_lobby_open(&lobby, &front.plan), 0);
        cl_lobby_lend(lobby);
        pid_t rank = hold_port(front.plan.master_port, who, row % 2);
        pid_t pid = call(&node, &output);
        ssize_t length = read(output, text, sizeof text - 1);
        text[length > 0 ? length : 0] = '\0';
        ck_assert_msg(strstr(text, "this node comes when the next attempt begins; 1 s of 10"), "row %d: %s", row, text);
        ck_assert_msg(!strstr(text, "not cspeed's first node") == (who == NOBODY), "row %d: %s", row, text);
        cl_lobby_listen(lobby, true); /* cannot bind the port while a rank listens on it */
        kill(rank, SIGKILL);
        ck_assert_int_eq(waitpid(rank, NULL, 0), rank);
        cl_lobby_listen(lobby, true);
        ck_assert_msg(serve(lobby, &guest, 10), "row %d", row);
        talk(&guest);
        ck_assert_int_eq(finish(pid, output, text, sizeof text), 0);
        cl_lobby_close(lobby);
    }
}
END_TEST

/* The answer of a lobby is final, also on the port of the ranks. An answer that is not from a lobby is final if no
 * other attempt can follow. */
START_TEST(answers_that_are_final)
{
    site front, node;
    cl_lobby *lobby;
    char text[4096];
    int output;
    for (int again = 0; again < 2; again++) {
        set_secret("another secret of this length");
        make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
        make_site(&node, "127.0.0.1", front.plan.master_port);
        node.options.max_restarts = again;
        node.plan.master_port_given = true;
        pid_t pid, rank = 0;
        if (again) {
            ck_assert_int_eq(cl_lobby_open(&lobby, &front.plan), 0);
            cl_lobby_lend(lobby);
            cl_lobby_listen(lobby, true);
            set_secret(secret);
            pid = call(&node, &output);
            cl_guest_node guest;
            for (double until = ce_clock_seconds() + 10; !cl_lobby_news(lobby) && ce_clock_seconds() < until;)
                ck_assert(!serve(lobby, &guest, 0.1));
            cl_lobby_close(lobby);
        } else {
            rank = hold_port(front.plan.master_port, STORE, true);
            pid = call(&node, &output);
        }
        ck_assert_int_eq(finish(pid, output, text, sizeof text), CL_CODE_DISAGREE);
        ck_assert_msg(strstr(text, again ? "secrets differ" : "ranks meet here"), "%s", text);
        if (rank) {
            kill(rank, SIGKILL);
            ck_assert_int_eq(waitpid(rank, NULL, 0), rank);
        }
    }
}
END_TEST

/* Limits this process to the files that are open now and `more`. Returns the previous limits. */
static struct rlimit limit_files(int more)
{
    struct rlimit before;
    int lowest = dup(STDERR_FILENO); /* no descriptor above this one is open in these tests */
    close(lowest);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)(lowest + more), before.rlim_max }), 0);
    return before;
}

/* If no file descriptor is free, the descriptor of a stranger is closed for the next caller. If there is no stranger,
 * the lobby reports it, and waits without a busy loop. */
START_TEST(running_out_of_descriptors_is_said)
{
    site front;
    cl_lobby *lobby;
    cl_guest_node guest;
    struct pollfd polled[MOST_POLLED];
    int strangers[2];
    set_secret(secret);
    make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
    ck_assert_int_eq(cl_lobby_open(&lobby, &front.plan), 0);
    for (int i = 0; i < 2; i++)
        strangers[i] = dial(front.plan.master_port);
    struct rlimit before = limit_files(0);
    ck_assert_int_eq(cl_lobby_accept(lobby), CL_CODE_SYSTEM);
    ck_assert_msg(strstr(cs_error(), "too many open files: raise ulimit -n"), "%s", cs_error());
    ck_assert_int_eq(cl_lobby_poll(lobby, polled, MOST_POLLED), 0);
    ck_assert(cl_lobby_due(lobby) > ce_clock_now() && cl_lobby_due(lobby) < INT64_MAX);
    while (cl_lobby_due(lobby) < INT64_MAX)
        usleep(10000);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    limit_files(1);
    ck_assert_int_eq(cl_lobby_accept(lobby), 0);
    ck_assert(!cl_lobby_serve(lobby, &guest));
    ck_assert_int_eq(cl_lobby_poll(lobby, polled, MOST_POLLED), 2); /* the listening socket, and the second stranger */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 2; i++)
        close(strangers[i]);
    cl_lobby_close(lobby);
}
END_TEST

/* Records a complete join and sends it again, byte for byte. */
START_TEST(a_replay_is_refused)
{
    site front;
    cl_lobby *lobby;
    cl_guest_node guest;
    char said[8192];
    size_t said_bytes = 0;
    int output, port = ports_free("127.0.0.1");
    make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
    set_secret(secret);
    ck_assert_int_eq(cl_lobby_open(&lobby, &front.plan), 0);
    site between;
    make_site(&between, "127.0.0.1", port);
    cl_lobby *ear; /* used only for its listening socket; the bytes are copied by this test */
    ck_assert_int_eq(cl_lobby_open(&ear, &between.plan), 0);
    struct pollfd polled[1];
    ck_assert_int_eq(cl_lobby_poll(ear, polled, 1), 1);
    pid_t pid = call(&between, &output);
    int caller = -1, wire = dial(front.plan.master_port);
    while (caller < 0) {
        poll(polled, 1, 1000);
        caller = accept4(polled[0].fd, NULL, NULL, SOCK_CLOEXEC);
    }
    bool joined = false;
    for (int turn = 0; turn < 200 && !joined; turn++) {
        char bytes[4096];
        ssize_t count = recv(caller, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count > 0) {
            memcpy(said + said_bytes, bytes, (size_t)count);
            said_bytes += (size_t)count;
            ck_assert_int_eq(send(wire, bytes, (size_t)count, MSG_NOSIGNAL), count);
        }
        joined = serve(lobby, &guest, 0.03);
        count = recv(wire, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count > 0)
            ck_assert_int_eq(send(caller, bytes, (size_t)count, MSG_NOSIGNAL), count);
    }
    ck_assert(joined);
    int again = dial(front.plan.master_port);
    ck_assert_int_eq(send(again, said, said_bytes, MSG_NOSIGNAL), (ssize_t)said_bytes);
    cl_guest_node second;
    ck_assert(!serve(lobby, &second, 0.5));
    const char *news = cl_lobby_news(lobby);
    ck_assert_msg(news && strstr(news, "replay"), "%s", news ? news : "-");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    const int fds[] = { guest.fd, again, wire, caller, output };
    for (int i = 0; i < 5; i++)
        close(fds[i]);
    cl_lobby_close(ear);
    cl_lobby_close(lobby);
}
END_TEST

/* ---- ports and addresses ------------------------------------------------------------------------ */

START_TEST(a_taken_port_is_reported_with_its_owner)
{
    site front, second;
    cl_lobby *lobby, *other;
    char owner[64];
    set_secret(secret);
    make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
    make_site(&second, "127.0.0.1", front.plan.master_port);
    ck_assert_int_eq(cl_lobby_open(&lobby, &front.plan), 0);
    ck_assert_int_eq(cl_lobby_open(&other, &second.plan), CL_CODE_SLOTS);
    ck_assert_ptr_null(other);
    snprintf(owner, sizeof owner, "(pid %d)", getpid());
    ck_assert_msg(strstr(cs_error(), owner) && strstr(cs_error(), "--master_port"), "%s", cs_error());
    make_site(&second, "127.0.0.2", front.plan.master_port); /* another address makes another lobby possible */
    ck_assert_msg(cl_lobby_open(&other, &second.plan) == 0, "%s", cs_error());
    cl_lobby_close(other);
    cl_lobby_close(lobby);
    make_site(&front, "192.0.2.1", ports_free("127.0.0.1")); /* an address that no host has */
    ck_assert_int_eq(cl_lobby_open(&lobby, &front.plan), CL_CODE_SYSTEM);
}
END_TEST

START_TEST(without_a_secret_only_loopback)
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
    set_secret(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        site front;
        cl_lobby *lobby;
        unsetenv("CSPEED_INSECURE_JOIN");
        make_site(&front, rows[i].address, ports_free("127.0.0.1"));
        front.options.insecure_join = rows[i].insecure;
        front.options.master_if = rows[i].interface;
        int code = cl_lobby_open(&lobby, &front.plan);
        ck_assert_msg(code == rows[i].code, "%s: %d %s", rows[i].address, code, cs_error());
        cl_lobby_close(lobby);
    }
    unsetenv("CSPEED_INSECURE_JOIN");
}
END_TEST

START_TEST(a_secret_file_must_be_ours)
{
    site front;
    cl_lobby *lobby;
    char path[] = "/tmp/cspeed-secret-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, "0123456789abcdef\n", 17), 17);
    set_secret(NULL);
    for (int i = 0; i < 3; i++) {
        make_site(&front, "0.0.0.0", ports_free("127.0.0.1"));
        setenv("CSPEED_SECRET_FILE", i == 2 ? "/no/such/file" : path, 1);
        fchmod(fd, i == 0 ? 0600 : 0644);
        int code = cl_lobby_open(&lobby, &front.plan);
        ck_assert_int_eq(code, i == 0 ? 0 : i == 1 ? CL_CODE_FILE : CL_CODE_NO_FILE);
        cl_lobby_close(lobby);
    }
    close(fd);
    unlink(path);
    set_secret(NULL);
}
END_TEST

/* ---- how long a caller waits -------------------------------------------------------------------- */

START_TEST(a_node_waits_for_the_front)
{
    site front;
    cl_lobby *lobby;
    cl_guest_node guest;
    char text[4096];
    int output;
    set_secret(secret);
    make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
    pid_t pid = call(&front, &output);
    usleep(500000); /* no process listens yet */
    int trap = -1;
    ck_assert_int_eq(cl_lobby_open(&lobby, &front.plan), 0);
    struct pollfd polled[1];
    cl_lobby_poll(lobby, polled, 1);
    while (trap < 0) { /* a process that accepts the connection and closes it is not the front yet */
        poll(polled, 1, 1000);
        trap = accept(polled[0].fd, NULL, NULL);
    }
    close(trap);
    ck_assert(serve(lobby, &guest, 5));
    talk(&guest);
    ck_assert_int_eq(finish(pid, output, text, sizeof text), 0);
    cl_lobby_close(lobby);
}
END_TEST

START_TEST(a_node_gives_up_in_the_end)
{
    site front;
    char text[4096];
    int output;
    set_secret(secret);
    make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
    front.options.rdzv_timeout = 0.5;
    pid_t pid = call(&front, &output);
    ck_assert_int_eq(finish(pid, output, text, sizeof text), CL_CODE_PEER);
    ck_assert_msg(strstr(text, "Connection refused") && strstr(text, "--rdzv_timeout"), "%s", text);
    make_site(&front, "no-such-host.invalid", 29500);
    front.options.rdzv_timeout = 0.5;
    pid = call(&front, &output);
    ck_assert_int_eq(finish(pid, output, text, sizeof text), CL_CODE_PEER);
    ck_assert_msg(strstr(text, "name is not known") != NULL, "%s", text);
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, &before);
    make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
    pid = call(&front, &output);
    kill(pid, SIGINT);
    ck_assert_int_eq(finish(pid, output, text, sizeof text), CL_CODE_SIGNAL + SIGINT);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
END_TEST

/* Sixty-four nodes join at the same time. */
START_TEST(many_join)
{
    enum { NODES = 64 };
    site front, nodes[NODES];
    cl_lobby *lobby;
    cl_guest_node guest;
    char text[4096];
    int outputs[NODES];
    pid_t pids[NODES];
    bool seen[NODES] = { false };
    set_secret(secret);
    make_site(&front, "127.0.0.1", ports_free("127.0.0.1"));
    ck_assert_int_eq(cl_lobby_open(&lobby, &front.plan), 0);
    for (int i = 0; i < NODES; i++) {
        make_site(&nodes[i], "127.0.0.1", front.plan.master_port);
        nodes[i].plan.node_rank = i;
        pids[i] = call(&nodes[i], &outputs[i]);
    }
    for (int i = 0; i < NODES; i++) {
        ck_assert(serve(lobby, &guest, 10));
        ck_assert(guest.node_rank >= 0 && guest.node_rank < NODES && !seen[guest.node_rank]);
        seen[guest.node_rank] = true;
        talk(&guest);
    }
    for (int i = 0; i < NODES; i++)
        ck_assert_int_eq(finish(pids[i], outputs[i], text, sizeof text), 0);
    cl_lobby_close(lobby);
}
END_TEST

SUITE_MAIN("lobby", who_knows_the_secret_joins, strangers_disturb_nobody, a_slow_node_is_not_crowded_out,
           a_lobby_that_does_not_listen_keeps_its_port, a_node_that_comes_while_ranks_hold_the_port,
           answers_that_are_final, running_out_of_descriptors_is_said, a_replay_is_refused,
           a_taken_port_is_reported_with_its_owner, without_a_secret_only_loopback, a_secret_file_must_be_ours,
           a_node_waits_for_the_front, a_node_gives_up_in_the_end, many_join)
