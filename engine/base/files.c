/* files.c - file and directory operations whose error messages name the path. */
#include "base/files.h"
#include "base/must.h"
#include "base/clock.h"
#include "base/input.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

char *ce_files_join(const char *dir, const char *name)
{
    return ce_must_print("%s/%s", dir, name);
}

cs_status ce_files_refuse(const char *path)
{
    if (errno == EACCES)
        return ce_fail(CS_IO_ERROR,
                       "%s: Permission denied: this user may not read it; its owner can allow that with "
                       "chmod -R a+rX",
                       path);
    return ce_fail_errno(errno == ENOENT || errno == ENOTDIR ? CS_NOT_FOUND : CS_IO_ERROR, errno, "%s", path);
}

/* Returns true if there is time for a pause of so many milliseconds. All pauses of one disturbance together last at most
 * half a minute, so that thousands of reads from a dead file system fail soon. A disturbance ends when no read has
 * failed for a minute. */
static bool has_time(long milliseconds)
{
    enum { MOST_MILLISECONDS = 30000, QUIET_SECONDS = 60 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static double last;
    static long used;
    pthread_mutex_lock(&lock);
    double now = ce_clock_seconds();
    used = now - last > QUIET_SECONDS ? 0 : used;
    last = now;
    bool fits = used + milliseconds <= MOST_MILLISECONDS, ends = !fits && used <= MOST_MILLISECONDS;
    used += ends ? MOST_MILLISECONDS + 1 : fits ? milliseconds : 0;
    pthread_mutex_unlock(&lock);
    if (ends)
        ce_log(CE_LOG_WARNING,
               "failed reads have been repeated for %d s in total: from now on a failed read is not repeated, until "
               "no read has failed for %d s",
               MOST_MILLISECONDS / 1000, QUIET_SECONDS);
    return fits;
}

/* Returns true for the error of a file server that restarts, or of a system that is short of files or memory. */
static bool may_pass(int error)
{
    static const int passing[] = { EIO, ESTALE, ENFILE, EMFILE, ENOMEM, EAGAIN, ETIMEDOUT, EREMOTEIO };
    bool passes = false;
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        passes |= error == passing[i];
    return passes;
}

/* Returns true if a call that has failed with errno shall be repeated: after a signal at once, and after an error that
 * may pass a few times, after a pause. */
static bool is_repeated(int *repeated)
{
    static const long milliseconds[] = { 10, 100, 500 };
    int why = errno;
    if (may_pass(why) && *repeated < (int)(sizeof milliseconds / sizeof *milliseconds) &&
        has_time(milliseconds[*repeated])) {
        nanosleep(&(struct timespec){ .tv_nsec = milliseconds[(*repeated)++] * 1000000 }, NULL);
        return true;
    }
    errno = why;
    return why == EINTR;
}

cs_status ce_files_open(int *descriptor, const char *path)
{
    int repeated = 0;
    do
        *descriptor = ce_input_open(path);
    while (*descriptor < 0 && is_repeated(&repeated));
    return *descriptor >= 0 ? ce_input_check(descriptor, path) : ce_files_refuse(path);
}

cs_status ce_files_size(int64_t *bytes, const char *path)
{
    struct stat about;
    int repeated = 0;
    *bytes = 0;
    while (stat(path, &about) != 0)
        if (!is_repeated(&repeated))
            return ce_files_refuse(path);
    if (!S_ISREG(about.st_mode))
        return ce_fail(CS_BAD_FILE, "%s: not a regular file", path);
    *bytes = about.st_size;
    return CS_OK;
}

cs_status ce_files_read(char **text, size_t *length, const char *path, size_t limit)
{
    int64_t bytes;
    int descriptor;
    *text = NULL;
    *length = 0;
    CE_TRY(ce_files_size(&bytes, path));
    if ((uint64_t)bytes > limit)
        return ce_fail(CS_BAD_FILE, "%s: %lld bytes, more than the %zu such a file may have", path, (long long)bytes,
                       limit);
    CE_TRY(ce_files_open(&descriptor, path));
    char *memory = ce_must_alloc((size_t)bytes + 1);
    cs_status status = ce_files_read_at(descriptor, memory, (size_t)bytes, 0, path);
    close(descriptor);
    if (status != CS_OK) {
        free(memory);
        return status;
    }
    *text = memory;
    *length = (size_t)bytes;
    return CS_OK;
}

bool ce_files_exists(const char *path)
{
    struct stat about;
    int repeated = 0;
    while (lstat(path, &about) != 0)
        if (!is_repeated(&repeated))
            return may_pass(errno);
    return true;
}

bool ce_files_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool ce_files_holds(const char *dir, const char *name)
{
    CE_FREED char *path = ce_files_join(dir, name);
    bool found = ce_files_exists(path);
    return found;
}

bool ce_files_holds_tokenizer(const char *dir)
{
    return ce_files_holds(dir, "tokenizer.json") || ce_files_holds(dir, "vocab.json") ||
           ce_files_holds(dir, "tokenizer.model");
}

cs_status ce_files_read_at(int descriptor, void *bytes, size_t count, int64_t offset, const char *path)
{
    int repeated = 0;
    for (size_t done = 0; done < count;) {
        ssize_t got = pread(descriptor, (char *)bytes + done, count - done, offset + (int64_t)done);
        if (got < 0 && is_repeated(&repeated))
            continue;
        if (got < 0)
            return ce_fail_errno(CS_IO_ERROR, errno, "%s: reading %zu bytes at %lld", path, count, (long long)offset);
        if (got == 0)
            return ce_fail(CS_BAD_FILE,
                           "%s: ends at byte %lld, and must be read up to byte %lld: the file is truncated", path,
                           (long long)offset + (long long)done, (long long)offset + (long long)count);
        done += (size_t)got;
    }
    return CS_OK;
}

cs_status ce_files_write_at(int descriptor, const void *bytes, size_t count, int64_t offset, const char *path)
{
    for (size_t done = 0; done < count;) {
        ssize_t put = pwrite(descriptor, (const char *)bytes + done, count - done, offset + (int64_t)done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return ce_fail_errno(CS_IO_ERROR, errno, "%s: writing", path);
        done += (size_t)put;
    }
    return CS_OK;
}

cs_status ce_files_write(const char *path, const void *bytes, size_t count)
{
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: creating", path);
    cs_status status = ce_files_write_at(descriptor, bytes, count, 0, path);
    if (status == CS_OK && fsync(descriptor) != 0)
        status = ce_fail_errno(CS_IO_ERROR, errno, "%s: flushing to the disk", path);
    if (close(descriptor) != 0 && status == CS_OK)
        status = ce_fail_errno(CS_IO_ERROR, errno, "%s: closing", path);
    return status;
}

cs_status ce_files_rename(const char *from, const char *to)
{
    if (rename(from, to) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "renaming %s to %s", from, to);
    return CS_OK;
}

cs_status ce_files_make_directory(const char *path)
{
    if (mkdir(path, 0777) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: making the directory", path);
    return CS_OK;
}

/* Creates the directory `path`, and flushes the parent directory to the disk, so that a crash does not lose the new
 * directory. Does nothing if `path` is a directory already. The parent directory must exist. */
static cs_status make_one(char *path)
{
    if (mkdir(path, 0777) != 0) {
        struct stat about;
        int why = errno;
        if (why == EEXIST && stat(path, &about) == 0 && S_ISDIR(about.st_mode))
            return CS_OK;
        return ce_fail_errno(CS_IO_ERROR, why, "%s: making the directory", path);
    }
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return ce_files_sync_directory(slash ? "/" : ".");
    *slash = 0;
    cs_status status = ce_files_sync_directory(path);
    *slash = '/';
    return status;
}

cs_status ce_files_make_directories(const char *path)
{
    CE_FREED char *copy = ce_files_join(path, "");
    cs_status status = CS_OK;
    for (char *at = copy + 1; *at && status == CS_OK; at++) {
        if (*at != '/' || at[-1] == '/')
            continue;
        *at = 0;
        status = make_one(copy);
        *at = '/';
    }
    return status;
}

cs_status ce_files_sync_directory(const char *path)
{
    int descriptor;
    CE_TRY(ce_files_open(&descriptor, path));
    cs_status status = CS_OK;
    /* EINVAL means that this file system needs no flush of directories. */
    if (fsync(descriptor) != 0 && errno != EINVAL)
        status = ce_fail_errno(CS_IO_ERROR, errno, "%s: flushing the directory to the disk", path);
    close(descriptor);
    return status;
}

bool ce_files_cache(char *path, size_t capacity)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = cache && *cache == '/' ? snprintf(path, capacity, "%s/cspeed", cache)
                 : home && *home == '/' ? snprintf(path, capacity, "%s/.cache/cspeed", home)
                                        : -1;
    return length >= 0 && (size_t)length < capacity;
}

static int forget_entry(const char *path, const struct stat *about, int type, struct FTW *place)
{
    (void)about;
    (void)place;
    int descriptor = type == FTW_F ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (descriptor >= 0) {
        posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
        close(descriptor);
    }
    return 0;
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *place)
{
    (void)about;
    (void)type;
    (void)place;
    return remove(path) == 0 || errno == ENOENT ? 0 : errno;
}

enum { OPEN_DIRECTORIES = 8 };

void ce_files_forget_tree(const char *path)
{
    nftw(path, forget_entry, OPEN_DIRECTORIES, FTW_PHYS);
}

cs_status ce_files_remove_tree(const char *path)
{
    int why = nftw(path, remove_entry, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);
    if (why < 0)
        why = errno;
    if (why == 0 || why == ENOENT)
        return CS_OK;
    return ce_fail_errno(CS_IO_ERROR, why, "%s: removing it", path);
}
