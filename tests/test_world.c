/* test_world.c - environments that make a world, and those that are refused. */
#include "comm/world.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "CSPEED_JOB_ID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
};

/* "NAME=value NAME=value"; a value of "''" is empty. */
static cs_status read_with(cs_world *world, const char *environment)
{
    char text[512], *rest = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    strncpy(text, environment, sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (char *pair = strtok_r(text, " ", &rest); pair; pair = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(pair, '=');
        *value++    = 0;
        setenv(pair, strcmp(value, "''") == 0 ? "" : value, 1);
    }
    cs_status status = cs_world_read(world);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return status;
}

#define MASTER " MASTER_ADDR=host1 MASTER_PORT=29501"

static const struct {
    const char *environment;
    int         rank, size, local_rank, local_size, port;
    const char *address, *job;
} good[] = {
    { "", 0, 1, 0, 1, 0, "", "" },
    { "RANK=0 WORLD_SIZE=1" MASTER, 0, 1, 0, 1, 29501, "host1", "" },
    { "RANK=3 WORLD_SIZE=4" MASTER, 3, 4, 3, 4, 29501, "host1", "" },
    { "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 CSPEED_JOB_ID=j7" MASTER, 3, 4, 1, 2, 29501, "host1", "j7" },
    { "CSPEED_JOB_ID=j7", 0, 1, 0, 1, 0, "", "" },
    { "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
      "PMIX_NAMESPACE=77",
      1, 2, 1, 2, 29500, "", "77" },
    { "RANK=0 WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2" MASTER, 0, 3, 0, 3, 29501, "host1", "" },
};

START_TEST(worlds_are_read)
{
    cs_world world;
    ck_assert_msg(read_with(&world, good[_i].environment) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(world.rank, good[_i].rank);
    ck_assert_int_eq(world.size, good[_i].size);
    ck_assert_int_eq(world.local_rank, good[_i].local_rank);
    ck_assert_int_eq(world.local_size, good[_i].local_size);
    ck_assert_int_eq(world.port, good[_i].port);
    ck_assert_str_eq(world.address, good[_i].address);
    ck_assert_str_eq(world.job, good[_i].job);
}
END_TEST

static const struct {
    const char *environment, *seen;
} bad[] = {
    { "RANK=1", "WORLD_SIZE=(unset)" },
    { "WORLD_SIZE=2" MASTER, "RANK=(unset)" },
    { "LOCAL_RANK=0", "LOCAL_RANK=0 is set" },
    { "MASTER_PORT=29500", "MASTER_PORT=29500 is set" },
    { "RANK=0 WORLD_SIZE=2", "MASTER_ADDR=(unset)" },
    { "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a", "MASTER_PORT=(unset)" },
    { "RANK=2 WORLD_SIZE=2" MASTER, "RANK=2 is not below WORLD_SIZE=2" },
    { "RANK=-1 WORLD_SIZE=2" MASTER, "\"-1\"" },
    { "RANK=+1 WORLD_SIZE=2" MASTER, "\"+1\"" },
    { "RANK=1x WORLD_SIZE=2" MASTER, "\"1x\"" },
    { "RANK='' WORLD_SIZE=2" MASTER, "RANK" },
    { "RANK=0 WORLD_SIZE=0" MASTER, "WORLD_SIZE" },
    { "RANK=0 WORLD_SIZE=99999999999999999999" MASTER, "WORLD_SIZE" },
    { "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0" MASTER, "LOCAL_WORLD_SIZE=(unset)" },
    { "RANK=0 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=1" MASTER, "contradict" },
    { "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3" MASTER, "contradict" },
    { "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=65536", "MASTER_PORT" },
    { "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=0", "MASTER_PORT" },
    { "RANK=0 WORLD_SIZE=2 CSPEED_JOB_ID=0123456789012345678901234567890123456789012345678901234567890123" MASTER,
      "CSPEED_JOB_ID" },
};

START_TEST(contradictions_are_refused)
{
    cs_world world;
    ck_assert_msg(read_with(&world, bad[_i].environment) == CS_BAD_CONFIG, "accepted: %s", bad[_i].environment);
    ck_assert_msg(strstr(cs_error(), bad[_i].seen) != NULL, "\"%s\" does not show %s", cs_error(), bad[_i].seen);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("world");
    TCase *tests = tcase_create("world");
    tcase_add_loop_test(tests, worlds_are_read, 0, sizeof good / sizeof *good);
    tcase_add_loop_test(tests, contradictions_are_refused, 0, sizeof bad / sizeof *bad);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
