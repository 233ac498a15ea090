/* inet.c - TCP sockets over IPv4 and IPv6. */
#include "base/inet.h"
#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

/* The number of attempts that may be open at once; the time after which the next attempt begins; the time for which the
 * attempts still go on when all have begun and an address has refused the connection, because the host is then known to
 * be up (a lost packet is sent again after one second); and the longest time between two calls of `stop`. */
enum { MAX_ATTEMPTS = 16, NEXT_MILLISECONDS = 250, REFUSED_MILLISECONDS = 2000, TURN_MILLISECONDS = 100 };

typedef struct {
    struct pollfd open[MAX_ATTEMPTS];
    nfds_t count;
    int reason, made; /* why no connection is open, and the connection's socket or -1 */
} attempts;

static bool is_any6(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

int ce_inet_bind(const struct sockaddr *address, socklen_t bytes, int *made)
{
    int on = 1, off = 0, reason;
    *made = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*made < 0 && errno == EAFNOSUPPORT && is_any6(address)) {
        struct sockaddr_in four = { .sin_family = AF_INET,
                                    .sin_port = ((const struct sockaddr_in6 *)(const void *)address)->sin6_port };
        return ce_inet_bind((const struct sockaddr *)&four, sizeof four, made);
    }
    if (*made < 0)
        return errno;
    if (is_any6(address))
        setsockopt(*made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (setsockopt(*made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 && bind(*made, address, bytes) == 0)
        return 0;
    reason = errno;
    close(*made);
    *made = -1;
    return reason;
}

int ce_inet_port(int bound)
{
    struct sockaddr_storage address = { 0 };
    socklen_t length = sizeof address;
    getsockname(bound, (struct sockaddr *)&address, &length);
    return ntohs(address.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)(const void *)&address)->sin6_port
                                               : ((const struct sockaddr_in *)(const void *)&address)->sin_port);
}

/* ---- connecting ---- */

static void fail(attempts *all, int reason)
{
    if (all->reason != ECONNREFUSED)
        all->reason = reason;
}

/* Begins to connect to one address. If too many attempts are open, the oldest of them ends. */
static void begin(attempts *all, const struct addrinfo *address)
{
    int made = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made >= 0 && connect(made, address->ai_addr, address->ai_addrlen) < 0 && errno != EINPROGRESS) {
        fail(all, errno);
        close(made);
        return;
    }
    if (made < 0) {
        fail(all, errno);
        return;
    }
    if (all->count == MAX_ATTEMPTS) {
        close(all->open[0].fd);
        all->count--;
        for (nfds_t i = 0; i < all->count; i++)
            all->open[i] = all->open[i + 1];
    }
    all->open[all->count++] = (struct pollfd){ .fd = made, .events = POLLOUT };
}

/* Waits a moment for the open attempts, keeps the first connection and closes the attempts that have failed. */
static void wait_for_one(attempts *all)
{
    nfds_t left = 0;
    poll(all->open, all->count, TURN_MILLISECONDS);
    for (nfds_t i = 0; i < all->count; i++) {
        int reason = 0;
        socklen_t length = sizeof reason;
        struct pollfd one = all->open[i];
        if (one.revents && all->made < 0) {
            getsockopt(one.fd, SOL_SOCKET, SO_ERROR, &reason, &length);
            if (reason) {
                fail(all, reason);
                close(one.fd);
            } else {
                all->made = one.fd;
            }
            continue;
        }
        all->open[left++] = one;
    }
    all->count = left;
}

int ce_inet_connect(const struct addrinfo *list, double seconds, bool (*stop)(void *), void *context, int *made)
{
    double now = ce_clock_seconds(), next_at = now, end = now + seconds;
    attempts all = { .made = -1, .reason = ETIMEDOUT };
    do { /* one attempt is made however little time is left, so that its reason can be reported */
        if (list && (all.count == 0 || now >= next_at)) {
            begin(&all, list);
            list = list->ai_next;
            next_at = now + NEXT_MILLISECONDS / 1e3;
        }
        if (all.count)
            wait_for_one(&all);
        now = ce_clock_seconds();
        if (!list && all.reason == ECONNREFUSED && end > now + REFUSED_MILLISECONDS / 1e3)
            end = now + REFUSED_MILLISECONDS / 1e3;
    } while (all.made < 0 && (list || all.count) && now < end && !(stop && stop(context)));
    if (all.count)
        fail(&all, ETIMEDOUT);
    for (nfds_t i = 0; i < all.count; i++)
        close(all.open[i].fd);
    *made = all.made;
    return all.made < 0 ? all.reason : 0;
}
