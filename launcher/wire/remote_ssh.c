/* remote_ssh.c - reaches a host through libssh: one session with one command. remote_login.c logs in. */
#include "ground/codes.h"
#include "wire/remote_login.h"
#include "wire/remote_route.h"

#include "base/must.h"

#include <fcntl.h>
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    ssh_session session;
    ssh_channel channel;
    struct ssh_channel_callbacks_struct callbacks;
    int signal; /* the signal that ended the command */
} line;

static void note_signal(ssh_session session, ssh_channel channel, const char *name, int core, const char *message,
                        const char *language, void *data)
{
    line *l = data;
    (void)session, (void)channel, (void)core, (void)message, (void)language;
    l->signal = cl_codes_signal_number(name);
}

static int open_ssh(cl_route *route)
{
    line *l = route->state = ce_must_alloc(sizeof *l);
    int code = cl_remote_login(&l->session, route->host, route->options, route->messages);
    if (code)
        return code;
    l->channel = ssh_channel_new(l->session);
    if (!l->channel || ssh_channel_open_session(l->channel) != SSH_OK)
        return cl_codes_fail(CL_CODE_HOST, "the server refuses to open a channel: %s", ssh_get_error(l->session));
    l->callbacks = (struct ssh_channel_callbacks_struct){ .userdata = l, .channel_exit_signal_function = note_signal };
    ssh_callbacks_init(&l->callbacks);
    ssh_set_channel_callbacks(l->channel, &l->callbacks);
    if (ssh_channel_request_exec(l->channel, route->command) != SSH_OK)
        return cl_codes_fail(CL_CODE_HOST, "the server refuses to start a command: %s", ssh_get_error(l->session));
    ssh_set_blocking(l->session, 0);
    return 0;
}

static bool has_unsent(const line *l)
{
    return (ssh_get_poll_flags(l->session) & SSH_WRITE_PENDING) != 0;
}

static int poll_ssh(cl_route *route, bool reading, bool writing, struct pollfd *polled)
{
    line *l = route->state;
    *polled = (struct pollfd){ .fd = ssh_get_fd(l->session) };
    if (has_unsent(l))
        polled->events = POLLOUT;
    /* POLLIN is also needed for writing: libssh may send only as many bytes as the channel's window allows, and only a
     * message from the host enlarges this window */
    if (reading || writing)
        polled->events |= POLLIN;
    return 1;
}

static ssize_t read_ssh(cl_route *route, int which, char *bytes, size_t capacity)
{
    line *l = route->state;
    int count = ssh_channel_read_nonblocking(l->channel, bytes, (uint32_t)capacity, which);
    if (count > 0)
        return count;
    if (count == 0 || count == SSH_AGAIN)
        return ssh_channel_is_eof(l->channel) && ssh_channel_poll(l->channel, which) <= 0 ? CL_ROUTE_ENDED
                                                                                          : CL_ROUTE_LATER;
    return CL_ROUTE_ENDED;
}

static ssize_t write_ssh(cl_route *route, const char *bytes, size_t count)
{
    line *l = route->state;
    uint32_t window = ssh_channel_window_size(l->channel);
    if (ssh_channel_is_eof(l->channel) || ssh_channel_is_closed(l->channel) || !ssh_is_connected(l->session))
        return CL_ROUTE_ENDED;
    if (window == 0 || has_unsent(l))
        return CL_ROUTE_LATER;
    int taken = ssh_channel_write(l->channel, bytes, count < window ? (uint32_t)count : window);
    return taken > 0 ? taken : taken == SSH_ERROR ? CL_ROUTE_ENDED : CL_ROUTE_LATER;
}

static void end_input_ssh(cl_route *route)
{
    ssh_channel_send_eof(((line *)route->state)->channel);
}

static int code_of_ssh(cl_route *route)
{
    line *l = route->state;
    ssh_set_blocking(l->session, 1); /* blocks at most for the session's time-out */
    int status = ssh_is_connected(l->session) ? ssh_channel_get_exit_status(l->channel) : -1;
    if (l->signal)
        return CL_CODE_SIGNAL + l->signal;
    return status >= 0 ? status : 255;
}

static void close_ssh(cl_route *route)
{
    line *l = route->state;
    if (!l)
        return;
    if (l->session) {
        /* non-blocking, because a host that does not answer must not block the carrier */
        ssh_set_blocking(l->session, 0);
        ssh_disconnect(l->session);
        ssh_free(l->session);
    }
    free(l);
    route->state = NULL;
}

const cl_way cl_way_ssh = { open_ssh, poll_ssh, read_ssh, write_ssh, end_input_ssh, code_of_ssh, close_ssh };
