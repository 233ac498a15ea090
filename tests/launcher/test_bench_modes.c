/* test_bench_modes.c - cspeed bench modes: its table, with a row for each mode and model; its sentence, which names the
 * faster mode and the number of samples from which it is faster; and its diagram. */
#include "command/bench_modes.h"
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads two columns from the row of a model and a mode: the time to start, in seconds, and the samples per second. */
static void read_row(const char *out, const char *model, const char *mode, double *start, double *rate)
{
    char row[64];
    snprintf(row, sizeof row, "\n%-8s  %-9s  ", model, mode);
    const char *found = strstr(out, row);
    ck_assert_ptr_nonnull(found);
    ck_assert_int_eq(sscanf(found + strlen(row), "%*d %lf %lf", start, rate), 2);
}

/* Every case of the comparison. The number in the sentence is the first number of samples for which the named mode
 * takes less time. */
START_TEST(the_sentence_is_true_in_every_case)
{
    static const struct {
        cl_bench_mode dp, ddp;
        const char *says;
    } cases[] = {
        { { 1.0, 100 }, { 1.5, 200 }, "faster with ddp than with dp from 101 samples on" },
        { { 1.5, 200 }, { 1.0, 100 }, "faster with dp than with ddp from 101 samples on" },
        { { 1.0, 100 }, { 1.001, 200 }, "faster with ddp than with dp from 1 sample on" },
        { { 1.0, 100 }, { 1.0, 200 }, "faster with ddp than with dp for any number of samples" },
        { { 1.0, 100 }, { 0.5, 200 }, "faster with ddp than with dp for any number of samples" },
        { { 0.5, 200 }, { 1.0, 100 }, "faster with dp than with ddp for any number of samples" },
        { { 1.0, 100 }, { 1.5, 100 }, "faster with dp than with ddp for any number of samples" },
        { { 1.5, 100 }, { 1.0, 100 }, "faster with ddp than with dp for any number of samples" },
        { { 1.0, 100 }, { 1.0, 100 }, "takes as long with dp as with ddp" },
    };
    char text[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cl_bench_modes_compare(text, sizeof text, cases[i].dp, cases[i].ddp);
        ck_assert_msg(strncmp(text, "one pass is ", 12) == 0 ? strcmp(text + 12, cases[i].says) == 0
                                                             : strcmp(text + 9, cases[i].says) == 0,
                      "case %zu: %s", i, text);
    }
}
END_TEST

static void must_say(int code, const char *words, const char *says)
{
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed bench modes %s 2>&1", words), code);
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(out, says) != NULL, "\"%s\" is not in\n%s", says, out);
    free(out);
}

START_TEST(its_options_are_told)
{
    shell_enter();
    must_say(0, "--help", "usage: cspeed bench modes");
    must_say(0, "--steps 6 -h", "--steps");
    must_say(0, "--help", "at least 6");
    must_say(64, "--steps 5", "--steps takes a whole number from 6 to");
    must_say(64, "--nothing", "see cspeed bench modes --help");
    must_say(64, "--plot m.png", "--plot m.png, because only SVG is written");
    must_say(64, "--plot svg", "--plot svg, because only SVG is written");
    must_say(64, "words", "words");
    shell_leave();
}
END_TEST

/* The sentence names the mode with the higher rate, and a number of samples if that mode takes longer to start. */
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
    /* the numbers of the table are rounded, so a small difference does not show */
    if (rate[0] == rate[1] || (later > -0.011 && later < 0.011))
        return;
    if (later < 0)
        form = winner ? "ddp than with dp for any number of samples" : "dp than with ddp for any number of samples";
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
    shell_leave();
}
END_TEST

SUITE_MAIN("bench_modes", the_sentence_is_true_in_every_case, its_options_are_told, every_mode_is_measured)
