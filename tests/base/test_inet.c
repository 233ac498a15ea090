/* test_inet.c - connections to a host that has several addresses. */
#include "base/inet.h"
#include "suite.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

enum { DEAD = 8, MAX = DEAD + 2 };

typedef struct {
    struct sockaddr_in names[MAX];
    struct addrinfo list[MAX];
    int count;
} addresses;

static struct sockaddr *name_of(addresses *all, int i)
{
    return (struct sockaddr *)&all->names[i];
}

/* Adds 127.0.0.1 with this port to the list. */
static void add(addresses *all, int port)
{
    int i = all->count++;
    all->names[i] = (struct sockaddr_in){ .sin_family = AF_INET,
                                          .sin_port = htons((uint16_t)port),
                                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    all->list[i] =
        (struct addrinfo){ .ai_family = AF_INET, .ai_addr = name_of(all, i), .ai_addrlen = sizeof all->names[i] };
    if (i > 0)
        all->list[i - 1].ai_next = &all->list[i];
}

/* Binds a socket to a free port and adds its address. Without a call of listen, the port refuses connections. */
static int add_bound(addresses *all)
{
    int made;
    add(all, 0);
    ck_assert_int_eq(ce_inet_bind(name_of(all, all->count - 1), sizeof all->names[0], &made), 0);
    all->names[all->count - 1].sin_port = htons((uint16_t)ce_inet_port(made));
    return made;
}

/* Fills the queue of a listening socket, so that the kernel drops all further attempts to connect. */
static void fill(int listener, int *fillers, addresses *all)
{
    ck_assert_int_eq(listen(listener, 0), 0);
    for (int i = 0; i < DEAD; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], name_of(all, all->count - 1), sizeof all->names[0]);
    }
}

/* The last address of a list is tried, although the first has refused and all others do not answer. */
START_TEST(every_address_gets_its_turn)
{
    addresses all = { .count = 0 };
    int fillers[DEAD], made, refusing = add_bound(&all), dead = add_bound(&all);
    fill(dead, fillers, &all);
    for (int i = 1; i < DEAD; i++)
        add(&all, ntohs(all.names[1].sin_port));
    int good = add_bound(&all);
    ck_assert_int_eq(listen(good, 1), 0);
    ck_assert_int_eq(ce_inet_connect(all.list, 60, NULL, NULL, &made), 0);
    struct sockaddr_in peer;
    ck_assert_int_eq(getpeername(made, (struct sockaddr *)&peer, &(socklen_t){ sizeof peer }), 0);
    ck_assert_int_eq(peer.sin_port, all.names[all.count - 1].sin_port);
    close(made);
    close(good);
    /* A refusal ends the wait for addresses that do not answer, long before the limit of this test. */
    ck_assert_int_eq(ce_inet_connect(all.list, 3600, NULL, NULL, &made), ECONNREFUSED);
    for (int i = 0; i < DEAD; i++)
        close(fillers[i]);
    close(dead);
    close(refusing);
}
END_TEST

SUITE_MAIN("inet", every_address_gets_its_turn)
