/* run_on_all.c - runs one command line on all hosts in parallel. */
#include "wire/run_on_all.h"

#include "ground/codes.h"
#include "wire/remote.h"

#include "base/must.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

typedef struct {
    cl_link link;
    pid_t pid;
    bool over;
} member;

/* Ends the connection to one host. `last` is NULL if the carrier ended without a last message. */
static void end(member *m, int index, const cl_message *last, cl_run_on_all_handler take, void *argument)
{
    int status = 0;
    char why[128] = "the connection was lost";
    if (last)
        take(index, last, argument);
    m->over = true;
    cl_link_close(&m->link);
    waitpid(m->pid, &status, 0);
    if (last)
        return;
    if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "the process on this machine that held the SSH connection was killed by %s",
                 cl_codes_signal_name(WTERMSIG(status)));
    cl_message lost = { .kind = CL_LINK_FAILED,
                        .rank = (uint32_t)(WIFSIGNALED(status) ? cl_codes_of_status(status) : CL_CODE_HOST),
                        .bytes = why,
                        .length = strlen(why) };
    take(index, &lost, argument);
}

static void serve(member *m, int index, cl_run_on_all_handler take, void *argument)
{
    cl_message message;
    cl_link_fill(&m->link, 0);
    while (!m->over && cl_link_next(&m->link, &message)) {
        if (message.kind == CL_LINK_FINISH || message.kind == CL_LINK_FAILED)
            end(m, index, &message, take, argument);
        else
            take(index, &message, argument);
    }
    if (!m->over && m->link.broken)
        end(m, index, NULL, take, argument);
}

static int start(member *members, const cl_host *const *hosts, int count, const cl_options *options,
                 const char *command)
{
    for (int i = 0; i < count; i++) {
        cl_channel channel;
        int code = cl_remote_command(&channel, hosts[i], options, command);
        if (code)
            return code;
        members[i].pid = channel.pid;
        cl_link_open(&members[i].link, channel.fd, channel.fd, NULL, false);
    }
    return 0;
}

static int count_open(const member *members, int count)
{
    int open = 0;
    for (int i = 0; i < count; i++)
        open += !members[i].over;
    return open;
}

int cl_run_on_all_run(const cl_host *const *hosts, int count, const cl_options *options, const char *command,
                      cl_run_on_all_handler take, void *argument)
{
    CE_FREED member *members = ce_must_alloc((size_t)count * sizeof *members);
    CE_FREED struct pollfd *polled = ce_must_alloc((size_t)count * sizeof *polled);
    /* If a carrier cannot be started, this function returns an error. Carriers that were started before end when this
     * process ends. */
    int code = start(members, hosts, count, options, command);
    while (code == 0 && count_open(members, count)) {
        for (int i = 0; i < count; i++)
            polled[i] = (struct pollfd){ .fd = members[i].over ? -1 : members[i].link.in_fd, .events = POLLIN };
        poll(polled, (nfds_t)count, -1);
        for (int i = 0; i < count; i++)
            if (polled[i].revents)
                serve(&members[i], i, take, argument);
    }
    return code;
}
