/* lines.h - what a small training prints on standard output, for tests of lines. */
#ifndef CS_TESTS_LINES_H
#define CS_TESTS_LINES_H

#include "runs.h"

/* Trains as run_train does, ends with cs_log_summary, and returns what rank 0 wrote, malloc'ed. Uses "lines.txt" of the
 * working directory. */
char *lines_of(const run_spec *spec);

/* How many lines match the extended regular expression. */
int lines_count(const char *lines, const char *pattern);

/* The number behind the first `label`; fails the test when there is none. */
double lines_number(const char *lines, const char *label);

#endif
