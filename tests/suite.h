/* suite.h - the main() of a test program: a list of tests, run without forking, its failures as the exit code. */
#ifndef CS_TESTS_SUITE_H
#define CS_TESTS_SUITE_H

#include <check.h>

static inline int suite_run(const char *name, const TTest *const *tests, int count)
{
    Suite *suite = suite_create(name);
    TCase *cases = tcase_create(name);
    for (int i = 0; i < count; i++)
        tcase_add_test(cases, tests[i]);
    tcase_set_timeout(cases, 0); /* ctest watches the clock */
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#define SUITE_MAIN(name, ...)                                                                                          \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        const TTest *const tests[] = { __VA_ARGS__ };                                                                  \
        return suite_run(name, tests, (int)(sizeof tests / sizeof *tests));                                            \
    }

#endif
