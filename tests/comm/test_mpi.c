/* test_mpi.c - the transport mpi under a real mpirun: every collective against the model, calls that differ, a rank
 * that is killed, training, and what is refused. CSPEED_TEST_MPIRUN names another mpirun than the mpirun that CMake
 * found; CSPEED_MPI_MODULE then names the module that was built for that mpirun. With CSPEED_MPI_LARGE, the test also
 * sends a message of more than 2 GiB and needs 5 GB of memory. The test is skipped where the module was not built. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <signal.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#ifdef CS_MPIRUN
enum { RANKS = 3, MISMATCHES = 7 };
/* the same values as in the enumeration of calls in test_calls_lost.c */
enum { BARRIER, ALL_REDUCE, GATHER = 7, IMESSAGES = 10 };

static char mpirun[512]; /* the command, with the options that Open MPI needs on a small machine and as root */
static bool is_open_mpi;
static char job_variable[64]; /* the variable by which the processes of this test's jobs are found */

static void find_mpirun(void)
{
    const char *given = getenv("CSPEED_TEST_MPIRUN"), *name = given ? given : CS_MPIRUN;
    snprintf(mpirun, sizeof mpirun, "%s --version | grep -q 'Open MPI\\|OpenRTE'", name);
    is_open_mpi = system(mpirun) == 0;
    snprintf(mpirun, sizeof mpirun, "%s%s", name,
             is_open_mpi ? " --allow-run-as-root --oversubscribe --bind-to none" : "");
    snprintf(job_variable, sizeof job_variable, "CSPEED_TEST_JOB=%d.", (int)getpid());
    putenv(job_variable);
}

/* Runs a program of this build on `ranks` ranks. */
static int __attribute__((format(printf, 2, 3))) run(int ranks, const char *format, ...)
{
    char words[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return shell_run("%s -n %d %s/%s", mpirun, ranks, CS_BIN, words);
}

/* Runs a program that must succeed. PMIx waits two seconds for mpirun when a rank is finalized; if the machine is so
 * busy that mpirun does not answer in this time, Open MPI fails, and the program is run again. */
static void run_well(int ranks, const char *words)
{
    int code = run(ranks, "%s", words);
    if (code && is_open_mpi && training_says("exiting improperly"))
        code = run(ranks, "%s", words);
    training_expect(0, code);
}

/* Checks that a run has ended with this code. MPICH's mpiexec may instead return the code of a rank that it killed. */
static void expect_failure(int code, int got)
{
    if (got == 0 || is_open_mpi)
        training_expect(code, got);
}

/* ---- collectives ------------------------------------------------------------------------------- */

START_TEST(collectives_are_the_model)
{
    shell_enter();
    for (int ranks = 1; ranks <= 8; ranks++)
        run_well(ranks, "test_collectives mpi each");
    run_well(3, "test_collectives mpi switches");
    run_well(4, "test_collectives mpi random");
    run_well(5, "test_collectives mpi random");
    if (getenv("CSPEED_MPI_LARGE"))
        run_well(2, "test_collectives mpi large");
    shell_leave();
}
END_TEST

START_TEST(calls_that_differ_are_named)
{
    shell_enter();
    for (int i = 0; i < MISMATCHES; i++) {
        expect_failure(76, run(RANKS, "test_calls_lost mpi differ %d", i));
        ck_assert(training_says("rank 2 calls"));
    }
    shell_leave();
}
END_TEST

START_TEST(a_late_rank_is_named)
{
    static const int calls[] = { ALL_REDUCE, GATHER, IMESSAGES };
    shell_enter();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        expect_failure(75, run(RANKS, "test_calls_lost mpi late %d", calls[i]));
        ck_assert(training_says("rank 1 did not take part within the time limit of a call"));
    }
    shell_leave();
}
END_TEST

START_TEST(a_killed_rank_ends_the_job)
{
    static const int calls[] = { BARRIER, ALL_REDUCE, GATHER, IMESSAGES };
    shell_enter();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        ck_assert_int_ne(run(RANKS, "test_calls_lost mpi die %d", calls[i]), 0);
        shell_await_left(job_variable, 0);
    }
    shell_leave();
}
END_TEST

/* ---- training ---------------------------------------------------------------------------------- */

#define LOSSES "grep -o '\"[a-z_]*loss\": [0-9.]*' out/metrics.jsonl"

START_TEST(training_has_the_losses_of_shared_memory)
{
    training_prepare();
    for (int stage = 0; stage <= 3; stage += 3) {
        training_config("bf16", "", stage);
        training_run(2, "--fresh");
        ck_assert_int_eq(shell_run(LOSSES " > shm.txt && [ $(wc -l < shm.txt) -gt 24 ]"), 0);
        run_well(2, "train --config config.json --fresh --backend mpi");
        ck_assert_int_eq(shell_run(LOSSES " | diff shm.txt -"), 0);
    }
    shell_leave();
}
END_TEST

/* Each rank is a process that mpirun has started, and not a child of an agent. */
START_TEST(the_launcher_starts_ranks_by_mpirun)
{
    training_prepare();
    training_config("bf16", "", 2);
    run_well(2, "train --config config.json --fresh --backend mpi");
    ck_assert_int_eq(shell_run(LOSSES " > direct.txt"), 0);
    training_expect(0, shell_run("%s/cspeed --launcher %s --num_gpus 2 --oversubscribe train --config config.json "
                                 "--fresh --backend mpi",
                                 CS_BIN, is_open_mpi ? "openmpi" : "mpich"));
    ck_assert(training_says("2 ranks on 1 node by mp"));
    ck_assert_int_eq(shell_run(LOSSES " | diff direct.txt -"), 0);
    training_expect(0,
                    shell_run("%s/cspeed --launcher %s --num_gpus 2 --oversubscribe bench comm --comm mpi --max_bytes "
                              "1024",
                              CS_BIN, is_open_mpi ? "openmpi" : "mpich"));
    ck_assert(training_says("2 ranks over mpi"));
    shell_leave();
}
END_TEST

START_TEST(a_killed_rank_ends_the_training)
{
    training_prepare();
    training_config("bf16", "", 2);
    pid_t job =
        shell_start("%s -n 2 %s/train --config config.json --fresh --backend mpi --steps 1000000", mpirun, CS_BIN);
    pid_t rank = 0;
    shell_await("test -e out/metrics.jsonl");
    ck_assert_int_ne(rank = shell_find(job_variable, "train"), 0);
    ck_assert_int_eq(kill(rank, SIGKILL), 0);
    ck_assert_int_ne(shell_wait(job), 0);
    shell_await_left(job_variable, 0);
    shell_leave();
}
END_TEST

/* ---- what is refused --------------------------------------------------------------------------- */

START_TEST(ranks_that_mpi_did_not_start_are_refused)
{
    shell_enter();
    training_expect(78, shell_run("%s/cspeed --num_gpus 2 --oversubscribe run %s/test_calls_lost mpi late 1", CS_BIN,
                                  CS_BIN));
    ck_assert(training_says("not supported: communication \"mpi\" among ranks that cspeed starts itself"));
    training_expect(78,
                    shell_run("RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 %s/test_calls_lost mpi late 1",
                              CS_BIN));
    ck_assert(training_says("the environment says rank 0 of 2, but"));
    shell_leave();
}
END_TEST

START_TEST(a_module_that_is_absent_or_foreign_is_refused)
{
    char *own = getenv("CSPEED_MPI_MODULE"), *kept = own ? strdup(own) : NULL;
    shell_enter();
    setenv("CSPEED_MPI_MODULE", "./nowhere.so", 1);
    expect_failure(78, run(2, "test_calls_lost mpi late 1"));
    ck_assert(training_says("libcspeed_mpi.so cannot be opened: the file does not exist"));
    ck_assert(training_says("apt install libopenmpi-dev"));
    ck_assert_int_eq(shell_run("sed \"s/\\(%s\\)/xxxxx/\" %s > foreign.so", CS_VERSION,
                               kept ? kept : CS_BIN "/libcspeed_mpi.so"),
                     0);
    setenv("CSPEED_MPI_MODULE", "./foreign.so", 1);
    expect_failure(78, run(2, "test_calls_lost mpi late 1"));
    ck_assert(training_says("belongs to another build of this program"));
    unsetenv("CSPEED_MPI_MODULE");
    if (kept)
        setenv("CSPEED_MPI_MODULE", kept, 1);
    free(kept);
    shell_leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        collectives_are_the_model,
        calls_that_differ_are_named,
        a_late_rank_is_named,
        a_killed_rank_ends_the_job,
        training_has_the_losses_of_shared_memory,
        the_launcher_starts_ranks_by_mpirun,
        a_killed_rank_ends_the_training,
        ranks_that_mpi_did_not_start_are_refused,
        a_module_that_is_absent_or_foreign_is_refused,
    };
    find_mpirun();
    return suite_run("mpi", tests, (int)(sizeof tests / sizeof *tests));
}
#else
int main(void)
{
    puts("mpi: skipped, libcspeed_mpi.so was not built");
    return SUITE_SKIPPED;
}
#endif
