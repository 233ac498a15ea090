/* logdir.c - finds the log folders of jobs. */
#include "front/logdir.h"

#include "ground/codes.h"

#include "base/status.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The name of a job's folder in cspeed_runs is DATE_TIME_JOB. A job id may itself contain '_'. */
enum { ID_AT = sizeof "2026-01-31_235959_" - 1 };

static bool is_run(const char *path)
{
    static const char *const files[] = { "attempt_0", "result.json" };
    char first[2 * PATH_MAX];
    bool found = false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(first, sizeof first, "%s/%s", path, files[i]);
        found |= access(first, F_OK) == 0;
    }
    return found;
}

void cl_logdir_each(void (*each)(const char *folder, const char *id, void *argument), void *argument)
{
    struct dirent **entries;
    char path[PATH_MAX];
    int count = scandir("cspeed_runs", &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        snprintf(path, sizeof path, "cspeed_runs/%s", name);
        if (strlen(name) > ID_AT && is_run(path))
            each(path, name + ID_AT, argument);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

typedef struct {
    const char *id;
    char *path;
} wanted;

static void take_match(const char *folder, const char *id, void *argument)
{
    const wanted *search = argument;
    if (strncmp(id, search->id, strlen(search->id)) == 0)
        snprintf(search->path, PATH_MAX, "%s", folder);
}

int cl_logdir_find(const char *id, cl_registry_job *job, bool *runs, char folder[PATH_MAX])
{
    bool is_path = strchr(id, '/') != NULL || strcmp(id, "latest") == 0;
    folder[0] = '\0';
    *runs = !is_path && cl_registry_read_find(job, id) == 0;
    if (is_path) {
        snprintf(folder, PATH_MAX, "%s%s", strchr(id, '/') ? "" : "cspeed_runs/", id);
        *runs = cl_registry_read_find_folder(job, folder);
    } else if (*runs) {
        snprintf(folder, PATH_MAX, "%s", job->run_dir);
        if (!*folder)
            return cl_codes_fail(CL_CODE_NO_FILE, "job %s writes no log files", job->job);
    } else {
        char reason[1200];
        snprintf(reason, sizeof reason, "%s", cs_error());
        cl_logdir_each(take_match, &(wanted){ id, folder });
        if (!*folder)
            return cl_codes_fail(CL_CODE_NO_FILE, "%s, and ./cspeed_runs has no logs of it", reason);
        ce_clear_error();
    }
    return is_run(folder) ? 0
                          : cl_codes_fail(CL_CODE_NO_FILE, "%s has no log files of a job (attempt_0/RANK.out)", folder);
}
