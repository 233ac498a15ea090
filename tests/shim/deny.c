/* deny.c - a library for LD_PRELOAD that refuses calls on some files, as a file server that restarts or a file system
 * without a feature does.
 *
 * CSPEED_DENY is "CALL PART ERRNO COUNT ...": the first COUNT calls of this name on a path that contains PART fail with
 * this error number; error 0 lets them pass, for the rules behind it. CALL is open (for reading), lstat, pread, cached (pread,
 * until posix_fadvise has been called for such a file), fopen, fflush, write, short (a write of half of the bytes), stale
 * (a write, after which all writes to this descriptor fail), fsync, exchange (renameat2 with flags), move (rename of a
 * directory) or pause (nanosleep, whose path is "pause": every pause ends at once). The rule raise refuses nothing: an
 * open, also one for writing, sends this process the signal ERRNO. Several rules may follow each other. */
#include "wrap.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RULES = 8, MAX_FILES = 1024 };

/* Returns true and sets errno if a rule applies to this call. */
static bool is_ruled(const char *call, const char *path)
{
    static int used[MAX_RULES];
    const char *rules = getenv("CSPEED_DENY");
    char name[16], part[128];
    int number, count, length;
    for (int i = 0;
         rules && i < MAX_RULES && sscanf(rules, "%15s %127s %d %d%n", name, part, &number, &count, &length) == 4;
         i++, rules += length) {
        if (strcmp(name, call) != 0 || !strstr(path, part) ||
            __atomic_fetch_add(&used[i], 1, __ATOMIC_RELAXED) >= count)
            continue;
        errno = number;
        return true;
    }
    return false;
}

static bool denied(const char *call, const char *path)
{
    return is_ruled(call, path) && errno != 0;
}

static bool denied_at(const char *call, int file)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return false;
    path[length] = 0;
    return denied(call, path);
}

static bool denied_to_open(const char *path, int flags)
{
    if (is_ruled("raise", path))
        kill(getpid(), errno);
    return !(flags & O_CREAT) && denied("open", path);
}

WRAP_OPEN(open, denied_to_open)
WRAP_OPEN(open64, denied_to_open)

EXPORT int lstat(const char *path, struct stat *facts)
{
    return denied("lstat", path) ? -1 : NEXT(lstat)(path, facts);
}

EXPORT int lstat64(const char *path, struct stat64 *facts)
{
    return denied("lstat", path) ? -1 : NEXT(lstat64)(path, facts);
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
    return denied("fopen", path) ? NULL : NEXT(fopen)(path, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
    return denied("fopen", path) ? NULL : NEXT(fopen64)(path, mode);
}

EXPORT int fflush(FILE *file)
{
    return file && denied_at("fflush", fileno(file)) ? EOF : NEXT(fflush)(file);
}

static bool forgotten; /* the system has dropped its copy of a file whose rule is "cached" */

static bool denied_to_read(int file)
{
    return denied_at("pread", file) || (!forgotten && denied_at("cached", file));
}

EXPORT int posix_fadvise(int file, off_t from, off_t bytes, int advice)
{
    forgotten |= denied_at("cached", file);
    return NEXT(posix_fadvise)(file, from, bytes, advice);
}

EXPORT ssize_t pread(int file, void *bytes, size_t count, off_t offset)
{
    return denied_to_read(file) ? -1 : NEXT(pread)(file, bytes, count, offset);
}

EXPORT ssize_t pread64(int file, void *bytes, size_t count, off64_t offset)
{
    return denied_to_read(file) ? -1 : NEXT(pread64)(file, bytes, count, offset);
}

static int stale[MAX_FILES]; /* for each descriptor the error of its writes, or 0 */

EXPORT ssize_t write(int file, const void *bytes, size_t count)
{
    bool numbered = file >= 0 && file < MAX_FILES;
    if (numbered && denied_at("stale", file))
        stale[file] = errno;
    if (numbered && stale[file]) {
        errno = stale[file];
        return -1;
    }
    if (denied_at("short", file))
        return NEXT(write)(file, bytes, count / 2);
    return denied_at("write", file) ? -1 : NEXT(write)(file, bytes, count);
}

EXPORT int close(int file)
{
    if (file >= 0 && file < MAX_FILES)
        stale[file] = 0;
    return NEXT(close)(file);
}

EXPORT int nanosleep(const struct timespec *duration, struct timespec *left)
{
    return is_ruled("pause", "pause") ? 0 : NEXT(nanosleep)(duration, left);
}

EXPORT int fsync(int file)
{
    return denied_at("fsync", file) ? -1 : NEXT(fsync)(file);
}

EXPORT int rename(const char *from, const char *to)
{
    struct stat about;
    bool folder = stat(from, &about) == 0 && S_ISDIR(about.st_mode);
    return folder && denied("move", from) ? -1 : NEXT(rename)(from, to);
}

EXPORT int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    return flags && denied("exchange", to) ? -1 : NEXT(renameat2)(from_dir, from, to_dir, to, flags);
}
