/* program.c - finds the executable file of a program. */
#include "node/program.h"

#include "base/ends_with.h"
#include "base/status.h"
#include "ground/codes.h"
#include "ground/command_names.h"
#include "plan/env.h"
#include "ground/programs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns 0 if the file `path` can be executed; otherwise returns an errno value. */
static int refusal(const char *path)
{
    struct stat file;
    if (stat(path, &file) < 0)
        return errno;
    if (!S_ISREG(file.st_mode))
        return S_ISDIR(file.st_mode) ? EISDIR : EACCES;
    return access(path, X_OK) < 0 ? errno : 0;
}

static int refuse_script(int code, const char *name)
{
    return cl_codes_fail(code, "%s is a Python script; `cspeed run python3 %s` runs it on every rank", name, name);
}

static int check_path(const char *path)
{
    int reason = refusal(path);
    if (reason == 0)
        return 0;
    if (reason == ENOENT || reason == ENOTDIR)
        return cl_codes_fail(CL_CODE_NOT_FOUND, "%s: there is no such program", path);
    if (ce_ends_with(path, ".py"))
        return refuse_script(CL_CODE_NOT_EXECUTABLE, path);
    return cl_codes_fail(CL_CODE_NOT_EXECUTABLE, "%s: cannot be executed: %s", path, strerror(reason));
}

/* Writes "folder/name". If `folder` is empty, the current folder is meant. */
static bool join(char path[PATH_MAX], const char *folder, size_t folder_length, const char *name)
{
    if (folder_length == 0)
        return snprintf(path, PATH_MAX, "./%s", name) < PATH_MAX;
    return snprintf(path, PATH_MAX, "%.*s/%s", (int)folder_length, folder, name) < PATH_MAX;
}

static bool is_own(const char *name, char path[PATH_MAX])
{
    char folder[PATH_MAX];
    return cl_programs_folder(folder) && join(path, folder, strlen(folder), name) && access(path, F_OK) == 0;
}

bool cl_program_is_own(const char *name)
{
    char path[PATH_MAX];
    return is_own(name, path);
}

/* Returns the name of the command that is most similar to this name; NULL: none is similar. */
static const char *find_nearest(const char *name)
{
#define TEXT(name) #name,
    return cs_nearest(name, (const char *[]){ CL_COMMAND_NAMES(TEXT) NULL });
}

/* Reports that no program with this name was found. A word such as HF_TOKEN=x was meant for a shell; its value is not
 * printed. Returns CL_CODE_NOT_FOUND. */
static int refuse(const char *name)
{
    char masked[512];
    bool hide = false;
    const char *word = cl_env_masked(name, &hide, masked, sizeof masked);
    if (ce_ends_with(name, ".py"))
        return refuse_script(CL_CODE_NOT_FOUND, name);
    if (strchr(name, '='))
        return cl_codes_fail(
            CL_CODE_NOT_FOUND,
            "%s: there is no such program; `cspeed --env NAME=VALUE ...` sets a variable for the ranks", word);
    const char *meant = find_nearest(name);
    return cl_codes_fail(CL_CODE_NOT_FOUND,
                         "%s: cspeed has no such command or program, and there is none in PATH; "
                         "%s%s%s",
                         name, meant ? "did you mean " : "for a program in this folder, write ./", meant ? meant : name,
                         meant ? "?" : "");
}

static int search(const char *name, char path[PATH_MAX])
{
    const char *folders = getenv("PATH");
    char refused[PATH_MAX] = "";
    for (const char *folder = folders ? folders : "/usr/local/bin:/usr/bin:/bin"; folder;) {
        size_t length = strcspn(folder, ":");
        if (join(path, folder, length, name)) {
            int reason = refusal(path);
            if (reason == 0)
                return 0;
            if (reason == EACCES && !*refused)
                memcpy(refused, path, sizeof refused);
        }
        folder = folder[length] ? folder + length + 1 : NULL;
    }
    if (*refused)
        return check_path(refused);
    return refuse(name);
}

int cl_program_find(const char *name, char path[PATH_MAX])
{
    if (strchr(name, '/')) {
        if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
            return cl_codes_fail(CL_CODE_NOT_FOUND, "the program's path is too long");
        return check_path(path);
    }
    if (*name && is_own(name, path))
        return check_path(path);
    return search(name, path);
}

int cl_program_may_be(const char *word)
{
    char path[PATH_MAX];
    if (strchr(word, '/') || is_own(word, path))
        return 0;
    if (ce_ends_with(word, ".py"))
        return refuse_script(CL_CODE_USAGE, word);
    /* This machine lacks the program, but the hosts of the job may have it. A host without it reports an error. */
    if (search(word, path)) {
        ce_clear_error();
        return 0;
    }
    const char *meant = find_nearest(word);
    return cl_codes_fail(
        CL_CODE_USAGE, "%s is neither a command nor a program of cspeed%s%s%s; `cspeed run %s` starts %s on every rank",
        word, meant ? " (is " : "", meant ? meant : "", meant ? " meant?)" : "", word, path);
}
