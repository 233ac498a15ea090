/* outdir.c - the output folder: creates it, checks that files can be written to it, and moves an earlier run aside
 * (--fresh). */
#include "base/must.h"
#include "train.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Flushes the name of a new folder to the disk, so that a power failure does not lose the folder with all its files. */
static void flush_name(const char *folder)
{
    CE_FREED char *above = ce_must_print("%s/..", folder);
    int descriptor = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* EINVAL means that this file system needs no flush of directories. */
    if (descriptor >= 0 && fsync(descriptor) != 0 && errno != EINVAL)
        complain("flushing the folder of %s to the disk: %s; a power failure may lose it", folder, strerror(errno));
    if (descriptor >= 0)
        close(descriptor);
}

/* Creates the folders that `path` names before its last slash. Returns the errno value of the last error, or 0. */
int outdir_make_above(char *path)
{
    int why = 0;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0777) == 0)
            flush_name(path);
        else if (errno != EEXIST)
            why = errno;
        *slash = '/';
    }
    return why;
}

/* Returns true if the folder contains anything except the owner file. */
static bool holds_files(const char *output)
{
    bool found = false;
    DIR *listing = opendir(output);
    for (const struct dirent *entry; listing && !found && (entry = readdir(listing)) != NULL;)
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                strcmp(entry->d_name, OWNER_FILE) != 0;
    if (listing)
        closedir(listing);
    return found;
}

static void drop_owner(const char *aside)
{
    CE_FREED char *path = ce_must_print("%s/%s", aside, OWNER_FILE);
    unlink(path);
}

/* Implements --fresh without deleting anything: renames the output folder to the first free name NAME.1, NAME.2, ...
 * and creates an empty folder with the old name. If `output` is a symbolic link, the target of the link is renamed and
 * created again. The link stays as it is, so new files go to the same disk as the old ones. */
static bool move_aside(const char *output)
{
    struct stat info;
    if (access(output, F_OK) != 0)
        return true; /* make_output reports the error of a symbolic link without a target */
    CE_FREED char *folder = lstat(output, &info) == 0 && S_ISLNK(info.st_mode) ? realpath(output, NULL) : NULL;
    folder = folder ? folder : ce_must_copy(output);
    char *aside = ce_must_print("%s.1", folder);
    for (int i = 2; access(aside, F_OK) == 0; i++) {
        free(aside);
        aside = ce_must_print("%s.%d", folder, i);
    }
    bool moved = rename(folder, aside) == 0;
    /* EEXIST: another run has created the folder and owns it */
    bool made = moved && (mkdir(folder, 0777) == 0 || errno == EEXIST);
    int why = errno;
    if (moved)
        drop_owner(aside);
    if (made)
        flush_name(folder);
    if (made)
        say("starting over; the earlier training was renamed to %s", aside);
    else if (moved)
        complain("the earlier training was renamed to %s, but %s cannot be created again: %s", aside, folder,
                 strerror(why));
    else
        complain("cannot move %s to %s: %s; --output DIR names another", folder, aside, strerror(why));
    free(aside);
    return made;
}

static bool make_output(const char *output)
{
    struct stat info;
    CE_FREED char *inside = ce_must_print("%s/", output);
    int why = outdir_make_above(inside);
    if (stat(output, &info) != 0 && lstat(output, &info) == 0)
        complain("the output folder %s is a symbolic link to a folder that does not exist; create that folder, or "
                 "--output DIR names another",
                 output);
    else if (stat(output, &info) != 0)
        complain("cannot make the output folder %s: %s; --output DIR names another", output,
                 strerror(why ? why : errno));
    else if (!S_ISDIR(info.st_mode))
        complain("the output folder %s is a file; --output DIR names another", output);
    else if (access(output, W_OK | X_OK) != 0)
        complain("cannot write to the output folder %s: %s; --output DIR names another", output, strerror(errno));
    else
        return true;
    return false;
}

/* Returns true if an earlier attempt of this job (--max_restarts) has already done the action `what`: "fresh" (the old
 * folder was moved aside) or "back" (the training went back to the checkpoint of --tag). The caller then does not
 * repeat the action. */
static bool is_begun(const char *output, const char *what)
{
    const char *job = getenv("CSPEED_JOB_ID"), *attempt = getenv("CSPEED_ATTEMPT");
    CE_FREED char *mark = ce_must_print("%s/.%s-%s", output, what, job ? job : "");
    bool begun = attempt && atoi(attempt) > 0 && access(mark, F_OK) == 0;
    return begun;
}

static void mark_begun(const char *output, const char *what)
{
    const char *job = getenv("CSPEED_JOB_ID");
    CE_FREED char *mark = ce_must_print("%s/.%s-%s", output, what, job ? job : "");
    FILE *file = job ? fopen(mark, "w") : NULL;
    if (file)
        fclose(file);
}

/* Handles --fresh. The new folder belongs to this run, unless another run has taken it first. Returns 0 or an exit
 * code. */
static int start_over(const char *output)
{
    int code = 0;
    if (!is_begun(output, "fresh") && holds_files(output))
        code = move_aside(output) && make_output(output) ? owner_take(output, false, false) : 1;
    if (code == 0)
        mark_begun(output, "fresh");
    return code;
}

bool outdir_went_back(cs_engine *engine, const char *output)
{
    return cs_agree(engine, is_rank_zero() && is_begun(output, "back"));
}

void outdir_mark_back(const char *output)
{
    if (is_rank_zero())
        mark_begun(output, "back");
}

/* Creates the output folder and makes this run its owner. This is done at the start, so that a folder in which files
 * cannot be created is reported now and not hours later, at the first checkpoint. */
void outdir_claim(const char *output, bool force)
{
    if (!is_rank_zero())
        return;
    bool made = access(output, F_OK) != 0;
    int code = make_output(output) ? owner_take(output, made, force) : 1;
    if (code)
        exit(code);
}

void outdir_prepare(cs_engine *engine, const char *output, bool fresh)
{
    int64_t code = cs_agree(engine, fresh && is_rank_zero() ? start_over(output) : 0);
    if (code)
        exit((int)code);
}

/* Creates the parent folders of `folder` and returns true if `folder` can be created in them. Otherwise prints the
 * reason and returns false. */
bool outdir_prepare_parent(const char *folder)
{
    CE_FREED char *path = ce_must_copy(folder);
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--)
        path[end - 1] = 0;
    outdir_make_above(path);
    char *slash = strrchr(path, '/');
    const char *above = !slash ? "." : slash == path ? "/" : path;
    if (slash && slash > path)
        *slash = 0;
    bool writable = access(above, W_OK | X_OK) == 0;
    if (!writable)
        complain("cspeed.export: cannot write to %s: %s; name another folder", above, strerror(errno));
    return writable;
}
