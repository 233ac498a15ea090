/* slurp.c - reads a whole text file. */
#include "plan/slurp.h"

#include "base/must.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_BYTES = 64 << 10, MAX_BYTES = 64 << 20 };

static char *read_all(FILE *file, size_t *length)
{
    char *text = NULL;
    size_t capacity = 0, used = 0, part = 1;
    while (part && used <= MAX_BYTES) {
        CE_MUST_HOLD(text, capacity, used + PART_BYTES + 1);
        used += part = fread(text + used, 1, PART_BYTES, file);
    }
    if (part || ferror(file)) { /* the file is too long, or the path names a folder */
        errno = part ? EFBIG : errno;
        free(text);
        return NULL;
    }
    text[used] = '\0';
    *length = used;
    return text;
}

char *cl_slurp(const char *path, size_t *length)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    char *text = file ? read_all(file, length) : NULL;
    int reason = errno;
    if (file && !standard)
        fclose(file);
    errno = reason;
    return text;
}
