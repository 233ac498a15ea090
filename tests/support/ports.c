/* ports.c - free TCP ports for tests. */
#include "ports.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST = 10000, COUNT = 22000 }; /* The range is below 32768, where the ephemeral ports of the kernel begin. */

static bool is_free(const char *address, int port)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(inet_pton(AF_INET, address, &name.sin_addr), 1);
    bool found = bind(fd, (struct sockaddr *)&name, sizeof name) == 0;
    close(fd);
    return found;
}

int ports_free(const char *address)
{
    static int next;
    if (!next)
        next = getpid() * 131;
    for (int tries = 0; tries < COUNT; tries++) {
        int port = FIRST + next++ % COUNT;
        if (is_free(address, port))
            return port;
    }
    ck_abort_msg("no port is free at %s", address);
}
