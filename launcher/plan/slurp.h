/* slurp.h - Reads a whole text file. */
#ifndef CL_SLURP_H
#define CL_SLURP_H

#include <stddef.h>

/* Reads a file of at most 64 MiB ("-" is standard input). Returns malloc'ed bytes, terminated by a zero byte, or NULL
 * with errno set. */
char *cl_slurp(const char *path, size_t *length);

#endif
