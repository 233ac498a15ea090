/* staging.c - the staging directory in which a checkpoint is written, and the rename that commits it. */
#include "base/must.h"
#include "checkpoint/staging.h"
#include "base/log.h"
#include "base/files.h"
#include "checkpoint/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define WORK ".cspeed-tmp-"
#define TRASH ".cspeed-trash-"
#define ASIDE "~damaged"
#define MARK ".cspeed-damaged"    /* a file in a damaged checkpoint that the file system does not rename */
#define REMOVED ".cspeed-removed" /* the manifest of a checkpoint that is being removed in its place */
#define DRAFT "latest.tmp" /* temporary file for the new contents of dir/latest, in the checkpoint's own directory */
enum { SHORT_TAG = 200, SHORT_ID = 8 }; /* limits in bytes, so that prefix, tag and id fit into a file name */

bool ce_staging_is_locked(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (descriptor < 0)
        return false;
    bool alive = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(descriptor);
    return alive;
}

static void sweep(const char *dir)
{
    DIR *listing = opendir(dir);
    if (!listing)
        return;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        bool work = strncmp(entry->d_name, WORK, strlen(WORK)) == 0;
        char *path = ce_files_join(dir, entry->d_name);
        if (!work && strncmp(entry->d_name, TRASH, strlen(TRASH)) != 0 && !ce_files_holds(path, REMOVED)) {
            free(path);
            continue;
        }
        if (!(work && ce_staging_is_locked(path)) && ce_files_remove_tree(path) != CS_OK)
            ce_log(CE_LOG_WARNING,
                   "checkpoint: incomplete files of an earlier run could not be removed; the next save tries again: "
                   "%s",
                   cs_error());
        free(path);
    }
    closedir(listing);
}

/* Checks that the directory under the tag's name may be replaced: it must be a checkpoint, or what was one, or empty, or
 * missing. */
static cs_status check_place(const char *dir, const char *name)
{
    CE_FREED char *path = ce_files_join(dir, name);
    bool taken = ce_files_exists(path) && !ce_files_holds(path, CE_MANIFEST_FILE) && !ce_files_holds(path, MARK) &&
                 rmdir(path) != 0;
    if (taken)
        ce_fail(CS_IO_ERROR,
                "%s exists and is not a checkpoint of cspeed; nothing was written: move it elsewhere, or save with "
                "another tag",
                path);
    return taken ? CS_IO_ERROR : CS_OK;
}

static cs_status check_space(const char *dir, int64_t bytes)
{
    struct statvfs about;
    if (statvfs(dir, &about) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: asking for its free space", dir);
    double free_bytes = (double)about.f_bavail * (double)about.f_frsize, needed = 1.05 * (double)bytes;
    if (about.f_blocks > 0 && free_bytes < needed)
        return ce_fail(CS_IO_ERROR,
                       "%s: a checkpoint needs %.1f MB and the file system has %.1f MB free; nothing was written: "
                       "free some space or save elsewhere",
                       dir, needed / 1e6, free_bytes / 1e6);
    return CS_OK;
}

static char *hidden_path(const char *dir, const char *prefix, const char *name, const char *id)
{
    char hidden[CE_TAG_BYTES];
    snprintf(hidden, sizeof hidden, "%s%.*s-%.*s", prefix, SHORT_TAG, name, SHORT_ID, id);
    return ce_files_join(dir, hidden);
}

cs_status ce_staging_open(ce_staging *staging, const char *dir, const char *tag, const char *save_id, int64_t bytes)
{
    *staging = (ce_staging){ .dir = dir, .tag = tag, .lock = -1 };
    CE_TRY(ce_tag_escape(staging->name, tag));
    CE_TRY(ce_files_make_directories(dir));
    ce_staging_recover(dir);
    sweep(dir);
    CE_TRY(check_place(dir, staging->name));
    CE_TRY(check_space(dir, bytes));
    char *path = hidden_path(dir, WORK, staging->name, save_id);
    cs_status status = ce_files_make_directory(path);
    if (status != CS_OK) {
        free(path);
        return status;
    }
    staging->path = path;
    CE_TRY(ce_files_open(&staging->lock, path));
    if (flock(staging->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return ce_fail(CS_IO_ERROR,
                       "%s: locked by another process, which saves here too: end it, or save to another folder", path);
    return ce_files_sync_directory(dir);
}

/* How the staging directory has taken the tag's name: the name was free; the two directories have exchanged their names;
 * or the earlier checkpoint was removed before, because the file system exchanges no directories. */
typedef enum { FREE_NAME, EXCHANGED, REMOVED_BEFORE } taking;

/* Renames the staging directory to the tag's name. The earlier checkpoint of that name is exchanged with it. NFS and
 * overlayfs cannot exchange directories; the earlier checkpoint is then removed first. A crash between the two steps
 * loses nothing: the staging directory is complete and flushed, and ce_staging_recover gives it the name. */
static cs_status take_name(const ce_staging *staging, const char *target, taking *how)
{
    *how = FREE_NAME;
    if (rename(staging->path, target) == 0)
        return CS_OK;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return ce_fail_errno(CS_IO_ERROR, errno, "renaming %s to %s", staging->path, target);
    *how = EXCHANGED;
    if (renameat2(AT_FDCWD, staging->path, AT_FDCWD, target, RENAME_EXCHANGE) == 0)
        return CS_OK;
    if (errno != EINVAL && errno != ENOSYS && errno != EXDEV && errno != EOPNOTSUPP)
        return ce_fail_errno(CS_IO_ERROR, errno, "exchanging %s and %s", staging->path, target);
    *how = REMOVED_BEFORE;
    cs_status removed = ce_staging_discard(staging->dir, staging->name);
    if (rename(staging->path, target) != 0)
        return removed != CS_OK ? removed
                                : ce_fail_errno(CS_IO_ERROR, errno, "renaming %s to %s", staging->path, target);
    if (removed != CS_OK)
        ce_log(CE_LOG_WARNING,
               "checkpoint: a part of the checkpoint that %s has replaced could not be removed; you can remove it: %s",
               target, cs_error());
    return CS_OK;
}

/* Undoes take_name after `latest` could not be changed. */
static void take_back(const ce_staging *staging, const char *target, taking how)
{
    if (how == FREE_NAME && rename(target, staging->path) == 0)
        return;
    if (how == EXCHANGED && renameat2(AT_FDCWD, target, AT_FDCWD, staging->path, RENAME_EXCHANGE) == 0)
        return;
    ce_log(CE_LOG_WARNING,
           "checkpoint: %s is complete, but %s/latest does not name it: a training continues from the one that latest "
           "names, or from this one with --tag %s",
           target, staging->dir, staging->tag);
}

static cs_status name_latest(const char *dir, const char *target)
{
    CE_FREED char *draft = ce_files_join(target, DRAFT);
    CE_FREED char *latest = ce_files_join(dir, "latest");
    return ce_files_rename(draft, latest);
}

cs_status ce_staging_name_latest(const char *dir, const char *tag)
{
    char name[CE_TAG_BYTES];
    CE_TRY(ce_tag_escape(name, tag));
    CE_FREED char *target = ce_files_join(dir, name);
    CE_FREED char *draft = ce_files_join(target, DRAFT);
    unlink(draft); /* removes a file that a process may have left if it was killed at this point */
    CE_TRY(ce_files_write(draft, tag, strlen(tag)));
    CE_TRY(name_latest(dir, target));
    return ce_files_sync_directory(dir);
}

static cs_status publish(ce_staging *staging, const char *target)
{
    taking how;
    cs_status status = take_name(staging, target, &how);
    staging->keep = status != CS_OK && how == REMOVED_BEFORE;
    CE_TRY(status);
    status = ce_files_sync_directory(staging->dir);
    if (status == CS_OK)
        status = name_latest(staging->dir, target);
    if (status != CS_OK) {
        char why[4096];
        snprintf(why, sizeof why, "%s", cs_error());
        take_back(staging, target, how);
        return ce_fail(status, "%s", why);
    }
    return ce_files_sync_directory(staging->dir);
}

cs_status ce_staging_commit(ce_staging *staging)
{
    CE_FREED char *draft = ce_files_join(staging->path, DRAFT);
    CE_FREED char *target = ce_files_join(staging->dir, staging->name);
    CE_TRY(ce_files_write(draft, staging->tag, strlen(staging->tag)));
    CE_TRY(ce_files_sync_directory(staging->path));
    return publish(staging, target);
}

void ce_staging_close(ce_staging *staging)
{
    if (staging->path && !staging->keep && ce_files_remove_tree(staging->path) != CS_OK)
        ce_log(CE_LOG_WARNING,
               "checkpoint: an incomplete or replaced checkpoint could not be removed; the next save tries again: %s",
               cs_error());
    if (staging->lock >= 0)
        close(staging->lock);
    free(staging->path);
    *staging = (ce_staging){ .lock = -1 };
}

bool ce_staging_is_aside(const char *dir, const char *name)
{
    CE_FREED char *path = ce_files_join(dir, name);
    bool aside = strstr(name, ASIDE) || ce_files_holds(path, MARK);
    return aside;
}

/* Marks a damaged checkpoint that overlayfs does not rename, because it is of a lower layer. */
static cs_status mark(const char *path)
{
    CE_FREED char *file = ce_files_join(path, MARK);
    CE_TRY(ce_files_exists(file) ? CS_OK : ce_files_write(file, "", 0));
    ce_log(CE_LOG_WARNING,
           "the damaged checkpoint %s is not renamed, because this file system cannot do it: its file " MARK " says "
           "that it must not be loaded, and a save with its tag replaces it",
           path);
    return ce_files_sync_directory(path);
}

cs_status ce_staging_set_aside(const char *dir, const char *name)
{
    CE_FREED char *path = ce_files_join(dir, name);
    CE_FREED char *aside = NULL;
    cs_status status = CS_OK;
    for (int i = 1; !aside && ce_files_exists(path); i++) {
        char next[CE_TAG_BYTES + 32], number[16] = "";
        if (i > 1)
            snprintf(number, sizeof number, ".%d", i);
        snprintf(next, sizeof next, "%.*s" ASIDE "%s", SHORT_TAG, name, number);
        aside = ce_files_holds(dir, next) ? NULL : ce_files_join(dir, next);
    }
    if (aside && rename(path, aside) != 0) {
        status = errno == EXDEV ? mark(path) : ce_fail_errno(CS_IO_ERROR, errno, "renaming %s to %s", path, aside);
    } else if (aside) {
        ce_log(CE_LOG_WARNING, "the damaged checkpoint %s is kept as %s", path, aside);
        status = ce_files_sync_directory(dir);
    }
    return status;
}

/* Removes a checkpoint's directory that the file system does not rename: overlayfs refuses to rename a directory of a
 * lower layer. The manifest (or MARK, if there is none) goes first, so that what remains after a crash is no checkpoint;
 * the file REMOVED, which it becomes, goes last, so that the next save recognizes what remains. */
static cs_status remove_in_place(const char *path)
{
    const char *first = ce_files_holds(path, CE_MANIFEST_FILE) ? CE_MANIFEST_FILE : MARK;
    CE_FREED char *from = ce_files_join(path, first);
    CE_FREED char *to = ce_files_join(path, REMOVED);
    cs_status status = ce_files_holds(path, REMOVED) ? CS_OK : ce_files_rename(from, to);
    if (status == CS_OK)
        status = ce_files_sync_directory(path);
    CE_TRY(status);
    DIR *listing = opendir(path);
    for (const struct dirent *entry; listing && status == CS_OK && (entry = readdir(listing)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || strcmp(entry->d_name, REMOVED) == 0)
            continue;
        CE_FREED char *inside = ce_files_join(path, entry->d_name);
        status = ce_files_remove_tree(inside);
    }
    if (listing)
        closedir(listing);
    return status == CS_OK ? ce_files_remove_tree(path) : status;
}

cs_status ce_staging_discard(const char *dir, const char *name)
{
    char id[SHORT_ID + 1];
    snprintf(id, sizeof id, "%08x", (unsigned)getpid());
    CE_FREED char *path = ce_files_join(dir, name);
    CE_FREED char *trash = hidden_path(dir, TRASH, name, id);
    cs_status status = CS_OK;
    if (rename(path, trash) == 0) {
        status = ce_files_sync_directory(dir);
        if (status == CS_OK)
            status = ce_files_remove_tree(trash);
    } else {
        status = errno == EXDEV ? remove_in_place(path)
                                : ce_fail_errno(CS_IO_ERROR, errno, "renaming %s to %s", path, trash);
    }
    return status;
}

/* Returns true if the staging directory is a complete checkpoint that only lacks its name, and sets `name` to this
 * name. */
static bool is_ready(const char *path, char name[CE_TAG_BYTES])
{
    ce_manifest manifest;
    bool ready =
        ce_files_holds(path, DRAFT) && !ce_staging_is_locked(path) && ce_manifest_load(&manifest, path) == CS_OK;
    if (ready) {
        ready = ce_tag_escape(name, manifest.tag) == CS_OK;
        ce_manifest_close(&manifest);
    }
    return ready;
}

static cs_status give_name(const char *dir, const char *path, const char *target)
{
    if (ce_files_holds(target, REMOVED)) /* the rest that remove_in_place has left */
        CE_TRY(ce_files_remove_tree(target));
    CE_TRY(ce_files_rename(path, target));
    ce_log(CE_LOG_WARNING,
           "%s was complete when the run that saved it was killed, and is renamed to its final name now", target);
    return ce_files_sync_directory(dir);
}

void ce_staging_recover(const char *dir)
{
    DIR *listing = opendir(dir);
    for (const struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        char name[CE_TAG_BYTES];
        if (strncmp(entry->d_name, WORK, strlen(WORK)) != 0)
            continue;
        CE_FREED char *path = ce_files_join(dir, entry->d_name);
        CE_FREED char *target = is_ready(path, name) ? ce_files_join(dir, name) : NULL;
        if (target && !ce_files_holds(target, CE_MANIFEST_FILE) && give_name(dir, path, target) != CS_OK)
            ce_log(CE_LOG_WARNING, "checkpoint: %s is complete, but cannot be renamed to its final name: %s", path,
                   cs_error());
    }
    if (listing)
        closedir(listing);
}
