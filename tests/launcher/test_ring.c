/* test_ring.c - `cspeed comm`: the tables of the ring all-reduce, and its cost compared with gathering on one rank. */
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *said(int code, const char *arguments)
{
    int got = shell_run(CS_BIN "/cspeed comm %s 2>&1", arguments);
    char *text = shell_read("out.txt", NULL);
    ck_assert_msg(got == code, "comm %s: exit code %d: %.1500s", arguments, got, text);
    return text;
}

static void must_have(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in:\n%.1500s", part, text);
}

/* The ring all-reduce has two halves, scatter-reduce and all-gather. Checks the chunk that each of 5 ranks sends and
 * the chunk that it receives in the first step of each half. */
START_TEST(five_ranks_send_what_the_notes_say)
{
    char row[128];
    shell_enter();
    char *text = said(0, "trace ring --ranks 5");
    const char *reduce = strstr(text, "\nscatter-reduce, step 1 of 4\n");
    const char *gather = strstr(text, "\nall-gather, step 1 of 4\n");
    ck_assert(reduce && gather && reduce < gather);
    must_have(text, "4 steps of scatter-reduce and 4 of all-gather make 8");
    for (int rank = 0; rank < 5; rank++) {
        snprintf(row, sizeof row, "\n  %d     chunk %d  %d        chunk %d   %d ", rank, rank, (rank + 1) % 5,
                 (rank + 4) % 5, (rank + 4) % 5);
        must_have(reduce, row);
        snprintf(row, sizeof row, "\n  %d     chunk %d  %d        chunk %d   %d ", rank, (rank + 1) % 5, (rank + 1) % 5,
                 rank, (rank + 4) % 5);
        must_have(gather, row);
    }
    must_have(reduce, "  4+0\n"); /* rank 0 has added its own chunk 4 to the one received from rank 4 */
    must_have(gather, "0+1+2+3+4");
    free(text);
    text = said(0, "trace ring --ranks 2");
    must_have(text, "\n1 step of scatter-reduce and 1 of all-gather make 2");
    free(text);
    shell_leave();
}
END_TEST

/* Checks that in the last table each chunk of every rank is a sum that contains the chunk of each rank exactly once. */
static void check_end(const char *text, int ranks)
{
    const char *line = strstr(text, "\nall-gather, step 1 of 1\n");
    for (const char *next = text; (next = strstr(next + 1, "\nall-gather, step ")); line = next)
        ;
    line = strchr(strchr(line + 1, '\n') + 1, '\n') + 1;
    for (int rank = 0; rank < ranks; rank++) {
        int sums = 0;
        for (const char *at = line; *at != '\n'; at++) {
            unsigned seen = 0;
            if (at[-1] != ' ' || strcspn(at, "+") > strcspn(at, " \n"))
                continue;
            for (char *end = (char *)(uintptr_t)at - 1; *end == '+' || end < at;)
                seen ^= 1u << strtol(end + 1, &end, 10);
            ck_assert_uint_eq(seen, (1u << ranks) - 1);
            sums++;
        }
        ck_assert_int_eq(sums, ranks);
        line = strchr(line, '\n') + 1;
    }
}

START_TEST(every_chunk_becomes_the_sum_of_all_ranks)
{
    shell_enter();
    for (int ranks = 2; ranks <= 16; ranks++) {
        char arguments[64];
        int steps = 0;
        snprintf(arguments, sizeof arguments, "trace ring --ranks %d", ranks);
        char *text = said(0, arguments);
        for (const char *at = text; (at = strstr(at, ", step ")); at++)
            steps++;
        ck_assert_int_eq(steps, 2 * (ranks - 1));
        check_end(text, ranks);
        free(text);
    }
    shell_leave();
}
END_TEST

START_TEST(costs_are_those_of_the_formulas)
{
    shell_enter();
    char *text = said(0, "cost --params 300e6 --bw 1e9 --ranks 2,10");
    must_have(text, "300000000 fp32 gradients, 1200000000 bytes, over links of 1000000000 bytes a second");
    must_have(text, "\n      2     1.2 s     1.2 s      2  1200000000\n");
    must_have(text, "\n     10    10.8 s    2.16 s     18  2160000000\n");
    must_have(text, "\n  limit   no limit     2.4 s\n");
    free(text);
    shell_leave();
}
END_TEST

START_TEST(wrong_lines_are_refused)
{
    static const struct {
        const char *line, *sentence;
    } rows[] = {
        { "", "comm: say what: trace ring, or cost" },
        { "all", "comm: trace or cost, not \"all\"" },
        { "trace tree --ranks 2", "ring is the one algorithm that is traced, not \"tree\"" },
        { "trace ring", "needs --ranks N" },
        { "trace ring --ranks 17", "--ranks takes a whole number from 2 to 16" },
        { "trace ring --ranks 2 --bw 1", "--params and --bw are for comm cost" },
        { "cost --ranks 2 --bw 1", "comm cost needs --params" },
        { "cost --ranks 2,x --bw 1 --params 1", "--ranks takes a whole number" },
        { "cost ring --ranks 2 --bw 1 --params 1", "comm cost takes no ring" },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = said(64, rows[i].line);
        must_have(text, rows[i].sentence);
        free(text);
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("ring", five_ranks_send_what_the_notes_say, every_chunk_becomes_the_sum_of_all_ranks,
           costs_are_those_of_the_formulas, wrong_lines_are_refused)
