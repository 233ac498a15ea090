/* wrap.h - text in lines that fit the terminal. */
#ifndef CL_WRAP_H
#define CL_WRAP_H

#include <stdio.h>

/* Prints text whose lines are at most `columns` characters wide: the lines of a paragraph are joined and divided anew
 * between words. Empty lines and lines that begin with a space stay as they are. */
void cl_wrap_print(FILE *file, const char *text, int columns);

#endif
