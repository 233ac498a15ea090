/* deny.c - a library for LD_PRELOAD that refuses calls on some files, as a file server that restarts or a file system
 * without a feature does.
 *
 * CSPEED_DENY is "CALL PART ERRNO COUNT ...": the first COUNT calls of this name on a path that contains PART fail with
 * this error number. CALL is open (for reading), pread, write, fsync, short (a write of half of the bytes), exchange (renameat2 with flags) or move (rename of a
 * directory). Several rules may follow each other. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&name))(intptr_t)dlsym(RTLD_NEXT, #name))

enum { MAX_RULES = 8 };

/* Returns true and sets errno if this call must fail. */
static bool denied(const char *call, const char *path)
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

static int open_as(int (*next)(const char *, int, ...), const char *path, int flags, mode_t mode)
{
    return !(flags & O_CREAT) && denied("open", path) ? -1 : next(path, flags, mode);
}

static mode_t mode_of(int flags, va_list list)
{
    return flags & O_CREAT ? va_arg(list, mode_t) : 0;
}

EXPORT int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_as(NEXT(open), path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_as(NEXT(open64), path, flags, mode);
}

EXPORT ssize_t pread(int file, void *bytes, size_t count, off_t offset)
{
    return denied_at("pread", file) ? -1 : NEXT(pread)(file, bytes, count, offset);
}

EXPORT ssize_t pread64(int file, void *bytes, size_t count, off64_t offset)
{
    return denied_at("pread", file) ? -1 : NEXT(pread64)(file, bytes, count, offset);
}

EXPORT ssize_t write(int file, const void *bytes, size_t count)
{
    if (denied_at("short", file))
        return NEXT(write)(file, bytes, count / 2);
    return denied_at("write", file) ? -1 : NEXT(write)(file, bytes, count);
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
