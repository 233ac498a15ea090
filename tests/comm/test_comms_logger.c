/* test_comms_logger.c - statistics of collectives: the recorded calls, and the arithmetic and tables of DeepSpeed. */
#include "suite.h"
#include "lines.h"
#include "shell.h"
#include "base/beat.h"
#include "comm/comms_logger.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(names)
{
    static const struct {
        const char *name;
        int operation;
    } cases[] = {
        { "all_reduce", CE_BEAT_ALL_REDUCE },
        { "reduce_scatter_tensor", CE_BEAT_REDUCE_SCATTER },
        { "reduce_scatter", CE_BEAT_REDUCE_SCATTER },
        { "all_gather_into_tensor", CE_BEAT_ALL_GATHER },
        { "all_gather", CE_BEAT_ALL_GATHER },
        { "broadcast", CE_BEAT_BROADCAST },
        { "barrier", CE_BEAT_BARRIER },
        { "all_to_all_single", CE_BEAT_ALL_TO_ALL },
        { "permute", 0 },
        { "", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_int_eq(ce_comms_logger_find(cases[i].name), cases[i].operation);
}
END_TEST

/* In a world of one rank, prints the statistics of calls as if there were `ranks` ranks. No other rank is involved. */
static char *table_of(ce_comms_logger *logger)
{
    cs_world world = { .rank = 0, .size = 1, .local_rank = 0, .local_size = 1 };
    cs_comm *comm;
    int before = dup(STDOUT_FILENO);
    ck_assert_int_eq(cs_comm_open(&comm, &world, &(cs_comm_settings){ .kind = "self" }), CS_OK);
    fflush(stdout);
    FILE *file = fopen("table.txt", "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(dup2(fileno(file), STDOUT_FILENO), 0);
    ce_comms_logger_print(logger, comm);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    fclose(file);
    cs_comm_close(comm);
    return shell_read("table.txt", NULL);
}

/* Gbit/s computed by hand: 1 MiB in 1 ms is 8.388608. */
START_TEST(arithmetic)
{
    static const struct {
        int operation;
        const char *name;
        double algorithm, bus;
    } cases[] = {
        { CE_BEAT_ALL_REDUCE, "all_reduce", 2 * 8.388608, 8.388608 * 2 * 3 / 4 },
        { CE_BEAT_REDUCE_SCATTER, "reduce_scatter_tensor", 4 * 8.388608, 3 * 8.388608 },
        { CE_BEAT_ALL_GATHER, "all_gather_into_tensor", 4 * 8.388608, 3 * 8.388608 },
        { CE_BEAT_BROADCAST, "broadcast", 8.388608, 8.388608 },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ce_comms_logger *logger = ce_comms_logger_new(&(ce_comms_logger_settings){ true, false, UINT32_MAX }, 4);
        double count, total, mean, algorithm, bus, min, max;
        for (int call = 0; call < 20; call++) /* at each end, two of twenty values are excluded from the trimmed mean */
            ce_comms_logger_record(logger, cases[i].operation, 1 << 20, call < 2 ? 100e-3 : call < 4 ? 1e-6 : 1e-3);
        char *table = table_of(logger);
        char *row = strstr(table, cases[i].name);
        ck_assert_ptr_nonnull(row);
        row = strstr(row, "1.0 MB");
        ck_assert_ptr_nonnull(row);
        ck_assert_int_eq(sscanf(row, "1.0 MB %lf %lf %lf %lf %lf %lf %lf", &count, &total, &mean, &algorithm, &bus,
                                &min, &max),
                         7);
        ck_assert(count == 20 && fabs(total - 216.002) < 0.02 && fabs(mean - 1) < 0.01);
        ck_assert(fabs(algorithm - cases[i].algorithm) < 0.02 && fabs(bus - cases[i].bus) < 0.02);
        ck_assert(min < 0.01 && fabs(max - 100) < 0.01);
        free(table);
        ce_comms_logger_free(logger);
    }
    shell_leave();
}
END_TEST

/* Only the requested operations are recorded; and memory is bounded although the number of sizes is not. */
START_TEST(limits)
{
    shell_enter();
    ce_comms_logger *logger =
        ce_comms_logger_new(&(ce_comms_logger_settings){ true, false, 1u << CE_BEAT_BROADCAST }, 2);
    for (uint64_t i = 0; i < 1000; i++) {
        ce_comms_logger_record(logger, CE_BEAT_BROADCAST, i, 1e-3);
        ce_comms_logger_record(logger, CE_BEAT_ALL_REDUCE, i, 1e-3);
    }
    char *table = table_of(logger);
    ck_assert_int_eq(lines_count(table, "^all_reduce$"), 0);
    ck_assert_int_eq(lines_count(table, "^broadcast$"), 2); /* the second line is in the table of stragglers */
    ck_assert_int_eq(lines_count(table, "^744 more calls, of sizes beyond the first 256$"), 1);
    free(table);
    ce_comms_logger_free(logger);
    shell_leave();
}
END_TEST

/* A tiny GPT-2 with five units on two ranks: one reduce-scatter for each unit in a step. Parameters are gathered,
 * because over TCP the ranks share no memory. */
START_TEST(a_training)
{
    static const char *const head =
        "^Comm. Op            Message Size        Count               Total Latency\\(ms\\)   "
        "Avg Latency\\(ms\\)     tput_avg \\(Gbps\\)     busbw_avg \\(Gbps\\)";
    run_spec spec = { .world = 2,
                      .stage = 3,
                      .steps = 4,
                      .precision = "fp32",
                      .more = "\"comms_logger\": {},",
                      .set = { "cspeed.comm=\"tcp\"" } };
    shell_enter();
    char *lines = lines_of(&spec);
    ck_assert_int_eq(lines_count(lines, head), 1);
    ck_assert_int_eq(lines_count(lines, "^Breakdown with straggler effect$"), 1);
    ck_assert_int_eq(lines_count(lines, "^reduce_scatter_tensor$"), 2);
    ck_assert_int_eq(lines_count(lines, "^all_gather_into_tensor$"), 2);
    free(lines);
    spec.set[0] = "comms_logger={\"enabled\": true, \"verbose\": true, \"prof_all\": false, \"prof_ops\": "
                  "[\"reduce_scatter_tensor\"]}";
    lines = lines_of(&spec);
    ck_assert_int_eq(lines_count(lines,
                                 "comm op: reduce_scatter_tensor \\| time \\(ms\\): [0-9.]+ \\| msg size: [0-9.]+ "
                                 "K?B \\| algbw \\(Gbps\\): [0-9.]+ \\| busbw \\(Gbps\\): [0-9.]+ $"),
                     4 * 5);
    ck_assert_int_eq(lines_count(lines, "all_gather|all_reduce"), 0);
    free(lines);
    spec.set[0] = "comms_logger.enabled=false";
    lines = lines_of(&spec);
    ck_assert_str_eq(lines, "");
    free(lines);
    shell_leave();
}
END_TEST

/* The collectives of each group of the mesh have tables of their own. */
START_TEST(groups_of_the_mesh)
{
    run_spec spec = { .world = 8,
                      .stage = 2,
                      .steps = 2,
                      .precision = "fp32",
                      .more = "\"comms_logger\": {},",
                      .set = { "cspeed.mesh={\"tp\": 2, \"dp_shard\": 2}" } };
    shell_enter();
    char *lines = lines_of(&spec);
    ck_assert_int_eq(lines_count(lines, "^Comm. Op .*Total Latency"), 4);
    const char *inside = strstr(lines, "\ninside the group of rank 0 (dp_shard):\n");
    const char *between = strstr(lines, "\nbetween the groups (dp_replicate):\n");
    const char *tp = strstr(lines, "\ninside the tensor-parallel group of rank 0 (tp):\n");
    ck_assert_msg(inside && between > inside && tp > between, "%s", lines);
    ck_assert_msg(strstr(tp, "\nall_reduce\n") != NULL, "%s", lines);
    free(lines);
    spec.world = 2;
    spec.set[0] = "cspeed.mesh.tp=2";
    lines = lines_of(&spec);
    ck_assert_int_eq(lines_count(lines, "^Comm. Op .*Total Latency"), 2);
    ck_assert_int_eq(lines_count(lines, "^inside the tensor-parallel group of rank 0 \\(tp\\):$"), 1);
    free(lines);
    shell_leave();
}
END_TEST

SUITE_MAIN("comms_logger", names, arithmetic, limits, a_training, groups_of_the_mesh)
