/* test_remote.c - carriers: processes that carry the connection to an agent or a command on another host. Tests what
 * they forward and which errors they report, with a real sshd. */
#include "suite.h"
#include "cluster.h"
#include "shell.h"
#include "ground/codes.h"
#include "wire/link.h"
#include "wire/remote.h"

#include "base/clock.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Everything that a carrier has sent. */
typedef struct {
    int failed, finished; /* exit codes in the FAILED frame and in the FINISH frame; -1: not received */
    char why[8192], said[2048], output[1 << 17], errors[4096];
    size_t output_bytes;
} heard;

static cl_host host_of(const char *name)
{
    return (cl_host){ .name = (char *)(size_t)name, .port = cluster_port() };
}

static void take(heard *all, const cl_message *message)
{
    int length = (int)message->length;
    switch (message->kind) {
    case CL_LINK_FAILED:
        all->failed = (int)message->rank;
        snprintf(all->why, sizeof all->why, "%.*s", length, message->bytes);
        break;
    case CL_LINK_FINISH:
        all->finished = (int)message->rank;
        break;
    case CL_LINK_SAY:
        snprintf(all->said + strlen(all->said), sizeof all->said - strlen(all->said), "%.*s\n", length, message->bytes);
        break;
    case CL_LINK_ERROR:
        snprintf(all->errors + strlen(all->errors), sizeof all->errors - strlen(all->errors), "%.*s", length,
                 message->bytes);
        break;
    default:
        ck_assert_uint_lt(all->output_bytes + message->length, sizeof all->output);
        memcpy(all->output + all->output_bytes, message->bytes, message->length);
        all->output_bytes += message->length;
    }
}

/* Reads until `wanted` bytes of output have arrived or the carrier has ended. */
static void hear(cl_link *link, heard *all, size_t wanted)
{
    cl_message message;
    double until = ce_clock_seconds() + 90;
    while (!link->broken && all->output_bytes < wanted) {
        ck_assert_msg(ce_clock_seconds() < until, "the carrier says nothing more");
        cl_link_flush(link);
        short wants = (short)(POLLIN | (cl_link_waits(link) ? POLLOUT : 0));
        poll(&(struct pollfd){ .fd = link->in_fd, .events = wants }, 1, 1000);
        cl_link_fill(link, 0);
        while (cl_link_next(link, &message))
            take(all, &message);
    }
}

static void reset(heard *all)
{
    memset(all, 0, sizeof *all);
    all->failed = all->finished = -1;
}

static void wait_for(const cl_channel *channel)
{
    int status;
    ck_assert_int_eq(waitpid(channel->pid, &status, 0), channel->pid);
    ck_assert_int_eq(status, 0);
}

static void run_command(const char *name, const cl_options *options, const char *command, heard *all)
{
    cl_channel channel;
    cl_link link;
    cl_host host = host_of(name);
    reset(all);
    ck_assert_int_eq(cl_remote_command(&channel, &host, options, command), 0);
    cl_link_open(&link, channel.fd, channel.fd, NULL, false);
    hear(&link, all, SIZE_MAX);
    cl_link_close(&link);
    wait_for(&channel);
}

static void open_agent(const cl_host *host, const cl_options *options, cl_channel *channel, cl_link *link)
{
    ck_assert_int_eq(cl_remote_open(channel, host, options), 0);
    cl_link_open(link, channel->fd, channel->fd, NULL, false);
}

/* Tries to start an agent on a host where the start must fail. *all receives what the carrier sent. */
static void fail_agent(const cl_host *host, const cl_options *options, heard *all)
{
    cl_channel channel;
    cl_link link;
    reset(all);
    open_agent(host, options, &channel, &link);
    hear(&link, all, SIZE_MAX);
    cl_link_close(&link);
    wait_for(&channel);
}

static char agent_path[4200];

/* Writes a script that takes the place of the agent: it prints `before` and the line "cspeed agent 1", and then sends
 * back every byte that it receives. */
static void write_agent(const char *before)
{
    char text[4096], folder[4096];
    snprintf(text, sizeof text, "#!/bin/sh\n%s\nprintf '\\ncspeed agent 1\\n'\ncat\nexit 0\n", before);
    shell_write("agent.tmp", text);
    chmod("agent.tmp", 0755);
    ck_assert_int_eq(rename("agent.tmp", "agent's home"), 0);
    snprintf(agent_path, sizeof agent_path, "%s/agent's home", getcwd(folder, sizeof folder));
}

static void ask_agent(const cl_options *options, cl_link *link, heard *all, size_t bytes)
{
    char *blob = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        blob[i] = (char)(i * 2654435761U >> 13);
    cl_link_send(link, CL_LINK_OUTPUT, 0, blob, bytes);
    hear(link, all, bytes);
    ck_assert_msg(all->failed == -1, "%s", all->why);
    ck_assert_uint_eq(all->output_bytes, bytes);
    ck_assert_mem_eq(all->output, blob, bytes);
    free(blob);
    (void)options;
}

/* Checks that bytes reach an agent and come back unchanged, whatever a shell prints before them. */
static void carry(const cl_options *options, const char *before, size_t bytes)
{
    cl_channel channel;
    cl_link link;
    heard *all = malloc(sizeof *all);
    cl_host host = host_of(cluster_host(0));
    reset(all);
    write_agent(before);
    open_agent(&host, options, &channel, &link);
    ask_agent(options, &link, all, bytes);
    cl_link_close(&link); /* the agent's input ends, so the agent and the carrier end */
    wait_for(&channel);
    shell_await_left("agent's home", 0);
    free(all);
}

START_TEST(an_agent_answers)
{
    shell_enter();
    if (cluster_start(1, NULL)) {
        cl_options options = { .agent_path = agent_path };
        carry(&options, "", 5);
        carry(&options, "echo Welcome to host; echo 'disk is full' >&2; head -c 3000 /dev/urandom", 100000);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

START_TEST(openssh_carries_too)
{
    shell_enter();
    if (cluster_start(1, NULL)) {
        char command[2048], key[600];
        cl_options options = { .agent_path = agent_path, .ssh_cmd = command };
        snprintf(key, sizeof key, "%s/.ssh", getenv("HOME"));
        snprintf(command, sizeof command,
                 "ssh -i '%s/id_ed25519' -o \"UserKnownHostsFile %s/known\" -o IdentitiesOnly=yes", key, key);
        carry(&options, "echo noise", 100000);
        heard *all = malloc(sizeof *all);
        run_command(cluster_host(0), &options, "echo out; echo err >&2; exit 7", all);
        ck_assert_int_eq(all->finished, 7);
        ck_assert_int_eq(memcmp(all->output, "out\n", 4), 0);
        options.ssh_cmd = "false";
        cl_host host = host_of(cluster_host(0));
        fail_agent(&host, &options, all);
        ck_assert_int_eq(all->failed, CL_CODE_HOST);
        options.ssh_cmd = "ssh 'oops";
        fail_agent(&host, &options, all);
        ck_assert_int_eq(all->failed, CL_CODE_USAGE);
        free(all);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

static const struct {
    const char *command, *output, *errors;
    int code;
} commands[] = {
    { "echo hello", "hello\n", "", 0 },
    { "printf x >&2; exit 3", "", "x", 3 },
    { "echo \"$HOME\" '*' | wc -c | grep -c .", "1\n", "", 0 },
    { "kill -9 $$", "", "", 137 },
    { "nosuchcommand 2>/dev/null", "", "", 127 },
    { "cat", "", "", 0 }, /* the command's input is empty */
};

START_TEST(commands_run)
{
    shell_enter();
    if (cluster_start(1, NULL)) {
        heard *all = malloc(sizeof *all);
        const char *const names[] = { cluster_host(0), "localhost" };
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            for (int n = 0; n < 2; n++) {
                run_command(names[n], &(cl_options){ 0 }, commands[i].command, all);
                ck_assert_msg(all->finished == commands[i].code, "%s on %s: %d %s", commands[i].command, names[n],
                              all->finished, all->why);
                ck_assert_uint_eq(all->output_bytes, strlen(commands[i].output));
                ck_assert_int_eq(memcmp(all->output, commands[i].output, all->output_bytes), 0);
                ck_assert_str_eq(all->errors, commands[i].errors);
            }
        free(all);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

/* ---- errors ------------------------------------------------------------------------------------- */

static void expect(const cl_host *host, const cl_options *options, int code, const char *says)
{
    heard *all = malloc(sizeof *all);
    fail_agent(host, options, all);
    ck_assert_msg(all->failed == code && strstr(all->why, says), "wanted %d \"%s\", not %d: %s", code, says,
                  all->failed, all->why);
    ck_assert_msg(strncmp(all->why, host->name, strlen(host->name)) == 0, "%s", all->why);
    free(all);
}

START_TEST(a_host_says_why_it_fails)
{
    shell_enter();
    if (cluster_start(1, NULL)) {
        cl_options options = { .agent_path = agent_path };
        cl_host host = host_of("no-such-host.invalid");
        expect(&host, &options, CL_CODE_HOST, "cannot be resolved");
        host = host_of(cluster_host(0));
        host.port = 1;
        expect(&host, &options, CL_CODE_HOST, "connection refused");
        host = host_of(cluster_host(0));
        options.agent_path = "/no/such/cspeed";
        expect(&host, &options, CL_CODE_NOT_FOUND, "--agent_path");
        options.agent_path = "/etc/passwd";
        expect(&host, &options, CL_CODE_NOT_EXECUTABLE, "Linux");
        options.agent_path = "/bin/echo"; /* echo prints "__agent" and ends */
        expect(&host, &options, CL_CODE_HOST, "ended with 0. Its message: __agent");
        shell_write("noisy", "#!/bin/sh\nyes noise | head -c 200000\n");
        chmod("noisy", 0755);
        char path[4200], folder[4096];
        snprintf(path, sizeof path, "%s/noisy", getcwd(folder, sizeof folder));
        options.agent_path = path;
        expect(&host, &options, CL_CODE_HOST, "noise|noise");
        options.ssh_key = "/no/such/key";
        expect(&host, &options, CL_CODE_NO_FILE, "--ssh_key");
        options.ssh_key = NULL;
        options.ssh_config = "/no/such/config";
        expect(&host, &options, CL_CODE_NO_FILE, "--ssh_config");
        cluster_stop();
    }
    shell_leave();
}
END_TEST

START_TEST(no_key_is_accepted)
{
    shell_enter();
    if (cluster_start(1, NULL)) {
        cl_options options = { .agent_path = agent_path };
        cl_host host = host_of(cluster_host(0));
        shell_run("ssh-keygen -q -t ed25519 -N secret -f other && mv home/.ssh/id_ed25519 kept && cp other "
                  "home/.ssh/id_ed25519");
        expect(&host, &options, CL_CODE_HOST, "the server accepts: publickey; tried: no ssh agent");
        shell_run("rm home/.ssh/id_ed25519*");
        expect(&host, &options, CL_CODE_HOST, "no key was accepted");
        options.ssh_key = "kept";
        heard *all = malloc(sizeof *all);
        run_command(cluster_host(0), &options, "true", all);
        ck_assert_msg(all->finished == 0, "%s", all->why);
        free(all);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

/* ---- host keys -------------------------------------------------------------------------------- */

START_TEST(host_keys_are_checked)
{
    shell_enter();
    if (cluster_start(2, NULL)) {
        heard *all = malloc(sizeof *all);
        cl_options strict = { .host_key = CL_HOST_KEY_STRICT }, new = { .host_key = CL_HOST_KEY_ACCEPT_NEW },
                   off = { .host_key = CL_HOST_KEY_OFF };
        run_command(cluster_host(0), &strict, "true", all);
        ck_assert_int_eq(all->failed, CL_CODE_HOST);
        ck_assert_ptr_nonnull(strstr(all->why, "unknown host key"));
        ck_assert_ptr_nonnull(strstr(all->why, "SHA256:"));
        run_command(cluster_host(0), &off, "true", all);
        ck_assert_int_eq(all->finished, 0);
        ck_assert_int_ne(access("home/.ssh/known_hosts", F_OK), 0);
        run_command(cluster_host(0), &new, "true", all);
        ck_assert_msg(all->finished == 0, "%s", all->why);
        ck_assert_msg(strstr(all->said, "new host key of [127.0.0.2]") && strstr(all->said, "SHA256:"), "%s",
                      all->said);
        run_command(cluster_host(0), &strict, "true", all);
        ck_assert_msg(all->finished == 0 && !*all->said, "%s", all->why);
        shell_run("sed -i 's/AAAAC3NzaC1lZDI1NTE5AAAAI..../AAAAC3NzaC1lZDI1NTE5AAAAIAAAA/' home/.ssh/known_hosts");
        for (int i = 0; i < 2; i++) {
            run_command(cluster_host(0), i ? &strict : &new, "true", all);
            ck_assert_int_eq(all->failed, CL_CODE_HOST);
            ck_assert_msg(strstr(all->why, "HOST KEY CHANGED") != NULL, "%s", all->why);
        }
        free(all);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

/* Several carriers that get new host keys at the same time add each key once and complete. */
START_TEST(new_keys_are_kept_under_a_lock)
{
    enum { HOSTS = 8 };
    shell_enter();
    if (cluster_start(HOSTS, NULL)) {
        cl_options options = { 0 };
        cl_channel channels[2 * HOSTS];
        cl_host hosts[HOSTS];
        heard *all = malloc(sizeof *all);
        for (int i = 0; i < 2 * HOSTS; i++) {
            hosts[i % HOSTS] = host_of(cluster_host(i % HOSTS));
            ck_assert_int_eq(cl_remote_command(&channels[i], &hosts[i % HOSTS], &options, "true"), 0);
        }
        for (int i = 0; i < 2 * HOSTS; i++) {
            cl_link link;
            reset(all);
            cl_link_open(&link, channels[i].fd, channels[i].fd, NULL, false);
            hear(&link, all, SIZE_MAX);
            ck_assert_msg(all->finished == 0, "%s", all->why);
            cl_link_close(&link);
            wait_for(&channels[i]);
        }
        ck_assert_int_eq(shell_run("test $(wc -l < home/.ssh/known_hosts) = 8"), 0);
        free(all);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

/* In ssh_config(5), "none" means that no file is used. A file of the name "none" in the current folder would be
 * wrong. */
START_TEST(known_hosts_may_stand_anywhere)
{
    static const struct {
        const char *line, *said, *made; /* `made`: the file that the key is stored in; NULL: it is not stored */
    } rows[] = {
        { "UserKnownHostsFile none", "not stored, because UserKnownHostsFile is none", NULL },
        { "UserKnownHostsFile /dev/null", "not stored,", NULL },
        { "UserKnownHostsFile known_here", "stored in known_here", "known_here" },
        { "UserKnownHostsFile a/known", "stored in a/known", "a/known" },
    };
    shell_enter();
    if (cluster_start(1, NULL)) {
        heard *all = malloc(sizeof *all);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            shell_write("config", rows[i].line);
            cl_options options = { .ssh_config = "config" };
            run_command(cluster_host(0), &options, "true", all);
            ck_assert_msg(all->finished == 0 && strstr(all->said, rows[i].said), "%s: %d %s %s", rows[i].line,
                          all->finished, all->why, all->said);
            ck_assert_int_ne(access("none", F_OK), 0);
            ck_assert_int_ne(access("home/.ssh/known_hosts", F_OK), 0);
            if (rows[i].made)
                ck_assert_int_eq(access(rows[i].made, F_OK), 0);
        }
        free(all);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

/* ---- configuration ------------------------------------------------------------------------------ */

START_TEST(the_ssh_configuration_is_read)
{
    shell_enter();
    if (cluster_start(1, NULL)) {
        char text[4096];
        heard *all = malloc(sizeof *all);
        shell_run("mv home/.ssh/id_ed25519 key && rm home/.ssh/id_ed25519.pub");
        snprintf(text, sizeof text,
                 "Host worker\n  HostName %s\n  Port %d\n  User root\n  IdentityFile %s/../key\n"
                 "Host far\n  HostName %s\n  ProxyJump gate\n",
                 cluster_host(0), cluster_port(), getenv("HOME"), cluster_host(0));
        shell_write("home/.ssh/config", text);
        shell_write("other", text);
        for (int i = 0; i < 2; i++) {
            cl_options options = { .ssh_config = i ? "other" : NULL, .ssh_user = getuid() ? getenv("USER") : NULL };
            cl_channel channel;
            cl_link link;
            cl_host host = { .name = (char[]){ "worker" } };
            reset(all);
            ck_assert_int_eq(cl_remote_command(&channel, &host, &options, "true"), 0);
            cl_link_open(&link, channel.fd, channel.fd, NULL, false);
            hear(&link, all, SIZE_MAX);
            ck_assert_msg(all->finished == 0, "%s", all->why);
            cl_link_close(&link);
            wait_for(&channel);
        }
        cl_host host = { .name = (char[]){ "far" } };
        expect(&host, &(cl_options){ 0 }, CL_CODE_USAGE, "not supported: ProxyJump");
        host = (cl_host){ .name = (char[]){ "worker" }, .port = 1 };
        expect(&host, &(cl_options){ 0 }, CL_CODE_HOST, "port 1: connection refused");
        host = (cl_host){ .name = (char[]){ "worker" }, .address = (char[]){ "127.0.0.9" } };
        expect(&host, &(cl_options){ .ssh_port = 2 }, CL_CODE_HOST, "127.0.0.9 port 2: connection refused");
        free(all);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

/* The process that opened the carrier is killed; the agent then sees the end of its input. */
START_TEST(a_carrier_dies_with_its_opener)
{
    shell_enter();
    if (cluster_start(1, NULL)) {
        write_agent("");
        int ready[2];
        char byte;
        ck_assert_int_eq(pipe(ready), 0);
        pid_t opener = fork();
        if (opener == 0) {
            static heard all;
            cl_options options = { .agent_path = agent_path };
            cl_channel channel;
            cl_link link;
            cl_host host = host_of(cluster_host(0));
            reset(&all);
            cl_remote_open(&channel, &host, &options);
            cl_link_open(&link, channel.fd, channel.fd, NULL, false);
            ask_agent(&options, &link, &all, 3);
            _exit(write(ready[1], "x", 1) != 1 || pause());
        }
        close(ready[1]);
        ck_assert_int_eq(read(ready[0], &byte, 1), 1);
        ck_assert_int_gt(shell_left("agent's home"), 0);
        kill(opener, SIGKILL);
        waitpid(opener, NULL, 0);
        shell_await_left("agent's home", 0);
        close(ready[0]);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

/* If an agent ends after it has answered, the carrier only closes its socket; it sends no FAILED frame. */
START_TEST(the_end_of_an_agent_is_seen)
{
    shell_enter();
    if (cluster_start(1, NULL)) {
        heard *all = malloc(sizeof *all);
        cl_options options = { .agent_path = agent_path };
        cl_host host = host_of(cluster_host(0));
        write_agent("printf '\\ncspeed agent 1\\n'; exit 5");
        fail_agent(&host, &options, all);
        ck_assert_msg(all->failed == -1 && all->output_bytes == 0, "%s", all->why);
        free(all);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("remote", an_agent_answers, openssh_carries_too, commands_run, a_host_says_why_it_fails, no_key_is_accepted,
           host_keys_are_checked, new_keys_are_kept_under_a_lock, known_hosts_may_stand_anywhere,
           the_ssh_configuration_is_read, a_carrier_dies_with_its_opener, the_end_of_an_agent_is_seen)
