/* remote_command.c - reaches a host through a child process: OpenSSH's ssh, the command of --ssh_cmd, or sh if the host
 * is this machine. */
#include "ground/codes.h"
#include "ground/descriptors.h"
#include "wire/remote_route.h"
#include "wire/words.h"

#include "base/must.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    pid_t pid;
    int input, outputs[2]; /* -1: closed */
} command;

static void become(char **argv, pid_t parent, const int fds[3])
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(CL_CODE_SYSTEM);
    for (int fd = 0; fd < 3; fd++)
        if (dup2(fds[fd], fd) < 0)
            _exit(CL_CODE_SYSTEM);
    signal(SIGPIPE, SIG_DFL);
    cl_descriptors_restore();
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(errno == ENOENT ? CL_CODE_NOT_FOUND : CL_CODE_NOT_EXECUTABLE);
}

static int start(cl_route *route, char **argv)
{
    int fds[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
    pid_t parent = getpid();
    command *c = route->state = ce_must_alloc(sizeof *c);
    for (int i = 0; i < 3; i++)
        if (pipe2(fds[i], O_CLOEXEC) < 0)
            return cl_codes_fail(CL_CODE_SYSTEM, "no pipes can be opened: %s", ce_reason(errno));
    c->pid = fork();
    if (c->pid < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "%s cannot be started: %s", argv[0], strerror(errno));
    if (c->pid == 0)
        become(argv, parent, (int[]){ fds[0][0], fds[1][1], fds[2][1] });
    close(fds[0][0]);
    close(fds[1][1]);
    close(fds[2][1]);
    c->input = fds[0][1];
    c->outputs[0] = fds[1][0];
    c->outputs[1] = fds[2][0];
    for (int i = 0; i < 3; i++)
        fcntl((int[]){ c->input, c->outputs[0], c->outputs[1] }[i], F_SETFL, O_NONBLOCK);
    return 0;
}

static int open_shell(cl_route *route)
{
    char text[] = "-c", name[] = "/bin/sh";
    return start(route, (char *[]){ name, text, ce_must_copy(route->command), NULL });
}

/* Starts the ssh command. If an option occurs twice, OpenSSH uses the first value, so the words of --ssh_cmd come first
 * and override the others. The words are never freed, because the carrier runs for a short time only. */
static int open_command(cl_route *route)
{
    static const char *const checking[] = { [CL_HOST_KEY_ACCEPT_NEW] = "-oStrictHostKeyChecking=accept-new",
                                            [CL_HOST_KEY_STRICT] = "-oStrictHostKeyChecking=yes",
                                            [CL_HOST_KEY_OFF] = "-oStrictHostKeyChecking=no" };
    const cl_options *options = route->options;
    const cl_host *host = route->host;
    const char *user = host->user ? host->user : options->ssh_user;
    int port = host->port ? host->port : options->ssh_port;
    cl_words words = { 0 };
    int code = cl_words_split(&words, "--ssh_cmd", options->ssh_cmd);
    if (code || words.count == 0)
        return code ? code : cl_codes_fail(CL_CODE_USAGE, "--ssh_cmd: is empty");
    cl_words_add_all(&words, (const char *const[]){ "-T", "-oBatchMode=yes", "-oConnectTimeout=15",
                                                    checking[options->host_key], NULL });
    const char *const pairs[][2] = { { "-l", user }, { "-i", options->ssh_key }, { "-F", options->ssh_config } };
    for (int i = 0; i < 3; i++)
        if (pairs[i][1])
            cl_words_add_all(&words, (const char *const[]){ pairs[i][0], pairs[i][1], NULL });
    if (port) {
        cl_words_add(&words, "-p");
        cl_words_add(&words, "%d", port);
    }
    cl_words_add_all(&words, (const char *const[]){ "--", cl_hosts_address(host), route->command, NULL });
    return start(route, words.list);
}

static int poll_command(cl_route *route, bool reading, bool writing, struct pollfd *polled)
{
    const command *c = route->state;
    for (int i = 0; i < 2; i++)
        polled[i] = (struct pollfd){ .fd = reading ? c->outputs[i] : -1, .events = POLLIN };
    polled[2] = (struct pollfd){ .fd = writing ? c->input : -1, .events = POLLOUT };
    return 3;
}

static ssize_t read_command(cl_route *route, int which, char *bytes, size_t capacity)
{
    command *c = route->state;
    ssize_t count = c->outputs[which] < 0 ? 0 : read(c->outputs[which], bytes, capacity);
    if (count > 0)
        return count;
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return CL_ROUTE_LATER;
    if (c->outputs[which] >= 0)
        close(c->outputs[which]);
    c->outputs[which] = -1;
    return CL_ROUTE_ENDED;
}

static ssize_t write_command(cl_route *route, const char *bytes, size_t count)
{
    const command *c = route->state;
    ssize_t written = write(c->input, bytes, count);
    return written > 0 ? written : errno == EAGAIN || errno == EINTR ? CL_ROUTE_LATER : CL_ROUTE_ENDED;
}

static void end_input(cl_route *route)
{
    command *c = route->state;
    close(c->input);
    c->input = -1;
}

static int code_of_command(cl_route *route)
{
    command *c = route->state;
    int status;
    pid_t pid = c->pid;
    c->pid = 0;
    return waitpid(pid, &status, 0) == pid ? cl_codes_of_status(status) : 255;
}

static void close_command(cl_route *route)
{
    command *c = route->state;
    if (!c)
        return;
    const int fds[] = { c->input, c->outputs[0], c->outputs[1] };
    for (int i = 0; i < 3; i++)
        if (fds[i] > 0)
            close(fds[i]);
    if (c->pid > 0)
        /* SIGTERM is enough: the pipes are closed, so a process that survives SIGTERM reads the end of its input */
        kill(-c->pid, SIGTERM);
    free(c);
    route->state = NULL;
}

const cl_way cl_way_command = { open_command, poll_command,    read_command, write_command,
                                end_input,    code_of_command, close_command };
const cl_way cl_way_shell = { open_shell, poll_command,    read_command, write_command,
                              end_input,  code_of_command, close_command };
