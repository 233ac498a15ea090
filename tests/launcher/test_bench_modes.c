/* test_bench_modes.c - cspeed bench modes: a row for each mode and model, which one pays when, and the diagram. */
#include "shell.h"
#include "suite.h"

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
    ck_assert_ptr_nonnull(strstr(out, "small: one pass is faster with d"));
    ck_assert_ptr_nonnull(strstr(out, "larger: one pass is faster with d"));
    free(out);
    free(svg);
    ck_assert_int_eq(shell_run("ls -d cspeed-modes-*"), 2); /* the temporary folder is removed */
    shell_leave();
}
END_TEST

SUITE_MAIN("bench_modes", every_mode_is_measured)
