/* test_bench_modes.c - cspeed bench modes: a row for each mode and model, which one pays when, and the diagram. */
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the seconds of the start and the samples per second from the row of a mode. */
static void read_row(const char *out, const char *model, const char *mode, double *start, double *rate)
{
    char row[64];
    snprintf(row, sizeof row, "\n%-8s  %-9s  ", model, mode);
    const char *found = strstr(out, row);
    ck_assert_ptr_nonnull(found);
    ck_assert_int_eq(sscanf(found + strlen(row), "%*d %lf %lf", start, rate), 2);
}

/* The sentence names the mode with the higher rate, and a number of samples if that mode starts later. */
static void check_sentence(const char *out, const char *model)
{
    char begin[64], sentence[160] = "";
    double start[2], rate[2];
    read_row(out, model, "dp", &start[0], &rate[0]);
    read_row(out, model, "ddp", &start[1], &rate[1]);
    snprintf(begin, sizeof begin, "\n%s: one pass is faster with ", model);
    const char *found = strstr(out, begin);
    ck_assert_msg(found && sscanf(found + strlen(begin), "%159[^\n]", sentence) == 1, "no sentence in\n%s", out);
    int winner = rate[1] > rate[0];
    double later = start[winner] - start[!winner];
    const char *form = winner ? "ddp than with dp from" : "dp than with ddp from";
    if (rate[0] == rate[1] || (later > -0.011 && later < 0.011)) /* the table is rounded */
        return;
    if (later < 0)
        form = winner ? "ddp for any number of samples" : "dp for any number of samples";
    ck_assert_msg(strncmp(sentence, form, strlen(form)) == 0, "\"%s\" in\n%s", sentence, out);
}

START_TEST(every_mode_is_measured)
{
    static const char *const modes[] = { "dp", "ddp", "zero 1", "zero 2", "zero 3", "ps", "ps async" };
    char row[64];
    shell_enter();
    ck_assert_int_eq(shell_run("TMPDIR=. %s/cspeed bench modes --steps 6 --plot modes.svg", CS_BIN), 0);
    char *out = shell_read("out.txt", NULL), *svg = shell_read("modes.svg", NULL);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        snprintf(row, sizeof row, "small     %-9s ", modes[i]);
        ck_assert_msg(strstr(out, row) != NULL, "no row \"%s\" in\n%s", row, out);
        snprintf(row, sizeof row, "larger    %-9s ", modes[i]);
        ck_assert_msg(strstr(out, row) != NULL, "no row \"%s\" in\n%s", row, out);
        ck_assert_ptr_nonnull(strstr(svg, modes[i]));
    }
    check_sentence(out, "small");
    check_sentence(out, "larger");
    free(out);
    free(svg);
    ck_assert_int_eq(shell_run("ls -d cspeed-modes-*"), 2); /* the temporary folder is removed */
    ck_assert_int_eq(shell_run("%s/cspeed bench modes --plot modes.html", CS_BIN), 64);
    shell_leave();
}
END_TEST

SUITE_MAIN("bench_modes", every_mode_is_measured)
