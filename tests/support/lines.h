/* lines.h - the standard output of a small training, for tests of its lines. */
#ifndef CS_TESTS_LINES_H
#define CS_TESTS_LINES_H

#include "runs.h"

/* Trains as run_train does, ends with cs_log_summary, and returns what rank 0 printed, malloc'ed. Uses the file
 * "lines.txt" in the working directory. */
char *lines_of(const run_spec *spec);

/* Returns the number of lines that match the extended regular expression. */
int lines_count(const char *lines, const char *pattern);

/* Returns the number that follows the first `label`; fails the test if there is none. */
double lines_number(const char *lines, const char *label);

#endif
