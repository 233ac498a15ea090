/* slurp.h - reads a whole text file. */
#ifndef CL_SLURP_H
#define CL_SLURP_H

#include <stddef.h>

/* Reads a file of at most 64 MiB ("-" means standard input). Returns malloc'ed bytes with a zero byte after them; NULL
 * with errno set on failure. */
char *cl_slurp(const char *path, size_t *length);

#endif
