/* test_comm_groups.c - groups of ranks: they work at the same time, leave no descriptor and no thread behind, and
 * refuse calls of ranks that are not members. */
#include "layout.h"
#include "suite.h"

#include <dirent.h>
#include <pthread.h>

/* Two groups work at the same time: the pairs of ranks make different calls, and different numbers of calls. */
static int work_apart(void *argument)
{
    cs_comm *comm = NULL, *pair = NULL, *none = NULL;
    SHOULD(layout_open(&comm, argument, false, 1 << 20));
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm);
    SHOULD(cs_comm_split(&pair, comm, rank / 2, rank));
    EXPECT(cs_comm_size(pair) == 2 && cs_comm_rank(pair) == rank % 2, "rank %d of %d", cs_comm_rank(pair),
           cs_comm_size(pair));
    for (int i = 0; i < 100 * (1 + rank / 2); i++) {
        int64_t sum = rank + i;
        cs_comm_all_reduce(pair, &sum, 1, CS_I64, rank / 2 ? CS_MAX : CS_SUM);
        int64_t should = rank / 2 ? (rank | 1) + i : 1 + 2 * i;
        EXPECT(sum == should, "rank %d, round %d: %lld, not %lld", rank, i, (long long)sum, (long long)should);
    }
    SHOULD(cs_comm_split(&none, comm, -1, 0));
    EXPECT(cs_comm_rank(none) == -1 && cs_comm_size(none) == 0, "a comm without members has %d", cs_comm_size(none));
    cs_comm_close(none);
    cs_comm_close(comm); /* a communicator may be closed before its groups */
    int64_t one = 1;
    cs_comm_all_reduce(pair, &one, 1, CS_I64, CS_SUM);
    EXPECT(one == 2 && size == 4, "the sum of ones is %lld", (long long)one);
    cs_comm_close(pair);
    return 0;
}

START_TEST(groups_work_at_the_same_time)
{
    layout layouts[] = { { "shm", 4, { 0 } }, { "tcp", 4, { 4 } }, { "tcp", 4, { 2, 2 } }, { "auto", 4, { 2, 2 } } };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        ck_assert_msg(cs_spawn(4, work_apart, &layouts[i]) == CS_OK, "%s: %s", layouts[i].kind, cs_error());
}
END_TEST

static int count_entries(const char *folder)
{
    int count = 0;
    DIR *directory = opendir(folder);
    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count;
}

static void *return_at_once(void *argument)
{
    return argument;
}

/* Opening a communicator, splitting it and closing it leaves no descriptor and no thread behind. ThreadSanitizer starts
 * a thread of its own with the first thread of a process, so one thread is started before threads are counted. */
static int open_and_close(void *argument)
{
    pthread_t first;
    EXPECT(pthread_create(&first, NULL, return_at_once, NULL) == 0 && pthread_join(first, NULL) == 0,
           "a thread did not start or end");
    int descriptors = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    for (int round = 0; round < 100; round++) {
        cs_comm *comm = NULL, *group = NULL;
        int one = 1;
        SHOULD(layout_open(&comm, argument, true, 1 << 20));
        SHOULD(cs_comm_split(&group, comm, round % 2, 0));
        cs_work_wait(cs_comm_iall_reduce(group, &one, 1, CS_I32, CS_SUM));
        EXPECT(one == cs_comm_size(comm), "round %d: the sum is %d", round, one);
        cs_comm_close(comm);
        cs_comm_close(group);
        EXPECT(count_entries("/proc/self/fd") == descriptors && count_entries("/proc/self/task") == threads,
               "round %d: %d descriptors, not %d; %d threads, not %d", round, count_entries("/proc/self/fd"),
               descriptors, count_entries("/proc/self/task"), threads);
    }
    return 0;
}

START_TEST(closing_leaves_nothing_behind)
{
    layout layouts[] = { { "shm", 2, { 0 } }, { "tcp", 2, { 2 } } };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        ck_assert_msg(cs_spawn(2, open_and_close, &layouts[i]) == CS_OK, "%s: %s", layouts[i].kind, cs_error());
}
END_TEST

static int call_outside(void *argument)
{
    cs_comm *comm = NULL, *group = NULL;
    SHOULD(layout_open(&comm, argument, false, 1 << 20));
    SHOULD(cs_comm_split(&group, comm, cs_comm_rank(comm) ? 0 : -1, 0));
    int one = 1;
    if (cs_comm_rank(comm) == 0)
        cs_comm_all_reduce(group, &one, 1, CS_I32, CS_SUM);
    cs_comm_barrier(comm);
    return 0;
}

START_TEST(calls_of_no_member_are_refused)
{
    layout on = { "shm", 2, { 0 } };
    ck_assert_int_eq(cs_spawn(2, call_outside, &on), CS_MISUSE);
}
END_TEST

SUITE_MAIN("comm_groups", groups_work_at_the_same_time, closing_leaves_nothing_behind, calls_of_no_member_are_refused)
