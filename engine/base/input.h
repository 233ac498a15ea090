/* input.h - opens files that a user named, or that lie in a folder that a user named. */
#ifndef CE_BASE_INPUT_H
#define CE_BASE_INPUT_H

#include "base/status.h"

#include <stdio.h>

/* Opens a file for reading and returns its descriptor, or -1 with errno. Does not wait for the writer of a FIFO. */
int ce_input_open(const char *path);
/* Checks an open file: returns CS_BAD_FILE for a FIFO or a device, because reading it may never end, unless its path
 * begins with "/dev/"; and for a pointer of Git LFS, which stands in place of a file that was not fetched. On failure
 * the file is closed and *descriptor becomes -1. */
cs_status ce_input_check(int *descriptor, const char *path);
/* Does both. If the file cannot be opened, *file is NULL, errno is set and the result is CS_OK: the caller knows the
 * message. */
cs_status ce_input_stream(FILE **file, const char *path);
/* Reads to the end of the file and returns the text, NUL-terminated, which the caller frees. Returns NULL, with errno, if
 * the file cannot be read or, with EFBIG, if it has more than `limit` bytes. */
char *ce_input_all(FILE *file, size_t limit, size_t *length);

#endif
