/* mark_point.c - what each assertion calls if its condition is true.
 *
 * Check's function _mark_point writes the assertion's place to a file, so that Check can name the last assertion before
 * a test that it has forked crashes. suite.h forks only tests that open a CUDA device. The other tests do without the
 * writes: test_ops, which has ten million assertions, needs 5 seconds of CPU time instead of 17. */
#include "suite.h"

bool suite_forks;

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

void __wrap__mark_point(const char *file, int line)
{
    if (suite_forks)
        __real__mark_point(file, line);
}
