/* wrap.h - divides text into lines that fit the terminal. */
#ifndef CL_WRAP_H
#define CL_WRAP_H

#include <stdio.h>

/* Prints text in lines of at most `columns` characters. The lines of a paragraph are joined and divided anew between
 * words. Empty lines and lines that begin with a space are printed unchanged. */
void cl_wrap_print(FILE *file, const char *text, int columns);

#endif
