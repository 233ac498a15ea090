/* form.h - compares what a command printed with what a page of the documents shows.
 *
 * What differs between machines and runs is compared by its form: floating-point numbers, numbers with a unit of time,
 * memory, rate or percent, dates, process ids, ids of jobs, and absolute paths up to their last component. All other
 * text, integers included, must be equal; the number of spaces between words is free. In a page "…" stands for any
 * text, and a line that is only "…" for any number of lines, none included. */
#ifndef CS_TESTS_FORM_H
#define CS_TESTS_FORM_H

#include <stdbool.h>

/* Returns true if `got` matches `expected`. If it does not match and `line` is not NULL, *line receives the number,
 * counted from 0, of the first line of `expected` that could not be matched. If all lines of `expected` could be
 * matched and `got` has lines after them, *line receives the number of lines of `expected`. Empty lines at the ends of
 * the two texts do not count. */
bool form_matches(const char *expected, const char *got, int *line);

/* Returns a line in which everything that is compared by form is replaced by the name of its form; malloc'ed. */
char *form_of(const char *line);

#endif
