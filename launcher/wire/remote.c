/* remote.c - the carrier: a process that forwards bytes between a socket of the front process and a process on a remote
 * host. */
#include "wire/remote.h"

#include "ground/codes.h"
#include "ground/programs.h"
#include "wire/remote_route.h"
#include "wire/words.h"

#include "base/clock.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CARRIED = 64 << 10, QUOTED = 500, MAGIC_BYTES = sizeof CL_LINK_MAGIC - 1 };

/* the agent must answer within this many seconds; the time includes the start of a login shell, which may be slow */
static const double answer_seconds = 60;
/* after the front process has closed the socket, the carrier sends the last bytes to the remote process for at most
 * this many seconds */
static const double last_seconds = 2;

/* A buffer. The bytes [from, to) are still to be forwarded. */
typedef struct {
    char bytes[CARRIED];
    size_t from, to;
} load;

typedef struct {
    const cl_way *way;
    cl_route route;
    cl_link link;       /* the link to the front process */
    load down, up;      /* down: bytes for the host; up: bytes from the host */
    char heard[QUOTED]; /* the last bytes of the remote process's stderr */
    size_t heard_bytes;
    bool agent, answered; /* agent: the remote process is an agent; answered: CL_LINK_MAGIC was received */
    bool ended[2], front_gone;
} carrier;

/* ---- from the host to the front process ---- */

static void flush_link(cl_link *link)
{
    for (cl_link_flush(link); cl_link_waits(link); cl_link_flush(link))
        poll(&(struct pollfd){ .fd = link->out_fd, .events = POLLOUT }, 1, -1);
}

static void report(carrier *c, int code)
{
    cl_link_say(&c->link, CL_LINK_FAILED, (uint32_t)code, "%s: %s", c->route.host->name, cs_error());
    flush_link(&c->link);
}

/* Keeps the last QUOTED bytes of the remote process's stderr. */
static void keep_stderr(carrier *c, const char *bytes, size_t count)
{
    size_t keep = c->heard_bytes + count > QUOTED ? QUOTED - (count < QUOTED ? count : QUOTED) : c->heard_bytes;
    if (count > QUOTED) {
        bytes += count - QUOTED;
        count = QUOTED;
    }
    memmove(c->heard, c->heard + c->heard_bytes - keep, keep);
    memcpy(c->heard + keep, bytes, count);
    c->heard_bytes = keep + count;
}

/* Prints the agent's stderr for the user. The carrier must not wait if the terminal accepts no output. */
static void show(const carrier *c, const char *bytes, size_t count)
{
    struct pollfd screen = { .fd = STDERR_FILENO, .events = POLLOUT };
    for (size_t length; count; bytes += length, count -= length) {
        const char *end = memchr(bytes, '\n', count);
        length = end ? (size_t)(end - bytes) + 1 : count;
        if (poll(&screen, 1, 0) == 1 && (screen.revents & POLLOUT))
            dprintf(STDERR_FILENO, "%s: %.*s\n", c->route.host->name, (int)(length - (end != NULL)), bytes);
    }
}

/* Drops the bytes before CL_LINK_MAGIC, and CL_LINK_MAGIC itself. */
static void look_for_magic(carrier *c)
{
    char *magic = memmem(c->up.bytes, c->up.to, CL_LINK_MAGIC, MAGIC_BYTES);
    c->answered = magic != NULL;
    if (magic)
        c->up.from = (size_t)(magic - c->up.bytes) + MAGIC_BYTES;
}

static bool read_agent(carrier *c)
{
    if (c->ended[0] || c->up.to == CARRIED)
        return false;
    ssize_t count = c->way->read(&c->route, 0, c->up.bytes + c->up.to, CARRIED - c->up.to);
    c->ended[0] = count == CL_ROUTE_ENDED;
    if (count <= 0)
        return c->ended[0];
    c->up.to += (size_t)count;
    if (!c->answered)
        look_for_magic(c);
    return true;
}

static bool write_front(carrier *c)
{
    if (!c->answered || c->up.from == c->up.to)
        return false;
    ssize_t count = send(c->link.out_fd, c->up.bytes + c->up.from, c->up.to - c->up.from, MSG_NOSIGNAL);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    c->front_gone |= count < 0;
    c->up.from += count < 0 ? 0 : (size_t)count;
    if (count < 0 || c->up.from == c->up.to)
        c->up.from = c->up.to = 0;
    return true;
}

static bool read_errors(carrier *c)
{
    char bytes[4096];
    ssize_t count = c->ended[1] ? CL_ROUTE_LATER : c->way->read(&c->route, 1, bytes, sizeof bytes);
    c->ended[1] |= count == CL_ROUTE_ENDED;
    if (count > 0)
        keep_stderr(c, bytes, (size_t)count);
    if (count > 0 && c->answered)
        show(c, bytes, (size_t)count);
    return count != CL_ROUTE_LATER;
}

/* Reads the output of a remote command and sends it to the front process in frames. */
static bool read_output(carrier *c)
{
    bool moved = false;
    for (int which = 0; which < 2 && !cl_link_waits(&c->link); which++) {
        char bytes[32 << 10];
        ssize_t count = c->ended[which] ? CL_ROUTE_LATER : c->way->read(&c->route, which, bytes, sizeof bytes);
        c->ended[which] |= count == CL_ROUTE_ENDED;
        if (count > 0)
            cl_link_send(&c->link, which ? CL_LINK_ERROR : CL_LINK_OUTPUT, 0, bytes, (size_t)count);
        moved |= count != CL_ROUTE_LATER;
    }
    cl_link_flush(&c->link);
    c->front_gone |= c->link.broken;
    return moved;
}

/* ---- from the front process to the host ---- */

static bool read_front(carrier *c)
{
    if (c->front_gone || c->down.to == CARRIED)
        return false;
    ssize_t count = recv(c->link.in_fd, c->down.bytes + c->down.to, CARRIED - c->down.to, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    c->front_gone = count <= 0;
    c->down.to += count <= 0 ? 0 : (size_t)count;
    return true;
}

static bool write_host(carrier *c)
{
    if (c->down.from == c->down.to)
        return false;
    ssize_t count = c->way->write(&c->route, c->down.bytes + c->down.from, c->down.to - c->down.from);
    c->down.from = count == CL_ROUTE_ENDED ? c->down.to : c->down.from + (size_t)count;
    if (c->down.from == c->down.to)
        c->down.from = c->down.to = 0;
    return count != CL_ROUTE_LATER;
}

/* ---- the forwarding loop ---- */

static void await(carrier *c, double until)
{
    struct pollfd polled[CL_WAY_POLLED + 1];
    bool shown = c->agent ? c->up.to < CARRIED : !cl_link_waits(&c->link);
    bool waiting = c->agent ? c->answered && c->up.from < c->up.to : cl_link_waits(&c->link);
    int count = c->way->poll(&c->route, shown, c->down.from < c->down.to, polled);
    double left = until - ce_clock_seconds();
    int wants = (c->down.to < CARRIED ? POLLIN : 0) | (waiting ? POLLOUT : 0);
    polled[count] = (struct pollfd){ .fd = c->front_gone ? -1 : c->link.in_fd, .events = (short)wants };
    poll(polled, (nfds_t)count + 1, until <= 0 ? -1 : left < 0 ? 0 : (int)(left * 1000) + 1);
}

/* Returns true if everything has been forwarded, if the time limit for forwarding or for the agent's answer has passed,
 * or if the host's output has filled the buffer before the agent answered. */
static bool is_over(const carrier *c, double until)
{
    bool late = until > 0 && ce_clock_seconds() > until;
    if (c->front_gone)
        return late || c->down.from == c->down.to;
    if (c->agent && !c->answered && (late || c->up.to == CARRIED))
        return true;
    return c->ended[0] && c->ended[1] && (!c->answered || c->up.from == c->up.to);
}

/* Forwards all bytes that can be forwarded without blocking. Returns false if no bytes were forwarded. */
static bool move(carrier *c)
{
    bool moved = read_front(c);
    moved |= write_host(c);
    if (!c->agent)
        return read_output(c) || moved;
    moved |= read_agent(c);
    moved |= write_front(c);
    return read_errors(c) || moved;
}

static void pump(carrier *c)
{
    double until = c->agent ? ce_clock_seconds() + answer_seconds : 0;
    while (!is_over(c, until)) {
        bool waited = c->agent && !c->answered, gone = c->front_gone;
        bool moved = move(c);
        if (waited && c->answered)
            until = 0;
        if (!gone && c->front_gone)
            until = ce_clock_seconds() + last_seconds;
        if (!moved)
            await(c, until);
    }
}

/* ---- error messages ---- */

/* Writes " It said: ..." and, in one line, the last bytes of the remote process's stderr; or of its stdout if stderr is
 * empty. */
static const char *quote(const carrier *c, char text[QUOTED + 32])
{
    const char *bytes = c->heard_bytes ? c->heard : c->up.bytes;
    size_t count = c->heard_bytes ? c->heard_bytes : c->up.to;
    size_t skip = count > QUOTED ? count - QUOTED : 0;
    while (count > skip && strchr("\r\n ", bytes[count - 1]))
        count--;
    if (count == skip)
        return "It said nothing.";
    int length = snprintf(text, QUOTED + 32, "Its message: %.*s", (int)(count - skip), bytes + skip);
    for (int i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            text[i] = text[i] == '\n' ? '|' : ' ';
    return text;
}

/* Runs a command on the host over a new connection, and copies the first line of the command's output to `text`. `text`
 * becomes "" if the connection fails or the command prints nothing. */
static void ask(carrier *c, const char *command, char *text, size_t capacity)
{
    cl_route route = c->route;
    double until = ce_clock_seconds() + 10;
    size_t count = 0;
    route.command = command;
    ssize_t got = c->way->open(&route) ? CL_ROUTE_ENDED : CL_ROUTE_LATER;
    while (got != CL_ROUTE_ENDED && count < capacity - 1 && ce_clock_seconds() < until) {
        struct pollfd polled[CL_WAY_POLLED];
        got = c->way->read(&route, 0, text + count, capacity - 1 - count);
        count += got > 0 ? (size_t)got : 0;
        if (got == CL_ROUTE_LATER)
            poll(polled, (nfds_t)c->way->poll(&route, true, false, polled), 100);
    }
    c->way->close(&route);
    text[count] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
}

static int explain_not_executable(carrier *c, const char *said)
{
    char system[128];
    ask(c, "uname -sm", system, sizeof system);
    if (*system && strncmp(system, "Linux ", 6) != 0)
        return cl_codes_fail(CL_CODE_NOT_EXECUTABLE, "it runs %s, and cspeed runs only on Linux", system);
    return cl_codes_fail(CL_CODE_NOT_EXECUTABLE,
                         "cspeed cannot be executed there%s%s: install one built for that machine, or give its path "
                         "with --agent_path. %s",
                         *system ? ", on " : "", system, said);
}

/* Reports why no agent has answered. */
static int explain(carrier *c, double waited)
{
    char text[QUOTED + 32];
    const char *said = quote(c, text);
    if (!c->ended[0] || !c->ended[1])
        return cl_codes_fail(
            CL_CODE_HOST,
            "the shell there printed %zu bytes in %.0f s, and no agent of cspeed answered; without a terminal, the "
            "login files (~/.bashrc and others) must end and print nothing. %s",
            c->up.to, waited, said);
    int code = c->way->code(&c->route);
    if (code == CL_CODE_NOT_FOUND)
        return cl_codes_fail(CL_CODE_NOT_FOUND,
                             "there is cspeed is neither at the same path as on this machine nor in PATH: install "
                             "the same build there, or give its path with --agent_path. %s",
                             said);
    if (code == CL_CODE_NOT_EXECUTABLE)
        return explain_not_executable(c, said);
    return cl_codes_fail(CL_CODE_HOST, "no agent of cspeed answered, the command ended with %d. %s", code, said);
}

static void carry(carrier *c)
{
    double began = ce_clock_seconds();
    int code = c->way->open(&c->route);
    if (code) {
        report(c, code);
        return;
    }
    flush_link(&c->link);
    if (!c->agent)
        c->way->end_input(&c->route);
    pump(c);
    if (c->front_gone || c->answered)
        return;
    if (c->agent)
        report(c, explain(c, ce_clock_seconds() - began));
    else
        cl_link_send(&c->link, CL_LINK_FINISH, (uint32_t)c->way->code(&c->route), NULL, 0);
    flush_link(&c->link);
}

/* ---- the process ---- */

/* Detaches this process from the terminal, the signals and the files of the front process. */
static void detach(pid_t parent, int fd)
{
    sigset_t none;
    int empty = open("/dev/null", O_RDWR);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* the parent process had already ended when PR_SET_PDEATHSIG took effect */
        _exit(CL_CODE_SYSTEM);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(empty, STDIN_FILENO);
    dup2(empty, STDOUT_FILENO);
    fcntl(dup2(fd, 3), F_SETFD, FD_CLOEXEC);
    close_range(4, ~0U, 0);
}

static int start(cl_channel *channel, const cl_host *host, const cl_options *options, const char *command,
                 const cl_way *way, bool agent)
{
    int pair[2];
    pid_t parent = getpid();
    *channel = (cl_channel){ .fd = -1 };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "%s: no socket can be opened for its agent: %s", host->name,
                             ce_reason(errno));
    pid_t pid = fork();
    if (pid == 0) {
        static carrier c; /* static, because a carrier is large; each process has only one carrier */
        detach(parent, pair[1]);
        cl_link_open(&c.link, 3, 3, NULL, false);
        c.way = way;
        c.agent = agent;
        c.route = (cl_route){ .host = host, .options = options, .command = command, .messages = &c.link };
        carry(&c);
        way->close(&c.route);
        _exit(0);
    }
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return cl_codes_fail(CL_CODE_SYSTEM, "%s: the process for its connection cannot be started: %s", host->name,
                             strerror(errno));
    }
    *channel = (cl_channel){ .fd = pair[0], .pid = pid };
    return 0;
}

/* Writes the remote command line that starts an agent. The command line depends only on this program, and contains
 * nothing about the job. */
static bool write_agent_command(char *command, size_t capacity, const char *agent_path)
{
    static const char search[] = "exec sh -c 'test -x \"$0\" && exec \"$0\" __agent; exec cspeed __agent' ";
    char self[PATH_MAX], word[4 * 4096];
    if (agent_path)
        return cl_words_quote(word, sizeof word, agent_path) &&
               snprintf(command, capacity, "exec %s __agent", word) < (int)capacity;
    const char *own = cl_programs_self(self) ? self : "cspeed";
    return cl_words_quote(word, sizeof word, own) && snprintf(command, capacity, "%s%s", search, word) < (int)capacity;
}

static void warn(const cl_options *options)
{
    static bool warned;
    if (options->host_key == CL_HOST_KEY_OFF && !warned)
        fputs("cspeed: warning: --host_key off: the identity of the hosts is not verified\n", stderr);
    warned = true;
}

int cl_remote_open(cl_channel *channel, const cl_host *host, const cl_options *options)
{
    char command[4 * 4096 + 128];
    warn(options);
    if (!write_agent_command(command, sizeof command, options->agent_path))
        return cl_codes_fail(CL_CODE_SYSTEM, "%s: the path of cspeed is too long", host->name);
    return start(channel, host, options, command, options->ssh_cmd ? &cl_way_command : &cl_way_ssh, true);
}

int cl_remote_command(cl_channel *channel, const cl_host *host, const cl_options *options, const char *command)
{
    const cl_way *way = options->ssh_cmd ? &cl_way_command : &cl_way_ssh;
    if (cl_hosts_is_here(host) && !options->force_multi)
        way = &cl_way_shell;
    else
        warn(options);
    return start(channel, host, options, command, way, false);
}
