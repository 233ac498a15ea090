/* slurp.h - reads a whole text file. */
#ifndef CL_SLURP_H
#define CL_SLURP_H

#include <stddef.h>

/* Reads a file of at most 64 MiB; the name "-" means standard input. Returns malloc'ed bytes, terminated by a zero
 * byte. Returns NULL with errno set if the file cannot be read. */
char *cl_slurp(const char *path, size_t *length);

#endif
