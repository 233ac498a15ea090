/* quote.h - writes JSON strings from arbitrary bytes. */
#ifndef CL_QUOTE_H
#define CL_QUOTE_H

#include <stddef.h>
#include <stdio.h>

/* Writes the string with its quotes. A byte that is not part of valid UTF-8 is written as the four characters \xNN, so
 * every JSON parser accepts the result. */
void cl_quote_bytes(FILE *out, const char *bytes, size_t count);
void cl_quote(FILE *out, const char *text);

#endif
