/* test_meeting.c - ranks that meet by env://, tcp:// and file://. */
#include "cspeed/comm.h"
#include "ports.h"
#include "suite.h"
#include "sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const cs_comm_settings settings = { .kind = "auto", .heap_bytes = 1 << 20, .timeout_seconds = 20 };

static int meet_by(const char *init_method, const char *kind)
{
    cs_comm *comm = NULL;
    cs_comm_settings own_settings = settings;
    int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE")), one = 1;
    own_settings.kind = kind;
    SHOULD(cs_comm_open_at(&comm, init_method, rank, size, &own_settings));
    EXPECT(cs_comm_rank(comm) == rank && cs_comm_size(comm) == size, "rank %d of %d", cs_comm_rank(comm),
           cs_comm_size(comm));
    const char *should = size == 1 ? "self" : strcmp(kind, "auto") == 0 ? "shm" : kind;
    EXPECT(strcmp(cs_comm_kind(comm), should) == 0, "ranks of one host use %s", cs_comm_kind(comm));
    cs_comm_all_reduce(comm, &one, 1, CS_I32, CS_SUM);
    EXPECT(one == size, "the sum is %d", one);
    cs_comm_close(comm);
    return 0;
}

static int meet_everywhere(void *argument)
{
    return meet_by(argument, "auto") || (strcmp(getenv("WORLD_SIZE"), "1") != 0 && meet_by(argument, "tcp"));
}

static int meet_by_environment(void *argument)
{
    cs_comm *comm = NULL;
    (void)argument;
    EXPECT(cs_comm_open_at(&comm, "env://", 7, 9, &settings) == CS_BAD_CONFIG && !comm, "a wrong rank was taken");
    SHOULD(cs_comm_open_at(&comm, "env://", -1, -1, &settings));
    cs_comm_close(comm);
    return meet_by("env://", "auto");
}

START_TEST(ranks_meet_by_the_environment)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        ck_assert_msg(cs_spawn(ranks, meet_by_environment, NULL) == CS_OK, "%s", cs_error());
}
END_TEST

START_TEST(ranks_meet_at_an_address)
{
    char text[64];
    for (int ranks = 1; ranks <= 4; ranks++) {
        snprintf(text, sizeof text, ranks == 3 ? "tcp://[::1]:%d" : "tcp://127.0.0.1:%d", ports_free("127.0.0.1"));
        ck_assert_msg(cs_spawn(ranks, meet_everywhere, text) == CS_OK, "%s: %s", text, cs_error());
    }
}
END_TEST

START_TEST(ranks_meet_by_a_file)
{
    char folder[] = "/tmp/cspeed-meeting-XXXXXX", text[64];
    struct stat status;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(text, sizeof text, "file://%s/place", folder);
    for (int ranks = 1; ranks <= 4; ranks++)
        ck_assert_msg(cs_spawn(ranks, meet_everywhere, text) == CS_OK, "%s: %s", text, cs_error());
    ck_assert_int_eq(stat(text + strlen("file://"), &status), -1);
    FILE *left = fopen(text + strlen("file://"), "w");
    fclose(left);
    ck_assert_int_ne(cs_spawn(2, meet_everywhere, text), CS_OK);
    ck_assert_msg(strstr(cs_error(), "exists: another job uses it for its rendezvous,") != NULL, "%s", cs_error());
    unlink(text + strlen("file://"));
    rmdir(folder);
}
END_TEST

START_TEST(wrong_addresses_are_refused)
{
    static const struct {
        const char *init_method, *says;
    } wrong[] = {
        { "udp://127.0.0.1:1", "\"udp://127.0.0.1:1\" is not a method" },
        { "tcp://127.0.0.1", "tcp://HOST:PORT is needed" },
        { "tcp://:80", "tcp://HOST:PORT is needed" },
        { "tcp://127.0.0.1:0", "a port from 1 to 65535" },
        { "tcp://127.0.0.1:99999", "a port from 1 to 65535" },
        { "tcp://127.0.0.1:80x", "a port from 1 to 65535" },
        { "file://", "\"file://\" is not a method" },
        { "file:///no/such/folder/place", "rank 0 cannot write there" },
        { "", "\"\" is not a method" },
    };
    cs_comm *comm = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_msg(cs_comm_open_at(&comm, wrong[i].init_method, 0, 2, &settings) == CS_BAD_CONFIG, "%s: %s",
                      wrong[i].init_method, cs_error());
        ck_assert_msg(!comm && strstr(cs_error(), wrong[i].says), "%s: %s", wrong[i].init_method, cs_error());
    }
    ck_assert_int_eq(cs_comm_open_at(&comm, "tcp://127.0.0.1:29500", 2, 2, &settings), CS_BAD_CONFIG);
}
END_TEST

/* If ranks are missing, rank 0 names them when the time limit ends. */
static int come_alone(void *argument)
{
    cs_comm *comm = NULL;
    cs_comm_settings hasty = settings;
    hasty.timeout_seconds = 0.5;
    SHOULD(cs_comm_open_at(&comm, argument, 0, 3, &hasty));
    return 0;
}

START_TEST(missing_ranks_are_named)
{
    char text[64];
    snprintf(text, sizeof text, "tcp://127.0.0.1:%d", ports_free("127.0.0.1"));
    ck_assert_int_ne(cs_spawn(1, come_alone, text), CS_OK);
    ck_assert_msg(strstr(cs_error(), "1, 2") != NULL, "%s", cs_error());
}
END_TEST

SUITE_MAIN("meeting", ranks_meet_by_the_environment, ranks_meet_at_an_address, ranks_meet_by_a_file,
           wrong_addresses_are_refused, missing_ranks_are_named)
