/* wrap.h - divides text into lines that fit the terminal. */
#ifndef CL_WRAP_H
#define CL_WRAP_H

#include <stddef.h>
#include <stdio.h>

/* Prints text in lines of at most `columns` characters. The lines of a paragraph are joined and divided anew between
 * words. Empty lines and lines that begin with a space are printed unchanged. */
void cl_wrap_print(FILE *file, const char *text, int columns);

/* Prints one paragraph. `used` columns of its first line are used already; further lines are indented by `indent`
 * columns. A line may also end at a Chinese character, which is two columns wide. */
void cl_wrap_flow(FILE *file, const char *text, size_t length, int columns, int used, int indent);

#endif
