/* faults.c - a library for LD_PRELOAD that lets one call fail. The call is one of those that change a file system.
 *
 * The kind of fault (faults.h) decides what happens: the call has no effect and returns an error; or a write writes
 * only half of its bytes; or the process is killed, or the power fails, before the call has an effect. In a write, the
 * kill or the power failure comes after half of the bytes. */
#include "faults.h"
#include "wrap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_bool armed;
static atomic_int calls;
static int fail_at;
static shim_how fail_how;
static shim_lack lack;

/* Files that were written and not flushed since, found by device and inode number. */
static pthread_mutex_t access_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int file; /* our own descriptor of the file; 0: this place is free */
    dev_t device;
    ino_t number;
} unflushed[256];
enum { UNFLUSHED = sizeof unflushed / sizeof *unflushed };

/* Names that were changed, in folders that were not flushed since. */
static struct {
    char from[512], to[512], folder[512]; /* folder: the folder of `to`, or "" after this folder was flushed */
    unsigned flags;
} renamed[64];
static int rename_count;
enum { RENAMED = sizeof renamed / sizeof *renamed };

EXPORT void shim_arm(int at, shim_how how);
EXPORT void shim_set_lack(shim_lack what);
EXPORT int shim_calls(void);
EXPORT void shim_lose(void);

void shim_arm(int at, shim_how how)
{
    fail_at = at;
    fail_how = how;
    atomic_store(&calls, 0);
    atomic_store(&armed, true);
}

void shim_set_lack(shim_lack what)
{
    lack = what;
}

int shim_calls(void)
{
    return atomic_load(&calls);
}

/* Counts the call, and returns true if the fault must happen in it. */
static bool is_due(void)
{
    return atomic_load(&armed) && atomic_fetch_add(&calls, 1) == fail_at && fail_how != SHIM_COUNT;
}

/* Returns the index of the file in `unflushed`, or of a free place if the file is not there. */
static int place_of(const struct stat *about)
{
    int free_place = 0;
    for (int i = UNFLUSHED - 1; i >= 0; i--) {
        if (unflushed[i].file && unflushed[i].number == about->st_ino && unflushed[i].device == about->st_dev)
            return i;
        free_place = unflushed[i].file ? free_place : i;
    }
    return free_place;
}

static void note(int file, bool flushed)
{
    struct stat about;
    if (!atomic_load(&armed) || fail_how != SHIM_LOSE || fstat(file, &about) != 0)
        return;
    pthread_mutex_lock(&access_lock);
    int place = place_of(&about);
    if (flushed && unflushed[place].file) {
        close(unflushed[place].file);
        unflushed[place].file = 0;
    } else if (!flushed && !unflushed[place].file) {
        unflushed[place].file = dup(file);
        unflushed[place].device = about.st_dev;
        unflushed[place].number = about.st_ino;
    }
    pthread_mutex_unlock(&access_lock);
}

static void note_names(const char *from, const char *to, unsigned flags)
{
    if (!atomic_load(&armed) || fail_how != SHIM_LOSE || rename_count == RENAMED)
        return;
    pthread_mutex_lock(&access_lock);
    int at = rename_count++;
    renamed[at].flags = flags;
    snprintf(renamed[at].from, sizeof renamed[at].from, "%s", from);
    snprintf(renamed[at].to, sizeof renamed[at].to, "%s", to);
    snprintf(renamed[at].folder, sizeof renamed[at].folder, "%s/..", to);
    char *slash = strrchr(to, '/') ? renamed[at].folder + (strrchr(to, '/') - to) : NULL;
    if (slash)
        *slash = 0;
    pthread_mutex_unlock(&access_lock);
}

static void note_folder(int file)
{
    struct stat about, folder;
    pthread_mutex_lock(&access_lock);
    for (int i = 0; i < rename_count; i++)
        if (fstat(file, &about) == 0 && stat(renamed[i].folder, &folder) == 0 && about.st_ino == folder.st_ino)
            renamed[i].folder[0] = 0;
    pthread_mutex_unlock(&access_lock);
}

static int (*cut(void))(int, off_t);
static int (*give_name(void))(int, const char *, int, const char *, unsigned);

void shim_lose(void)
{
    for (int i = 0; i < UNFLUSHED; i++)
        if (unflushed[i].file)
            cut()(unflushed[i].file, 0);
    for (int i = rename_count - 1; i >= 0; i--)
        if (renamed[i].folder[0])
            give_name()(AT_FDCWD, renamed[i].to, AT_FDCWD, renamed[i].from, renamed[i].flags);
    kill(getpid(), SIGKILL);
}

/* Returns 0 if the call continues; otherwise sets errno and returns -1, or kills the process. */
static int fail(void)
{
    if (!is_due() || fail_how == SHIM_SHORT)
        return 0;
    if (fail_how == SHIM_KILL)
        kill(getpid(), SIGKILL);
    if (fail_how == SHIM_LOSE)
        shim_lose();
    errno = fail_how == SHIM_EIO ? EIO : ENOSPC;
    return -1;
}

static bool fails_to_create(const char *path, int flags)
{
    (void)path;
    return (flags & O_CREAT) && fail();
}

WRAP_OPEN(open, fails_to_create)

static ssize_t put(int file, const void *bytes, size_t count, off_t offset)
{
    ssize_t (*write_at)(int, const void *, size_t, off_t) = NEXT(pwrite);
    note(file, false);
    if (!is_due())
        return write_at(file, bytes, count, offset);
    if (fail_how == SHIM_EIO || fail_how == SHIM_ENOSPC) {
        errno = fail_how == SHIM_EIO ? EIO : ENOSPC;
        return -1;
    }
    size_t half = count / 2;
    if (half >= 512) /* a direct write has written whole sectors */
        half -= half % 512;
    ssize_t done = write_at(file, bytes, half, offset);
    if (fail_how == SHIM_KILL)
        kill(getpid(), SIGKILL);
    if (fail_how == SHIM_LOSE)
        shim_lose();
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

/* The kernel keeps everything that a killed process has written, so fsync need not wait for the disk here. */
static int flush(int file)
{
    if (fail())
        return -1;
    note(file, true);
    note_folder(file);
    return 0;
}

EXPORT int fsync(int file)
{
    return flush(file);
}

EXPORT int fdatasync(int file)
{
    return flush(file);
}

static int (*cut(void))(int, off_t)
{
    return NEXT(ftruncate);
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
    struct stat about;
    if (lack == SHIM_NO_MOVE && !strstr(from, ".cspeed-tmp") && stat(from, &about) == 0 && S_ISDIR(about.st_mode)) {
        errno = EXDEV;
        return -1;
    }
    int done = fail() ? -1 : NEXT(rename)(from, to);
    if (done == 0)
        note_names(from, to, 0);
    return done;
}

EXPORT int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (lack != SHIM_ALL && flags) {
        errno = lack == SHIM_NO_MOVE ? EXDEV : EINVAL;
        return -1;
    }
    int done = fail() ? -1 : NEXT(renameat2)(from_dir, from, to_dir, to, flags);
    if (done == 0)
        note_names(from, to, flags & RENAME_EXCHANGE);
    return done;
}

static int (*give_name(void))(int, const char *, int, const char *, unsigned)
{
    return NEXT(renameat2);
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
