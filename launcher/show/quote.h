/* quote.h - any bytes as a JSON string that every parser accepts. */
#ifndef CL_QUOTE_H
#define CL_QUOTE_H

#include <stddef.h>
#include <stdio.h>

/* Writes the string with its quotes. Bytes that are no UTF-8 appear as the four characters \xNN. */
void cl_quote_bytes(FILE *out, const char *bytes, size_t count);
void cl_quote(FILE *out, const char *text);

#endif
