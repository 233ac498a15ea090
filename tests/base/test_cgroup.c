/* test_cgroup.c - the memory limit and the free memory of a process's control groups, read from files that the test
 * writes. */
#include "shell.h"
#include "suite.h"

#include "base/cgroup.h"

#include <math.h>

/* Writes the file unless `text` is NULL. */
static void write_in(const char *root, const char *file, const char *text)
{
    if (text)
        shell_write_below(root, file, text);
}

/* Compares a number of bytes with the expected one. If this is -1, the number must not be known (NaN). */
static void expect_bytes(const char *root, double got, double wanted)
{
    ck_assert_msg(wanted < 0 ? isnan(got) : got == wanted, "%s: %g", root, got);
}

START_TEST(the_smallest_memory_limit_counts)
{
    static const struct {
        const char *root, *groups, *own2, *above2, *top2, *own1, *top1;
        double limit; /* -1: it is not known */
    } rows[] = {
        { "a", "0::/job/rank\n", "max\n", "max\n", NULL, NULL, NULL, INFINITY },
        { "b", "0::/job/rank\n", "3000\n", "max\n", NULL, NULL, NULL, 3000 },
        { "c", "0::/job/rank\n", "3000\n", "2000\n", NULL, NULL, NULL, 2000 },
        { "d", "0::/job/rank\n", NULL, NULL, "1000\n", NULL, NULL, 1000 }, /* the mount of a container */
        { "e", "4:memory:/job\n0::/\n", NULL, NULL, NULL, "500\n", "9223372036854771712\n", 500 },
        { "f", "4:memory:/job\n0::/\n", NULL, NULL, NULL, NULL, "9223372036854771712\n", INFINITY },
        { "g", "3:cpu:/job\n", NULL, NULL, NULL, NULL, "700\n", 700 },
        { "h", "0::/job/rank\n", NULL, NULL, NULL, NULL, NULL, -1 },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *root = rows[i].root;
        write_in(root, "proc/self/cgroup", rows[i].groups);
        write_in(root, "sys/fs/cgroup/job/rank/memory.max", rows[i].own2);
        write_in(root, "sys/fs/cgroup/job/memory.max", rows[i].above2);
        write_in(root, "sys/fs/cgroup/memory.max", rows[i].top2);
        write_in(root, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", rows[i].own1);
        write_in(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", rows[i].top1);
        expect_bytes(root, ce_cgroup_memory_limit(root), rows[i].limit);
    }
    shell_leave();
}
END_TEST

/* The file pages that a group caches are free. In version 1, too, the group with the least memory left counts. */
START_TEST(a_limit_minus_what_is_used_is_free)
{
    static const struct {
        const char *root, *limit2, *usage2, *stat2, *limit1, *usage1, *stat1;
        double free_bytes; /* -1: it is not known */
    } rows[] = {
        { "a", "9000\n", "5000\n", "anon 1\ninactive_file 300\nactive_file 200\n", NULL, NULL, NULL, 4500 },
        { "b", "9000\n", "9500\n", "", NULL, NULL, NULL, 0 },
        { "c", "max\n", "9500\n", "", NULL, NULL, NULL, INFINITY },
        { "d", "9000\n", NULL, NULL, NULL, NULL, NULL, 9000 },
        { "e", NULL, NULL, NULL, "8000\n", "5000\n", "active_file 7\ntotal_inactive_file 30\ntotal_active_file 20\n",
          3050 },
        { "f", NULL, NULL, NULL, "9223372036854771712\n", "5000\n", "", INFINITY },
        { "g", NULL, "5000\n", "", NULL, NULL, NULL, -1 },
        { "h", "9000\n", "5000\n", NULL, "8000\n", "5000\n", NULL, 3000 },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *root = rows[i].root;
        write_in(root, "proc/self/cgroup", "4:memory:/job\n0::/job\n");
        write_in(root, "sys/fs/cgroup/job/memory.max", rows[i].limit2);
        write_in(root, "sys/fs/cgroup/job/memory.current", rows[i].usage2);
        write_in(root, "sys/fs/cgroup/job/memory.stat", rows[i].stat2);
        write_in(root, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", rows[i].limit1);
        write_in(root, "sys/fs/cgroup/memory/job/memory.usage_in_bytes", rows[i].usage1);
        write_in(root, "sys/fs/cgroup/memory/job/memory.stat", rows[i].stat1);
        expect_bytes(root, ce_cgroup_free_bytes(root), rows[i].free_bytes);
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("cgroup", the_smallest_memory_limit_counts, a_limit_minus_what_is_used_is_free)
