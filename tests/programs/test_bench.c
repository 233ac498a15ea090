/* test_bench.c - `cspeed bench comm`: its table, and what it refuses. */
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *said(int code, const char *arguments)
{
    int got = shell_run(CS_BIN "/cspeed --num_gpus 2 --oversubscribe --quiet --no_prefix --console first bench %s 2>&1",
                        arguments);
    char *text = shell_read("out.txt", NULL);
    ck_assert_msg(got == code, "bench %s: exit code %d: %.1500s", arguments, got, text);
    return text;
}

static void must_have(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in:\n%.1500s", part, text);
}

/* Checks every column of a line, and that the columns agree with each other. */
START_TEST(a_line_has_size_time_and_bandwidths)
{
    size_t size;
    double us, algbw, busbw, of_copy;
    char algorithm[32];
    shell_enter();
    char *text = said(0, "comm --collectives all_gather,all_reduce --min_bytes 65536 --max_bytes 131072");
    const char *line = strstr(text, "\nall_reduce            131072 ");
    must_have(text, "2 ranks over shm, shared memory");
    must_have(text, "\nall_gather             65536 in_place ");
    ck_assert_ptr_nonnull(line);
    int fields =
        sscanf(line, " all_reduce %zu %31s %lf %lf %lf %lf%%", &size, algorithm, &us, &algbw, &busbw, &of_copy);
    ck_assert_int_eq(fields, 6);
    ck_assert_str_eq(algorithm, "in_place");
    ck_assert(us > 0 && of_copy > 0);
    ck_assert_double_eq_tol(algbw, 131072 / us * 1e-3, 0.02 + 0.1 * algbw); /* the printed time is rounded to 0.1 us */
    /* the factor 2 (n - 1) / n is 1 for 2 ranks */
    ck_assert_double_eq_tol(busbw, algbw, 0.02);
    free(text);
    text = said(0, "comm --comm tcp --max_bytes 1024 --collectives all_reduce");
    must_have(text, "2 ranks over tcp");
    must_have(text, "1024 whole ");
    free(text);
    text = said(0, "comm --ordinary --collectives broadcast,reduce,scatter,gather,all_to_all --max_bytes 2048");
    must_have(text, "ordinary memory");
    must_have(text, "\nall_to_all              2048 direct ");
    free(text);
    shell_leave();
}
END_TEST

/* With one rank there is nothing to measure, and the message says how to start two. The help lists every transport. */
START_TEST(one_rank_is_told_to_start_two)
{
    static const char *const forms[] = { "comm", "comm --comm shm" };
    shell_enter();
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        ck_assert_int_eq(shell_run("'" CS_BIN "/bench' %s 2>&1", forms[i]), 64);
        char *text = shell_read("out.txt", NULL);
        must_have(text, "at least two ranks are needed to measure communication: cspeed --num_gpus 2 bench comm");
        free(text);
    }
    char *text = said(0, "--help");
    must_have(text, "auto|shm|tcp|mpi");
    free(text);
    shell_leave();
}
END_TEST

START_TEST(mistakes_are_named)
{
    static const struct {
        const char *words, *says;
        int code;
    } wrong[] = {
        { "", "name what to measure:", 64 },
        { "modem", "name what to measure: comm, not modem", 64 },
        { "comm --collectives all_reduce,ring", "no collective \"ring\"", 64 },
        { "comm --plot a.svg", "--plot", 64 },
        { "comm --max_bytes 512", "--max_bytes must be at least", 64 },
        { "comm --comm pigeon", "\"pigeon\" is unknown", 78 },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *text = said(wrong[i].code, wrong[i].words);
        must_have(text, wrong[i].says);
        free(text);
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("bench", a_line_has_size_time_and_bandwidths, one_rank_is_told_to_start_two, mistakes_are_named)
