/* port.c - reserves the job's master port. */
#include "node/port.h"

#include "ground/codes.h"

#include "base/inet.h"
#include "base/status.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* the socket that bind_name opened for the reserved port; a process reserves at most one port at a time */
static int name_fd = -1;

/* Opens a socket that is bound to a port; *port receives the port. Returns 0, or an errno value. */
static int bind_port(const cl_port_wish *wish, int *port, int *fd)
{
    struct sockaddr_in loopback = { .sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)wish->port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = loopback.sin_port };
    const struct sockaddr *address =
        wish->everywhere ? (const struct sockaddr *)&any : (const struct sockaddr *)&loopback;
    int reason = ce_inet_bind(address, wish->everywhere ? sizeof any : sizeof loopback, fd);
    if (reason == 0)
        *port = ce_inet_port(*fd);
    return reason;
}

/* Opens a Unix socket that is bound to an abstract name, which contains the port's number. Only one socket at a time
 * can be bound to such a name. Returns 0, or an errno value: EADDRINUSE if another process has reserved the port. */
static int bind_name(int port, int *fd)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "cspeed.port.%d", port);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return *fd < 0 || bind(*fd, (struct sockaddr *)&address, bytes) < 0 ? errno : 0;
}

bool cl_port_is_held(int port)
{
    int fd, reason = bind_name(port, &fd);
    if (fd >= 0)
        close(fd);
    return reason == EADDRINUSE;
}

void cl_port_release(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    if (name_fd >= 0)
        close(name_fd);
    *fd = name_fd = -1;
}

int cl_port_hold(const cl_port_wish *wish, int *port, int *fd)
{
    enum { ATTEMPTS = 16 };
    int reason = 0;
    for (int attempt = 0; attempt < (wish->port ? 1 : ATTEMPTS); attempt++) {
        reason = bind_port(wish, port, fd);
        if (reason == 0)
            reason = bind_name(*port, &name_fd);
        if (reason == 0)
            return 0;
        cl_port_release(fd);
    }
    if (wish->port)
        return cl_codes_fail(CL_CODE_SLOTS,
                             "--master_port (or MASTER_PORT) %d: %s; another job or program uses it (`ss -ltnp` "
                             "names it); if no port is given, a free one is used",
                             wish->port, strerror(reason));
    return cl_codes_fail(CL_CODE_SLOTS, "no free port: %s", ce_reason(reason));
}
