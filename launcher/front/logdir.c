/* logdir.c - finds the log folder of a job. */
#include "front/logdir.h"

#include "ground/codes.h"

#include "base/status.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { PATH_BYTES = PATH_MAX + 512 };

static bool is_run(const char *path)
{
    char first[2 * PATH_MAX];
    struct stat found;
    snprintf(first, sizeof first, "%s/attempt_0", path);
    return stat(first, &found) == 0 && S_ISDIR(found.st_mode);
}

/* Returns true if the job id in the folder's name DATE_TIME_JOB begins with `id`. A job id may itself contain '_'. */
static bool is_named(const char *folder, const char *id)
{
    for (const char *at = folder; (at = strchr(at, '_'));)
        if (strncmp(++at, id, strlen(id)) == 0)
            return true;
    return false;
}

/* Finds the folder ./cspeed_runs/DATE_TIME_JOB whose job id begins with `id`; if there are several, the last modified
 * one. */
static bool find_run(const char *id, char path[PATH_MAX])
{
    struct stat found;
    time_t newest = 0;
    DIR *all = opendir("cspeed_runs");
    for (struct dirent *entry; all && (entry = readdir(all));) {
        char here[PATH_BYTES];
        snprintf(here, sizeof here, "cspeed_runs/%s", entry->d_name);
        if (!is_named(entry->d_name, id) || !is_run(here) || stat(here, &found) < 0 || found.st_mtime < newest)
            continue;
        newest = found.st_mtime;
        snprintf(path, PATH_MAX, "cspeed_runs/%s", entry->d_name);
    }
    if (all)
        closedir(all);
    return newest != 0;
}

int cl_logdir_find(const char *id, cl_registry_job *job, bool *runs, char folder[PATH_MAX])
{
    char reason[1200] = "";
    *runs = false;
    if (strchr(id, '/') || strcmp(id, "latest") == 0) {
        snprintf(folder, PATH_MAX, "%s%s", strchr(id, '/') ? "" : "cspeed_runs/", id);
    } else if (cl_registry_read_find(job, id) == 0) {
        *runs = true;
        snprintf(folder, PATH_MAX, "%s", job->run_dir);
        if (!*folder)
            return cl_codes_fail(CL_CODE_NO_FILE, "job %s writes no log files", job->job);
    } else {
        snprintf(reason, sizeof reason, "%s", cs_error());
        if (!find_run(id, folder))
            return cl_codes_fail(CL_CODE_NO_FILE, "%s; and ./cspeed_runs has no logs of it", reason);
        ce_clear_error();
    }
    return is_run(folder) ? 0
                          : cl_codes_fail(CL_CODE_NO_FILE, "%s has no log files of a job (attempt_0/RANK.out)", folder);
}
