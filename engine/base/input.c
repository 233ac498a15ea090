/* input.c - opens files that a user named, or that lie in a folder that a user named. */
#include "base/input.h"
#include "base/must.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_device(const char *path)
{
    return strncmp(path, "/dev/", strlen("/dev/")) == 0;
}

int ce_input_open(const char *path)
{
    int descriptor;
    do
        descriptor = open(path, O_RDONLY | O_CLOEXEC | (is_device(path) ? 0 : O_NONBLOCK));
    while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

static bool is_pointer(int descriptor, const struct stat *about)
{
    static const char first[] = "version https://git-lfs.github.com/spec/";
    char start[sizeof first - 1];
    return about->st_size < 1024 && pread(descriptor, start, sizeof start, 0) == (ssize_t)sizeof start &&
           memcmp(start, first, sizeof start) == 0;
}

cs_status ce_input_check(int *descriptor, const char *path)
{
    struct stat about;
    cs_status status = CS_OK;
    if (fstat(*descriptor, &about) != 0)
        status = ce_fail_errno(CS_IO_ERROR, errno, "%s", path);
    else if (!S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode) && !is_device(path))
        status = ce_fail(CS_BAD_FILE, "%s: not a regular file", path);
    else if (S_ISREG(about.st_mode) && is_pointer(*descriptor, &about))
        status = ce_fail(CS_BAD_FILE,
                         "%s: a pointer file of Git LFS, not the data; fetch the data: git lfs pull --include '%s'",
                         path, path);
    if (status != CS_OK) {
        close(*descriptor);
        *descriptor = -1;
    }
    return status;
}

cs_status ce_input_stream(FILE **file, const char *path)
{
    int descriptor = ce_input_open(path);
    *file = NULL;
    if (descriptor < 0)
        return CS_OK;
    CE_TRY(ce_input_check(&descriptor, path));
    *file = fdopen(descriptor, "r");
    if (!*file)
        close(descriptor);
    return CS_OK;
}

char *ce_input_all(FILE *file, size_t limit, size_t *length)
{
    enum { PART_BYTES = 64 << 10 };
    char *text = NULL;
    size_t capacity = 0, used = 0, part = 1;
    while (part && used <= limit) {
        CE_MUST_HOLD(text, capacity, used + PART_BYTES + 1);
        used += part = fread(text + used, 1, PART_BYTES, file);
    }
    if (ferror(file) || used > limit) {
        int reason = ferror(file) ? errno : EFBIG;
        free(text);
        errno = reason;
        return NULL;
    }
    text[used] = '\0';
    *length = used;
    return text;
}
