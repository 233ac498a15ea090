/* test_spawn.c - cs_spawn: the world of the child processes, their failures, and that no process is left. */
#include "cspeed/cspeed.h"
#include "base/must.h"
#include "base/status.h"
#include "cspeed/comm.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    _Atomic int ran[8];
    _Atomic int pids[8];
    int port[8];
    char job[8][64];
} record;

static record *shared_record(void)
{
    record *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
    return page;
}

static int note_world(void *argument)
{
    record *page = argument;
    cs_world world;
    if (cs_world_read(&world) != CS_OK)
        return 1;
    if (world.rank != world.local_rank || world.size != world.local_size)
        return 2;
    atomic_fetch_add(&page->ran[world.rank], world.size);
    page->port[world.rank] = world.port;
    memcpy(page->job[world.rank], world.job, sizeof world.job);
    return 0;
}

START_TEST(every_rank_runs_once_in_one_world)
{
    record *page = shared_record(), *other = shared_record();
    ck_assert_msg(cs_spawn(_i, note_world, page) == CS_OK, "%s", cs_error());
    for (int i = 0; i < _i; i++) {
        ck_assert_int_eq(page->ran[i], _i);
        ck_assert_int_eq(page->port[i], page->port[0]);
        ck_assert_str_eq(page->job[i], page->job[0]);
    }
    ck_assert_int_eq(cs_spawn(1, note_world, other), CS_OK);
    ck_assert_msg(strcmp(page->job[0], other->job[0]) != 0, "two jobs have the name %s", other->job[0]);
    ck_assert_ptr_null(getenv("RANK"));
    munmap(page, sizeof *page);
    munmap(other, sizeof *other);
}
END_TEST

static int own_rank(void)
{
    cs_world world;
    return cs_world_read(&world) == CS_OK ? world.rank : -1;
}

static void note_and_wait(record *page)
{
    atomic_store(&page->pids[own_rank()], getpid());
    for (;;)
        pause();
}

static void await_noted(record *page, int rank)
{
    while (!atomic_load(&page->pids[rank]))
        usleep(1000);
}

static int fail_with_sentence(void *argument)
{
    if (own_rank() != 1)
        note_and_wait(argument);
    await_noted(argument, 0);
    await_noted(argument, 2);
    ce_fail(CS_BAD_CONFIG, "the moon is not a rank");
    return 78;
}

static int fail_by_signal(void *argument)
{
    if (own_rank() != 2)
        note_and_wait(argument);
    await_noted(argument, 0);
    await_noted(argument, 1);
    raise(SIGKILL);
    return 0;
}

static int fail_beyond_a_byte(void *argument)
{
    (void)argument;
    return own_rank() == 0 ? 256 : 0;
}

static int fail_fatally(void *argument)
{
    if (own_rank() != 0)
        note_and_wait(argument);
    ce_fatal(CS_NO_PEER, "a sentence of the test");
}

static const struct {
    int (*run)(void *argument);
    cs_status status;
    const char *sentence;
} failures[] = {
    { fail_with_sentence, CS_BAD_CONFIG, "rank 1 ended with code 78: the moon is not a rank" },
    { fail_by_signal, CS_NO_PEER, "rank 2 was ended by signal 9" },
    { fail_beyond_a_byte, CS_NO_PEER, "rank 0 ended with code 1" },
    { fail_fatally, CS_NO_PEER, "rank 0 ended with code 75" },
};

START_TEST(the_first_failure_ends_all_and_is_named)
{
    record *page = shared_record();
    ck_assert_int_eq(cs_spawn(3, failures[_i].run, page), failures[_i].status);
    ck_assert_msg(strstr(cs_error(), failures[_i].sentence) != NULL, "\"%s\"", cs_error());
    for (int i = 0; i < 3; i++)
        if (page->pids[i]) {
            ck_assert_int_eq(kill(page->pids[i], 0), -1);
            ck_assert_int_eq(errno, ESRCH);
        }
    munmap(page, sizeof *page);
}
END_TEST

START_TEST(a_child_of_the_caller_is_left_alone)
{
    pid_t own = fork();
    ck_assert_int_ge(own, 0);
    if (own == 0)
        _exit(42);
    record *page = shared_record();
    ck_assert_msg(cs_spawn(2, note_world, page) == CS_OK, "%s", cs_error());
    int status = 0;
    ck_assert_int_eq(waitpid(own, &status, 0), own);
    ck_assert_int_eq(WEXITSTATUS(status), 42);
    munmap(page, sizeof *page);
}
END_TEST

static int wait_forever(void *argument)
{
    note_and_wait(argument);
    return 0;
}

START_TEST(ranks_die_with_their_parent)
{
    record *page = shared_record();
    pid_t parent = fork();
    ck_assert_int_ge(parent, 0);
    if (parent == 0)
        _exit(cs_spawn(2, wait_forever, page) != CS_OK);
    await_noted(page, 0);
    await_noted(page, 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* the orphans become children of this process, which waits for them */
    kill(parent, SIGKILL);
    ck_assert_int_eq(waitpid(parent, NULL, 0), parent);
    for (int i = 0; i < 2; i++) {
        int status = 0;
        ck_assert_int_eq(waitpid(page->pids[i], &status, 0), page->pids[i]);
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "rank %d ended with status %d", i, status);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    munmap(page, sizeof *page);
}
END_TEST

START_TEST(no_ranks_are_refused)
{
    ck_assert_int_eq(cs_spawn(0, note_world, NULL), CS_BAD_CONFIG);
    ck_assert_int_eq(cs_spawn(-3, note_world, NULL), CS_BAD_CONFIG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spawn");
    TCase *tests = tcase_create("spawn");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_rank_runs_once_in_one_world, 1, 6);
    tcase_add_loop_test(tests, the_first_failure_ends_all_and_is_named, 0, sizeof failures / sizeof *failures);
    tcase_add_test(tests, a_child_of_the_caller_is_left_alone);
    tcase_add_test(tests, ranks_die_with_their_parent);
    tcase_add_test(tests, no_ranks_are_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
