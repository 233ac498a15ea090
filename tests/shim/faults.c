/* faults.c - a library to preload: at one of the calls that change a file system it fails, does half, or kills.
 *
 * A call that fails does nothing. One that is killed dies before it does anything, or, a write, after half of it. */
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static atomic_bool armed;
static atomic_int  calls;
static int         fail_at;
static shim_how    fail_how;

EXPORT void shim_arm(int at, shim_how how);
EXPORT int  shim_calls(void);

void shim_arm(int at, shim_how how)
{
    fail_at  = at;
    fail_how = how;
    atomic_store(&calls, 0);
    atomic_store(&armed, true);
}

int shim_calls(void)
{
    return atomic_load(&calls);
}

/* Whether this call is the one. */
static bool is_due(void)
{
    return atomic_load(&armed) && atomic_fetch_add(&calls, 1) == fail_at && fail_how != SHIM_COUNT;
}

/* -1 with errno when the call that is due fails; 0 when it goes on. */
static int fail(void)
{
    if (!is_due() || fail_how == SHIM_SHORT)
        return 0;
    if (fail_how == SHIM_KILL)
        kill(getpid(), SIGKILL);
    errno = fail_how == SHIM_EIO ? EIO : ENOSPC;
    return -1;
}

static intptr_t next(const char *name)
{
    return (intptr_t)dlsym(RTLD_NEXT, name);
}

#define NEXT(name) ((__typeof__(&name))next(#name))

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
    return (flags & O_CREAT) && fail() ? -1 : NEXT(open)(path, flags, mode);
}

static ssize_t put(int file, const void *bytes, size_t count, off_t offset)
{
    ssize_t (*write_at)(int, const void *, size_t, off_t) = NEXT(pwrite);
    if (!is_due())
        return write_at(file, bytes, count, offset);
    if (fail_how == SHIM_EIO || fail_how == SHIM_ENOSPC) {
        errno = fail_how == SHIM_EIO ? EIO : ENOSPC;
        return -1;
    }
    size_t half = count / 2;
    if (half >= 512) /* what a direct write may have done */
        half -= half % 512;
    ssize_t done = write_at(file, bytes, half, offset);
    if (fail_how == SHIM_KILL)
        kill(getpid(), SIGKILL);
    return done;
}

EXPORT ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset)
{
    return put(file, bytes, count, offset);
}

EXPORT ssize_t pwrite64(int file, const void *bytes, size_t count, off_t offset)
{
    return put(file, bytes, count, offset);
}

/* A killed process loses nothing that the kernel has, so nothing waits for the disk here. */
EXPORT int fsync(int file)
{
    (void)file;
    return fail();
}

EXPORT int fdatasync(int file)
{
    (void)file;
    return fail();
}

EXPORT int ftruncate(int file, off_t length)
{
    return fail() ? -1 : NEXT(ftruncate)(file, length);
}

EXPORT int fallocate(int file, int mode, off_t offset, off_t length)
{
    return fail() ? -1 : NEXT(fallocate)(file, mode, offset, length);
}

EXPORT int rename(const char *from, const char *to)
{
    return fail() ? -1 : NEXT(rename)(from, to);
}

EXPORT int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    return fail() ? -1 : NEXT(renameat2)(from_dir, from, to_dir, to, flags);
}

EXPORT int mkdir(const char *path, mode_t mode)
{
    return fail() ? -1 : NEXT(mkdir)(path, mode);
}

EXPORT int unlink(const char *path)
{
    return fail() ? -1 : NEXT(unlink)(path);
}

EXPORT int rmdir(const char *path)
{
    return fail() ? -1 : NEXT(rmdir)(path);
}

EXPORT int remove(const char *path)
{
    return fail() ? -1 : NEXT(remove)(path);
}
