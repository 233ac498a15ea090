/* outdir.c - the output folder: there, ours to write in, and with --fresh without what an earlier run left. */
#include "train.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every folder above the last slash. Returns errno of the last that could not be made, or 0. */
int outdir_make_above(char *path)
{
    int why = 0;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            why = errno;
        *slash = '/';
    }
    return why;
}

/* Anything but the file that says whose it is. */
static bool holds_files(const char *output)
{
    bool found   = false;
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
    char *path = text("%s/%s", aside, OWNER_FILE);
    unlink(path);
    free(path);
}

/* --fresh loses nothing: what the folder holds gets the first free name beside it. */
static bool move_aside(const char *output)
{
    char *aside = text("%s.1", output);
    for (int i = 2; access(aside, F_OK) == 0; i++) {
        free(aside);
        aside = text("%s.%d", output, i);
    }
    bool moved = rename(output, aside) == 0;
    if (moved)
        drop_owner(aside);
    if (moved)
        say("starting over; the earlier run is in %s", aside);
    else
        complain("cannot move %s to %s: %s", output, aside, strerror(errno));
    free(aside);
    return moved;
}

static bool make_output(const char *output)
{
    struct stat info;
    char       *inside = text("%s/", output);
    int         why    = outdir_make_above(inside);
    free(inside);
    if (stat(output, &info) != 0)
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

/* An attempt of the same job (--max_restarts) goes on with what one before it has begun. The new folder is this run's
 * unless another run was faster. */
static int start_over(const char *output)
{
    const char *job = getenv("CSPEED_JOB_ID"), *attempt = getenv("CSPEED_ATTEMPT");
    char       *mark  = text("%s/.fresh-%s", output, job ? job : "");
    bool        begun = attempt && atoi(attempt) > 0 && access(mark, F_OK) == 0;
    int         code  = 0;
    if (!begun && holds_files(output))
        code = move_aside(output) && make_output(output) ? owner_take(output, false, false) : 1;
    FILE *file = code == 0 && job ? fopen(mark, "w") : NULL;
    if (file)
        fclose(file);
    free(mark);
    return code;
}

/* Now, as the first checkpoint would be hours too late to learn that there is no place for it. */
void outdir_claim(const char *output, bool force)
{
    if (!is_rank_zero())
        return;
    bool made = access(output, F_OK) != 0;
    int  code = make_output(output) ? owner_take(output, made, force) : 1;
    if (code)
        exit(code);
}

void outdir_prepare(cs_engine *engine, const char *output, bool fresh)
{
    int64_t code = cs_agree(engine, fresh && is_rank_zero() ? start_over(output) : 0);
    if (code)
        exit((int)code);
}

/* Whether a folder can be made at the place; what is above it is made now. */
bool outdir_is_free(const char *folder)
{
    char *path = text("%s", folder);
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--)
        path[end - 1] = 0;
    outdir_make_above(path);
    char       *slash = strrchr(path, '/');
    const char *above = !slash ? "." : slash == path ? "/" : path;
    if (slash && slash > path)
        *slash = 0;
    bool writable = access(above, W_OK | X_OK) == 0;
    if (!writable)
        complain("cspeed.export: cannot write to %s: %s; name another folder", above, strerror(errno));
    free(path);
    return writable;
}
