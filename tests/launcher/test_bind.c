/* test_bind.c - binding of ranks to cores, on simulated machines and on this one. */
#include "suite.h"

#include "plan/bind.h"
#include "ground/codes.h"
#include "ground/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two NUMA nodes, each with four cores of two hardware threads. CPUs are numbered as hwloc numbers a synthetic
 * machine. */
#define MACHINE "pack:2 numa:1 l3:2 core:2 pu:2"

static void describe_machine(cl_cores *cores, int quota)
{
    *cores = (cl_cores){ .cpu_count = 16, .core_count = 8, .node_count = 2, .quota = quota };
    for (int i = 0; i < 16; i++)
        cores->cpus[i] = (cl_cpu){ i, i / 2 * 2, i / 8 };
}

static const struct {
    int ranks, mode;
    const char *list;
    int quota;
    /* for each rank CPUs/THREADS, separated by spaces; "free/N": not bound, with N threads */
    const char *result;
    int code;
} table[] = {
    { 1, CL_BIND_AUTO, "", 16, "0-15/8", 0 },
    { 2, CL_BIND_AUTO, "", 16, "0-7/4 8-15/4", 0 },
    { 3, CL_BIND_AUTO, "", 16, "0-5/3 6-11/3 12-15/2", 0 },
    { 8, CL_BIND_AUTO, "", 16, "0-1/1 2-3/1 4-5/1 6-7/1 8-9/1 10-11/1 12-13/1 14-15/1", 0 },
    { 16, CL_BIND_AUTO, "", 16, "0/1 1/1 2/1 3/1 4/1 5/1 6/1 7/1 8/1 9/1 10/1 11/1 12/1 13/1 14/1 15/1", 0 },
    /* a CPU quota limits the amount of CPU time, not the choice of cores */
    { 2, CL_BIND_AUTO, "", 4, "free/2 free/2", 0 },
    { 4, CL_BIND_AUTO, "", 2, "free/1 free/1 free/1 free/1", 0 },
    { 2, CL_BIND_CORE, "", 4, "0-7/2 8-15/2", 0 },
    { 2, CL_BIND_CORE, "0,2,4,6", 16, "0,2/2 4,6/2", 0 },
    { 2, CL_BIND_CORE, "8-15", 16, "8-11/2 12-15/2", 0 },
    { 3, CL_BIND_CORE, "0-3", 16, "0-1/1 2/1 3/1", 0 },
    { 5, CL_BIND_CORE, "0-3", 16, "", CL_CODE_SLOTS },
    { 17, CL_BIND_CORE, "", 16, "", CL_CODE_SLOTS },
    { 1, CL_BIND_CORE, "0,99", 16, "", CL_CODE_SLOTS },
    { 2, CL_BIND_NUMA, "", 16, "0-7/4 8-15/4", 0 },
    { 3, CL_BIND_NUMA, "", 16, "0-3/2 4-7/2 8-15/4", 0 }, /* no rank spans two NUMA nodes */
    { 1, CL_BIND_NUMA, "", 16, "0-15/8", 0 },
    { 4, CL_BIND_SOCKET, "", 16, "0-3/2 4-7/2 8-11/2 12-15/2", 0 },
    { 4, CL_BIND_L3, "", 16, "0-3/2 4-7/2 8-11/2 12-15/2", 0 },
    { 3, CL_BIND_L3, "", 16, "0-7/4 8-11/2 12-15/2", 0 },
    { 5, CL_BIND_L3, "", 16, "0-1/1 2-3/1 4-7/2 8-11/2 12-15/2", 0 },
    { 2, CL_BIND_NUMA, "2-5,8", 16, "2-5/2 8/1", 0 },
    { 4, CL_BIND_NUMA, "2,3,8", 16, "", CL_CODE_SLOTS },
    { 2, CL_BIND_NONE, "", 16, "free free", 0 },
};

static void write_binding(const cl_binding *binding, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < binding->count; i++) {
        char cores[128] = "free";
        if (binding->bound)
            cl_cores_print(&binding->list[i].cpus, cores, sizeof cores);
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", cores);
        if (binding->set_threads)
            used += (size_t)snprintf(text + used, size - used, "/%d", binding->list[i].threads);
    }
}

START_TEST(machines)
{
    setenv("HWLOC_SYNTHETIC", MACHINE, 1);
    unsetenv("OMP_NUM_THREADS");
    unsetenv("KMP_AFFINITY");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cl_cores cores;
        cl_binding binding;
        char text[512];
        cl_order order = { .rank_count = table[i].ranks, .bind = table[i].mode };
        snprintf(order.core_list, sizeof order.core_list, "%s", table[i].list);
        describe_machine(&cores, table[i].quota);
        int code = cl_bind_share(&binding, &order, &cores, NULL);
        ck_assert_msg(code == table[i].code, "row %zu: %d %s", i, code, cs_error());
        if (code)
            continue;
        write_binding(&binding, text, sizeof text);
        ck_assert_msg(strcmp(text, table[i].result) == 0, "row %zu: %s, not %s", i, text, table[i].result);
        cl_bind_free(&binding);
    }
    unsetenv("HWLOC_SYNTHETIC");
}
END_TEST

START_TEST(bindings_are_described)
{
    cl_cores cores;
    cl_binding binding;
    char *environment[] = { (char *)(size_t) "OMP_NUM_THREADS=3", NULL };
    cl_order order = { .rank_count = 2, .first_rank = 4, .bind = CL_BIND_CORE };
    unsetenv("OMP_NUM_THREADS");
    describe_machine(&cores, 16);
    ck_assert_int_eq(cl_bind_share(&binding, &order, &cores, NULL), 0);
    ck_assert_str_eq(binding.text, "rank 4 on cores 0-7, rank 5 on cores 8-15; 4 threads each");
    cl_bind_free(&binding);
    /* A number of threads that the user has set is kept. */
    order.environment = environment;
    ck_assert_int_eq(cl_bind_share(&binding, &order, &cores, NULL), 0);
    ck_assert(!binding.set_threads);
    cl_bind_free(&binding);
    environment[0] = (char *)(size_t) "KMP_AFFINITY=compact";
    ck_assert_int_eq(cl_bind_share(&binding, &order, &cores, NULL), CL_CODE_USAGE);
    order.bind = CL_BIND_AUTO;
    ck_assert_int_eq(cl_bind_share(&binding, &order, &cores, NULL), 0);
    ck_assert(!binding.bound);
    cl_bind_free(&binding);
}
END_TEST

/* Each rank is bound to cores near its GPU. */
START_TEST(devices)
{
    static const struct {
        int ranks, homes[4];
        const char *result;
    } rows[] = {
        { 2, { 1, 0 }, "8-15/4 0-7/4" },
        { 4, { 0, 1, 0, 1 }, "0-3/2 8-11/2 4-7/2 12-15/2" },
        { 3, { 1, 1, 1 }, "8-11/2 12-13/1 14-15/1" },
        /* no allowed core is near GPU 7, so the ranks are bound as without GPUs */
        { 2, { 0, 7 }, "0-7/4 8-15/4" },
    };
    unsetenv("OMP_NUM_THREADS");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cl_cores cores;
        cl_binding binding;
        char text[256];
        cl_order order = { .rank_count = rows[i].ranks };
        describe_machine(&cores, 16);
        ck_assert_int_eq(cl_bind_share(&binding, &order, &cores, rows[i].homes), 0);
        write_binding(&binding, text, sizeof text);
        ck_assert_str_eq(text, rows[i].result);
        cl_bind_free(&binding);
    }
}
END_TEST

/* Lists in the syntax of DeepSpeed's --bind_core_list. */
START_TEST(ranges)
{
    static const struct {
        const char *text, *cores; /* NULL: the list is refused */
    } rows[] = {
        { "0,2-4,6,8-9", "0,2-4,6,8-9" },
        { "1, 3", "1,3" },
        { "5", "5" },
        { "3-3", "3" },
        { "0-2,3", "0-3" },
        { "0,2-6,5-9", NULL },
        { "8,2-6", NULL },
        { "1,6-2", NULL },
        { "", NULL },
        { "a", NULL },
        { "1,1", NULL },
        { "1,", NULL },
        { ",1", NULL },
        { "1-", NULL },
        { "-1", NULL },
        { "1-2-3", NULL },
        { "1;2", NULL },
        { "99999", NULL },
        { "0x1", NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cpu_set_t set;
        char text[128];
        int code = cl_cores_parse(&set, "--bind_core_list", rows[i].text);
        ck_assert_msg((code == 0) == (rows[i].cores != NULL), "%s", rows[i].text);
        if (code) {
            ck_assert_int_eq(code, CL_CODE_USAGE);
            continue;
        }
        cl_cores_print(&set, text, sizeof text);
        ck_assert_str_eq(text, rows[i].cores);
    }
}
END_TEST

/* Every way of binding works on this machine, and no core is given to two ranks. */
START_TEST(every_binding_works_on_this_machine)
{
    for (int mode = CL_BIND_AUTO; mode <= CL_BIND_L3; mode++) {
        cl_binding binding;
        cl_order order = { .rank_count = 1, .bind = mode };
        ck_assert_msg(cl_bind_assign(&binding, &order) == 0, "%s", cs_error());
        ck_assert_int_ge(binding.list[0].threads, 1);
        cl_bind_free(&binding);
    }
}
END_TEST

SUITE_MAIN("bind", machines, bindings_are_described, devices, ranges, every_binding_works_on_this_machine)
