/* suite.h - the main() of a test program: it runs a list of tests, and its exit code tells whether they passed.
 *
 * The tests of a program share one process. If they use a CUDA device, each test has its own process, because CUDA does
 * not survive a fork: a process that has opened a device must not fork ranks afterwards. With CSPEED_TEST_NOFORK=1 all
 * tests share one process on a CUDA device too, for tools that do not follow a fork (compute-sanitizer); tests that
 * start ranks fail then. */
#ifndef CS_TESTS_SUITE_H
#define CS_TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/isa.h"

enum {
    SUITE_SKIPPED = 77,  /* the exit code of a program that skips all its tests */
    SUITE_PATIENCE = 300 /* in seconds: the longest wait for an event; it only makes a failure of what never ends */
};

/* Returns true and prints why if CSPEED_CPU_ISA names a set of instructions that this CPU lacks. */
static inline bool suite_skips(const char *name)
{
    ce_isa isa;
    bool skips = ce_isa_choose(&isa, ce_isa_available(), getenv("CSPEED_CPU_ISA")) == CS_UNSUPPORTED;
    if (skips)
        printf("%s: skipped, %s\n", name, cs_error());
    return skips;
}

extern bool suite_forks; /* mark_point.c: Check runs each test of this program in a process of its own */

static inline int suite_run_in(bool apart, const char *name, const TTest *const *tests, int count)
{
    if (suite_skips(name))
        return SUITE_SKIPPED;
    Suite *suite = suite_create(name);
    TCase *cases = tcase_create(name);
    for (int i = 0; i < count; i++)
        tcase_add_test(cases, tests[i]);
    tcase_set_timeout(cases, 0); /* no time limit here; ctest has one */
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    apart = apart && !getenv("CSPEED_TEST_NOFORK");
    suite_forks = apart;
    srunner_set_fork_status(runner, apart ? CK_FORK : CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

static inline int suite_run(const char *name, const TTest *const *tests, int count)
{
    const char *device = getenv("CSPEED_TEST_DEVICE");
    return suite_run_in(device && strcmp(device, "cuda") == 0, name, tests, count);
}

#define SUITE_MAIN(name, ...)                                                                                          \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        const TTest *const tests[] = { __VA_ARGS__ };                                                                  \
        return suite_run(name, tests, (int)(sizeof tests / sizeof *tests));                                            \
    }

/* As SUITE_MAIN, with a process for each test, for tests that open a CUDA device themselves. */
#define SUITE_MAIN_APART(name, ...)                                                                                    \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        const TTest *const tests[] = { __VA_ARGS__ };                                                                  \
        return suite_run_in(true, name, tests, (int)(sizeof tests / sizeof *tests));                                   \
    }

#endif
