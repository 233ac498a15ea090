/* joining.c - a front and nodes that join it, for tests of the rendezvous. */
#include "joining.h"

#include "suite.h"
#include "wire/link.h"

#include "base/status.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const joining_secret = "a secret of 16 bytes or more";

void joining_make(joining_site *s, const char *address, int port)
{
    static char name[] = "worker";
    static char *arguments[] = { name, NULL };
    memset(s, 0, sizeof *s);
    s->options.rdzv_timeout = SUITE_PATIENCE;
    s->host.name = name;
    s->node = (cl_plan_node){ .host = &s->host };
    s->plan = (cl_plan){ .options = &s->options, .nodes = &s->node, .node_count = 1, .rank_count = 1, .no_ssh = true };
    s->plan.master_port = port;
    s->plan.arguments = arguments;
    snprintf(s->plan.master_addr, sizeof s->plan.master_addr, "%s", address);
}

bool joining_turn(cl_rendezvous *rendezvous, cl_joined_node *node)
{
    struct pollfd polled[JOINING_POLLED];
    cl_rendezvous_accept(rendezvous);
    if (cl_rendezvous_advance(rendezvous, node))
        return true;
    poll(polled, (nfds_t)cl_rendezvous_poll(rendezvous, polled, JOINING_POLLED), 20);
    return false;
}

bool joining_serve(cl_rendezvous *rendezvous, cl_joined_node *node, int output)
{
    while (!joining_turn(rendezvous, node))
        if (poll(&(struct pollfd){ .fd = output }, 1, 0) > 0) /* no process has the other end any more */
            return false;
    return true;
}

pid_t joining_start(const joining_site *caller, int *output)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        cl_joined_node node;
        cl_link link;
        cl_message message;
        dup2(ends[1], STDERR_FILENO);
        int code = cl_rendezvous_join_plan(&caller->plan, &node);
        if (code) {
            fprintf(stderr, "%s\n", cs_error());
            _exit(code);
        }
        cl_link_open(&link, node.fd, node.fd, node.sealed ? node.key : NULL, true);
        while (!link.broken && !cl_link_next(&link, &message)) {
            poll(&(struct pollfd){ .fd = node.fd, .events = POLLIN }, 1, 1000);
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

int joining_finish(pid_t pid, int output, char *text, size_t capacity)
{
    int status;
    ssize_t length = read(output, text, capacity - 1);
    text[length > 0 ? length : 0] = '\0';
    close(output);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

void joining_exchange(const cl_joined_node *node)
{
    cl_link link;
    cl_message message = { 0 };
    cl_link_open(&link, node->fd, node->fd, node->sealed ? node->key : NULL, false);
    cl_link_say(&link, CL_LINK_SAY, 7, "hello");
    cl_link_flush(&link);
    for (int i = 0; i < SUITE_PATIENCE && !cl_link_next(&link, &message); i++) {
        poll(&(struct pollfd){ .fd = node->fd, .events = POLLIN }, 1, 1000);
        cl_link_fill(&link, 0);
    }
    ck_assert_uint_eq(message.length, 5);
    ck_assert_int_eq(memcmp(message.bytes, "hello", 5), 0);
    cl_link_close(&link);
}

void joining_set_secret(const char *value)
{
    unsetenv("CSPEED_SECRET_FILE");
    if (value)
        setenv("CSPEED_SECRET", value, 1);
    else
        unsetenv("CSPEED_SECRET");
}

int joining_connect(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}
