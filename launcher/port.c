/* port.c - the job's master port. */
#include "port.h"

#include "codes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Binds the port on the loopback address; *port becomes the one that was given. 0, or an errno value. */
static int bind_port(int wanted, int *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)wanted) };
    socklen_t          length  = sizeof address;
    int                on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        return errno;
    *port = ntohs(address.sin_port);
    return 0;
}

static int bind_name(int port)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int                fd      = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int                length  = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "cspeed.port.%d", port);
    socklen_t          bytes   = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    return fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) < 0 ? errno : 0;
}

int cs_port_hold(int wanted, int *port)
{
    enum { ATTEMPTS = 16 };
    int reason = 0;
    for (int attempt = 0; attempt < (wanted ? 1 : ATTEMPTS); attempt++) {
        reason = bind_port(wanted, port);
        if (reason == 0)
            reason = bind_name(*port);
        if (reason == 0)
            return 0;
    }
    if (wanted)
        return cs_codes_fail(CS_CODE_SLOTS,
                             "--master_port %d: %s; another job or program holds it (`ss -ltnp` names it), and "
                             "without the flag a free port is taken",
                             wanted, strerror(reason));
    return cs_codes_fail(CS_CODE_SLOTS, "no free port on 127.0.0.1: %s", strerror(reason));
}
