/* logs.c - log files: one for each rank and each of its output streams, with rotation. */
#include "node/logs.h"

#include "ground/codes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT = 3, FILE_MODE = 0644, FOLDER_MODE = 0755 };

bool cl_logs_make_folders(char *path, mode_t mode)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, mode);
    }
    return mkdir(path, mode) == 0 || errno == EEXIST;
}

int cl_logs_folder(const char *path)
{
    char made[PATH_MAX];
    snprintf(made, sizeof made, "%s", path);
    if (cl_logs_make_folders(made, FOLDER_MODE))
        return 0;
    return cl_codes_fail(CL_CODE_LOG, "--log_dir: %s cannot be made: %s", path, strerror(errno));
}

/* The file is opened with O_NONBLOCK, because opening a named pipe could otherwise block. */
int cl_logs_create(const char *path, int flags)
{
    struct stat facts;
    int fd = open(path, flags | O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, FILE_MODE);
    int reason = errno;
    bool odd = fd >= 0 ? fstat(fd, &facts) < 0 || !S_ISREG(facts.st_mode) : reason == ENXIO;
    if (fd >= 0 && !odd)
        return fd;
    if (fd >= 0)
        close(fd);
    if (reason == ELOOP)
        cl_codes_fail(CL_CODE_LOG,
                      "%s is a symbolic link, and log files are not written through links: remove it, or name "
                      "another folder with --log_dir",
                      path);
    else if (odd)
        cl_codes_fail(CL_CODE_LOG, "%s is not a regular file: remove it, or name another folder with --log_dir", path);
    else
        cl_codes_fail(CL_CODE_LOG, "%s cannot be written: %s", path, strerror(reason));
    errno = odd ? EINVAL : reason;
    return -1;
}

static int open_file(cl_log_file *file)
{
    file->fd = cl_logs_create(file->path, O_APPEND);
    file->bytes = file->fd < 0 ? 0 : lseek(file->fd, 0, SEEK_END);
    return file->fd;
}

int cl_logs_open(cl_log_file *file, const cl_order *order, int local, int which)
{
    *file = (cl_log_file){ .fd = -1, .max = order->log_max };
    if (!*order->log_dir)
        return 0;
    int length = snprintf(file->path, sizeof file->path, "%s/attempt_%d/%d.%s", order->log_dir, order->attempt,
                          order->first_rank + local, which ? "err" : "out");
    if (length >= (int)sizeof file->path)
        return cl_codes_fail(CL_CODE_LOG, "--log_dir: the path %s is too long", file->path);
    return open_file(file) >= 0 ? 0 : CL_CODE_LOG;
}

void cl_logs_close(cl_log_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

/* Renames the log files and opens a new one. Returns false if this fails. */
static bool rotate(cl_log_file *file)
{
    char from[PATH_MAX + 16], to[PATH_MAX + 16];
    for (int age = KEPT - 1; age > 0; age--) {
        snprintf(to, sizeof to, "%s.%d", file->path, age);
        snprintf(from, sizeof from, age > 1 ? "%s.%d" : "%s", file->path, age - 1);
        rename(from, to);
    }
    cl_logs_close(file);
    return open_file(file) >= 0;
}

bool cl_logs_write(cl_log_file *file, const char *bytes, size_t count)
{
    bool good = !*file->path || file->fd >= 0 || open_file(file) >= 0;
    if (good && file->max && file->bytes && file->bytes + (long long)count > file->max)
        good = rotate(file);
    while (count && good && *file->path) {
        ssize_t taken = write(file->fd, bytes, count);
        good = taken >= 0 || errno == EINTR;
        if (taken < 0)
            continue;
        file->bytes += taken;
        bytes += taken;
        count -= (size_t)taken;
    }
    file->lost = good ? 0 : file->lost + (long long)count;
    if (!good) {
        int reason = errno;
        cl_logs_close(file);
        errno = reason;
    }
    return good;
}
