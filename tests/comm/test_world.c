/* test_world.c - environments that describe a world, and environments that are refused. */
#include "cspeed/comm.h"

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
    "CSPEED_ATTEMPT",
    "TORCHELASTIC_RUN_ID",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "PALS_RANKID",
    "PALS_LOCAL_RANKID",
    "PALS_APID",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_LOCAL_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_TASKS_PER_NODE",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
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
        *value++ = 0;
        setenv(pair, strcmp(value, "''") == 0 ? "" : value, 1);
    }
    cs_status status = cs_world_read(world);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return status;
}

#define MASTER " MASTER_ADDR=host1 MASTER_PORT=29501"
#define OMPI_1_OF_2                                                                                                    \
    "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2"
#define SRUN_5_OF_7 "SLURM_PROCID=5 SLURM_NTASKS=7 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_TASKS_PER_NODE=2(x3),1"

static const struct {
    const char *environment;
    int rank, size, local_rank, local_size, port;
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
    { OMPI_1_OF_2 MASTER, 1, 2, 1, 2, 29501, "host1", "" },
    { "PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", 1, 4, 1, 2, 29500, "", "" },
    { "PMI_RANK=0 PMI_SIZE=1", 0, 1, 0, 1, 29500, "", "" },
    { "MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=2", 3, 4, 1, 2,
      29500, "", "" },
    { "PALS_RANKID=3 PMI_RANK=3 PMI_SIZE=4 PALS_LOCAL_RANKID=1 PMI_LOCAL_SIZE=2 PALS_APID=a7", 3, 4, 1, 2, 29500, "",
      "a7" },
    { SRUN_5_OF_7, 5, 7, 1, 2, 29500, "", "" },
    { SRUN_5_OF_7 " SLURM_JOB_ID=12 SLURM_STEP_ID=0" MASTER, 5, 7, 1, 2, 29501, "host1", "12" },
    { SRUN_5_OF_7 " PMI_RANK=5 PMI_SIZE=7", 5, 7, 1, 2, 29500, "", "" },
    { "SLURM_PROCID=6 SLURM_NTASKS=7 SLURM_LOCALID=0 SLURM_NODEID=3 SLURM_TASKS_PER_NODE=2(x3),1", 6, 7, 0, 1, 29500,
      "", "" },
    { "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_TASKS_PER_NODE=4(x2) "
      "SLURM_STEP_TASKS_PER_NODE=1(x2)",
      1, 2, 0, 1, 29500, "", "" },
    { "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_TASKS_PER_NODE=8 SLURM_JOB_ID=12", 0, 1, 0, 1,
      0, "", "" }, /* a batch script, which srun has not started, is a world of one rank */
    { "SLURM_JOB_ID=12 SLURM_NTASKS=8", 0, 1, 0, 1, 0, "", "" },
    /* if one launcher has started the other, the variables of the inner one are used */
    { "RANK=0 WORLD_SIZE=3 TORCHELASTIC_RUN_ID=none " OMPI_1_OF_2 MASTER, 0, 3, 0, 3, 29501, "host1", "" },
    { "RANK=0 WORLD_SIZE=3 CSPEED_JOB_ID=j " SRUN_5_OF_7 MASTER, 0, 3, 0, 3, 29501, "host1", "j" },
    { OMPI_1_OF_2 " SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_ID=12 SLURM_STEP_ID=0", 1, 2, 1, 2, 29500, "", "" },
    { "RANK=5 WORLD_SIZE=7 " SRUN_5_OF_7 MASTER, 5, 7, 5, 7, 29501, "host1", "" },
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
    { "RANK=0 WORLD_SIZE=3 " OMPI_1_OF_2 MASTER,
      "RANK=0 WORLD_SIZE=3, but OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2" },
    { "RANK=0 WORLD_SIZE=3 " SRUN_5_OF_7 MASTER, "RANK=0 WORLD_SIZE=3, but SLURM_PROCID=5 SLURM_NTASKS=7" },
    { OMPI_1_OF_2 " PMI_RANK=0 PMI_SIZE=2",
      "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2, but PMI_RANK=0 PMI_SIZE=2" },
    { "PMI_RANK=1 PMI_SIZE=4", "MPI_LOCALRANKID is not set" },
    { "PMI_RANK=1", "PMI_SIZE=(unset)" },
    { "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0", "SLURM_NODEID=(unset)" },
    { "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_NODEID=4 SLURM_TASKS_PER_NODE=1(x2)", "contradict" },
    { "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_TASKS_PER_NODE=many", "contradict" },
    { "RANK=0 WORLD_SIZE=2 CSPEED_ATTEMPT=x" MASTER, "CSPEED_ATTEMPT" },
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
