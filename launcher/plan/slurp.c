/* slurp.c - reads a whole text file. */
#include "plan/slurp.h"

#include "base/input.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 64 << 20 };

char *cl_slurp(const char *path, size_t *length)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    char *text = file ? ce_input_all(file, MAX_BYTES, length) : NULL;
    int reason = errno;
    if (file && !standard)
        fclose(file);
    errno = reason;
    return text;
}
