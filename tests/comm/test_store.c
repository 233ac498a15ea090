/* test_store.c - the key-value store: values arrive, missing ranks are named, and connections of other programs disturb
 * nothing. */
#include "base/clock.h"
#include "base/log.h"
#include "comm/store/store.h"
#include "ports.h"
#include "suite.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_COUNT = 8 };

typedef int (*part)(const cs_world *world);

typedef struct {
    int code;
    char said[4096];
} ending;

static char address[64] = "127.0.0.1";

static cs_world world_of(int rank, int size, int port)
{
    cs_world world = { .rank = rank, .size = size, .local_size = 1, .port = port };
    snprintf(world.address, sizeof world.address, "%s", address);
    snprintf(world.job, sizeof world.job, "store-%d", (int)getpid());
    return world;
}

typedef struct {
    pid_t pid;
    int output;
} actor;

static actor begin(cs_world world, part run)
{
    int pipes[2];
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        dup2(pipes[1], STDERR_FILENO);
        ce_log_open(CE_LOG_INFO, world.rank);
        int code = run(&world);
        if (code)
            dprintf(STDERR_FILENO, "%s\n", cs_error());
        _exit(code);
    }
    close(pipes[1]);
    return (actor){ pid, pipes[0] };
}

static ending end(actor one)
{
    ending result = { 0 };
    ssize_t got;
    size_t length = 0;
    int status;
    while ((got = read(one.output, result.said + length, sizeof result.said - 1 - length)) > 0)
        length += (size_t)got;
    close(one.output);
    ck_assert_int_eq(waitpid(one.pid, &status, 0), one.pid);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

static void expect(const ending *is, int code, const char *sentence)
{
    ck_assert_msg(is->code == code, "ended with %d, not %d, saying: %s", is->code, code, is->said);
    ck_assert_msg(!sentence || strstr(is->said, sentence), "said \"%s\", not \"%s\"", is->said, sentence);
}

/* Rank r sets a value of 3 r bytes, each of which is r, and reads the values of all ranks. */
static int tell_all(const cs_world *world)
{
    ce_store *store;
    unsigned char bytes[CE_STORE_VALUE];
    char name[32];
    size_t length;
    if (ce_store_open(&store, world, 20) != CS_OK)
        return 1;
    memset(bytes, world->rank, sizeof bytes);
    snprintf(name, sizeof name, "of %d", world->rank);
    if (ce_store_set(store, name, bytes, 3 * (size_t)world->rank) != CS_OK)
        return 2;
    for (int i = world->size - 1; i >= 0; i--) {
        snprintf(name, sizeof name, "of %d", i);
        if (ce_store_get(store, name, bytes, sizeof bytes, &length, 20) != CS_OK)
            return 3;
        if (length != 3 * (size_t)i || (i && bytes[length - 1] != i))
            return 4;
    }
    ce_store_close(store);
    return 0;
}

static void all_tell_all(int size, int port)
{
    actor actors[MAX_COUNT];
    for (int i = 0; i < size; i++)
        actors[i] = begin(world_of(i, size, port), tell_all);
    for (int i = 0; i < size; i++) {
        ending is = end(actors[i]);
        expect(&is, 0, NULL);
    }
}

START_TEST(what_is_set_is_got)
{
    for (int size = 1; size <= 5; size++)
        all_tell_all(size, ports_free("127.0.0.1"));
}
END_TEST

START_TEST(by_ipv6_too)
{
    snprintf(address, sizeof address, "::1");
    all_tell_all(3, ports_free("127.0.0.1"));
    snprintf(address, sizeof address, "127.0.0.1");
}
END_TEST

START_TEST(by_name_too)
{
    snprintf(address, sizeof address, "localhost");
    all_tell_all(2, ports_free("127.0.0.1"));
    snprintf(address, sizeof address, "127.0.0.1");
}
END_TEST

static int wait_for_nothing(const cs_world *world)
{
    ce_store *store;
    char value[8];
    size_t length;
    if (ce_store_open(&store, world, 20) != CS_OK)
        return 1;
    if (ce_store_get(store, "nothing", value, sizeof value, &length, 0.3) != CS_NO_PEER)
        return 2;
    if (!strstr(cs_error(), "no rank has set \"nothing\" within 0.3 seconds"))
        return 3;
    if (ce_store_set(store, "long", "123456789", 9) != CS_OK ||
        ce_store_get(store, "long", value, sizeof value, &length, 1) != CS_NO_PEER)
        return 4;
    char name[CE_STORE_NAME + 2] = "";
    memset(name, 'n', CE_STORE_NAME + 1);
    if (ce_store_set(store, name, "", 0) != CS_BAD_CONFIG || ce_store_set(store, "", "", 0) != CS_BAD_CONFIG)
        return 5;
    ce_store_close(store);
    return 0;
}

START_TEST(a_wait_ends_at_its_time_limit)
{
    int port = ports_free("127.0.0.1");
    actor actors[2] = { begin(world_of(0, 2, port), wait_for_nothing), begin(world_of(1, 2, port), wait_for_nothing) };
    for (int i = 0; i < 2; i++) {
        ending is = end(actors[i]);
        expect(&is, 0, NULL);
    }
}
END_TEST

static double patience = 1; /* seconds for which meet_soon waits */

static int meet_soon(const cs_world *world)
{
    ce_store *store;
    if (ce_store_open(&store, world, patience) != CS_OK)
        return cs_exit_code(CS_NO_PEER);
    ce_store_close(store);
    return 0;
}

/* On a busy machine a rank may start later than the others wait, so a test waits longer each time. */
enum { MOST = 64 };
#define FOR_EACH_PATIENCE for (patience = 1; patience <= MOST; patience *= 4)

START_TEST(the_missing_are_named)
{
    int port = ports_free("127.0.0.1");
    actor lonely = begin(world_of(1, 4, port), meet_soon);
    ending is = end(lonely);
    expect(&is, 75, "rank 0 did not join within 1 seconds (127.0.0.1:");
    FOR_EACH_PATIENCE
    {
        actor actors[2] = { begin(world_of(0, 4, port), meet_soon), begin(world_of(2, 4, port), meet_soon) };
        ending are[2] = { end(actors[0]), end(actors[1]) };
        if (!strstr(are[0].said, "ranks 1, 3 ") && patience < MOST)
            continue; /* rank 2 came too late, because the machine is busy */
        expect(&are[0], 75, "ranks 1, 3 did not join within");
        expect(&are[1], 75, "ranks 1, 3 did not join within");
        break;
    }
}
END_TEST

/* Rank 0 has descriptors for its listener, its thread's event, and both ends of its own connection, but none for rank
 * 1. */
static int meet_without_descriptors(const cs_world *world)
{
    enum { OWN = 4, SECONDS = 3 };
    ce_store *store;
    struct rlimit limit;
    struct rusage used;
    int lowest = dup(STDERR_FILENO);
    close(lowest);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)(lowest + OWN);
    setrlimit(RLIMIT_NOFILE, &limit);
    if (ce_store_open(&store, world, SECONDS) == CS_OK)
        return 0;
    getrusage(RUSAGE_SELF, &used);
    /* exit code 9: the process used CPU time while it waited, instead of sleeping */
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec >= SECONDS / 2 ? 9 : 75;
}

START_TEST(running_out_of_descriptors_is_said)
{
    int port = ports_free("127.0.0.1");
    actor host = begin(world_of(0, 2, port), meet_without_descriptors), other = begin(world_of(1, 2, port), meet_soon);
    ending is = end(host);
    expect(&is, 75, "ranks cannot connect to the rendezvous: too many open files: raise ulimit -n");
    end(other);
}
END_TEST

/* Two processes say that they are rank 1: the one that comes second is refused, and the other waits for rank 2. */
START_TEST(places_are_taken_once)
{
    int port = ports_free("127.0.0.1");
    cs_world big = world_of(1, 3, port), odd = world_of(2, 4, port);
    FOR_EACH_PATIENCE
    {
        actor actors[4] = { begin(world_of(0, 3, port), meet_soon), begin(odd, meet_soon), begin(big, meet_soon),
                            begin(big, meet_soon) };
        ending are[4] = { end(actors[0]), end(actors[1]), end(actors[2]), end(actors[3]) };
        bool all_came = strstr(are[0].said, "rank 2 did") && strstr(are[1].said, "WORLD_SIZE") &&
                        strstr(strstr(are[2].said, "two ranks") ? are[3].said : are[2].said, "rank 2 did");
        if (!all_came && patience < MOST)
            continue;
        bool second_first = strstr(are[2].said, "two ranks 1") != NULL;
        expect(&are[0], 75, "rank 2 did not join");
        expect(&are[1], 75, "rank 2 has WORLD_SIZE 4, but rank 0 has 3");
        expect(&are[2], 75, second_first ? "there are two ranks 1" : "rank 2 did not join");
        expect(&are[3], 75, second_first ? "rank 2 did not join" : "there are two ranks 1");
        break;
    }
}
END_TEST

/* ---- unauthenticated -------------------------------------------------------------------------- */

static int knock(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int made = -1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 500 && made < 0; i++) {
        made = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(made, (struct sockaddr *)&to, sizeof to) == 0)
            return made;
        close(made);
        made = -1;
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    ck_abort_msg("nobody listens at %d", port);
}

/* Before the ranks connect: hundreds of connections that send nothing, some that send invalid data, and one that sends
 * one word at a time. */
START_TEST(unauthenticated_connections_delay_no_rank)
{
    enum { SILENT = 400 };
    int port = ports_free("127.0.0.1"), sockets[SILENT], code = 0;
    actor host = begin(world_of(0, 3, port), tell_all);
    for (int i = 0; i < SILENT; i++)
        sockets[i] = knock(port);
    for (int i = 0; i < 3; i++) {
        static const char *const nonsense[] = { "GET / HTTP/1.1\r\n\r\n", "CSJN\1\1\1\1",
                                                "\377\377\377\377\377\377\377" };
        int one = knock(port);
        if (write(one, nonsense[i], strlen(nonsense[i])) < 0)
            code = 1;
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
        close(one);
    }
    int slow = knock(port);
    actor others[2];
    for (int i = 0; i < 2; i++) {
        others[i] = begin(world_of(i + 1, 3, port), tell_all);
        if (write(slow, &"CSJN"[i], 1) < 0)
            code = 2;
    }
    for (int i = 0; i < 2; i++) {
        ending is = end(others[i]);
        expect(&is, 0, NULL);
    }
    ending is = end(host);
    expect(&is, 0, "refused a connection from 127.0.0.1:");
    expect(&is, 0, "malformed hello");
    for (int i = 0; i < SILENT; i++)
        close(sockets[i]);
    close(slow);
    ck_assert_int_eq(code, 0);
}
END_TEST

static void inherit_key(const char *text)
{
    unsigned char key[32] = { 0 };
    char number[16];
    int memory = memfd_create("key", 0);
    memcpy(key, text, strlen(text));
    if (write(memory, key, sizeof key) != sizeof key)
        _exit(9);
    snprintf(number, sizeof number, "%d", memory);
    setenv("CSPEED_KEY_FD", number, 1);
}

static int come_with_key(const cs_world *world)
{
    inherit_key("right");
    return tell_all(world);
}

static int come_with_wrong_key(const cs_world *world)
{
    inherit_key("wrong");
    return tell_all(world);
}

START_TEST(only_who_knows_the_key_gets_in)
{
    int port = ports_free("127.0.0.1");
    cs_world other = world_of(1, 2, port);
    actor host = begin(world_of(0, 2, port), come_with_key), wrong = begin(other, come_with_wrong_key);
    actor keyless = begin(other, tell_all);
    ending is = end(wrong);
    expect(&is, 1, "secrets differ");
    is = end(keyless);
    expect(&is, 1, "one side has a secret");
    snprintf(other.job, sizeof other.job, "another");
    is = end(begin(other, come_with_key));
    expect(&is, 1, "it belongs to another job");
    other = world_of(1, 2, port);
    other.attempt = 1;
    is = end(begin(other, come_with_key));
    expect(&is, 1, "it belongs to another attempt");
    is = end(begin(world_of(1, 2, port), come_with_key));
    expect(&is, 0, NULL);
    is = end(host);
    expect(&is, 0, "does not have the secret");
    expect(&is, 0, "it belongs to job \"another\"");
}
END_TEST

START_TEST(without_a_key_only_loopback)
{
    int port = ports_free("127.0.0.1");
    snprintf(address, sizeof address, "0.0.0.0");
    ending is = end(begin(world_of(0, 2, port), meet_soon));
    expect(&is, 75, "needs a secret");
    snprintf(address, sizeof address, "192.0.2.1"); /* an address that is reserved for documentation */
    is = end(begin(world_of(1, 2, port), meet_soon));
    expect(&is, 75, "needs a secret");
    snprintf(address, sizeof address, "127.0.0.1");
}
END_TEST

/* If a rank is lost before all have connected, another process may take its rank. */
START_TEST(a_rank_may_come_again)
{
    int port = ports_free("127.0.0.1");
    actor host = begin(world_of(0, 3, port), tell_all), first = begin(world_of(1, 3, port), tell_all);
    nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
    kill(first.pid, SIGKILL);
    ending is = end(first);
    expect(&is, 128 + SIGKILL, NULL);
    actor again = begin(world_of(1, 3, port), tell_all), last = begin(world_of(2, 3, port), tell_all);
    is = end(again);
    expect(&is, 0, NULL);
    is = end(last);
    expect(&is, 0, NULL);
    is = end(host);
    expect(&is, 0, NULL);
}
END_TEST

static int meet_three_times(const cs_world *world)
{
    for (int i = 0; i < 3; i++) {
        int code = tell_all(world);
        if (code)
            return 10 * i + code;
    }
    return 0;
}

static int inherited = -1;

static int host_with_inherited(const cs_world *world)
{
    char number[16];
    snprintf(number, sizeof number, "%d", inherited);
    setenv("CSPEED_MASTER_FD", number, 1);
    return meet_three_times(world);
}

START_TEST(ranks_meet_again_and_sockets_are_inherited)
{
    int port = ports_free("127.0.0.1");
    for (int round = 0; round < 2; round++) {
        struct sockaddr_in own = { .sin_family = AF_INET };
        socklen_t length = sizeof own;
        own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (round) {
            inherited = socket(AF_INET, SOCK_STREAM, 0);
            ck_assert_int_eq(bind(inherited, (struct sockaddr *)&own, sizeof own), 0);
            ck_assert_int_eq(getsockname(inherited, (struct sockaddr *)&own, &length), 0);
            port = ntohs(own.sin_port);
        }
        actor actors[3];
        for (int i = 0; i < 3; i++)
            actors[i] = begin(world_of(i, 3, port), i == 0 && round ? host_with_inherited : meet_three_times);
        if (round)
            close(inherited);
        for (int i = 0; i < 3; i++) {
            ending is = end(actors[i]);
            expect(&is, 0, NULL);
        }
    }
}
END_TEST

SUITE_MAIN("store", what_is_set_is_got, by_ipv6_too, by_name_too, a_wait_ends_at_its_time_limit, the_missing_are_named,
           running_out_of_descriptors_is_said, places_are_taken_once, unauthenticated_connections_delay_no_rank,
           only_who_knows_the_key_gets_in, without_a_key_only_loopback, a_rank_may_come_again,
           ranks_meet_again_and_sockets_are_inherited)
