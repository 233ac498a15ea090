/* registry_read.c - reads the registry of running jobs. */
#include "front/registry_read.h"

#include "ground/codes.h"
#include "node/proc.h"

#include "base/ends_with.h"
#include "base/faults.h"
#include "base/must.h"
#include "base/names.h"
#include "json/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_SECONDS = 5 };

int cl_registry_read_folder(char path[PATH_MAX])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat found;
    if (runtime && *runtime == '/')
        snprintf(path, PATH_MAX, "%s/cspeed", runtime);
    else
        snprintf(path, PATH_MAX, "/tmp/cspeed-%d", (int)geteuid());
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return cl_codes_fail(CL_CODE_SYSTEM, "the list of running jobs, %s, cannot be made: %s", path, strerror(errno));
    if (lstat(path, &found) < 0 || !S_ISDIR(found.st_mode) || found.st_uid != geteuid() || found.st_mode & 077)
        return cl_codes_fail(CL_CODE_SYSTEM,
                             "the folder of the list of running jobs, %s, does not belong to this user alone (mode "
                             "0700): remove it, or set XDG_RUNTIME_DIR",
                             path);
    return 0;
}

void cl_registry_read_file(const char *folder, const char *job, char path[PATH_MAX])
{
    int used = snprintf(path, PATH_MAX, "%s/", folder);
    for (int i = 0; job[i] && used < PATH_MAX - 8; i++) {
        bool plain = (job[i] >= '0' && job[i] <= '9') || ((job[i] | 32) >= 'a' && (job[i] | 32) <= 'z') ||
                     job[i] == '-' || job[i] == '_' || (job[i] == '.' && i > 0);
        used += snprintf(path + used, (size_t)(PATH_MAX - used), plain ? "%c" : "%%%02X", (unsigned char)job[i]);
    }
    snprintf(path + used, (size_t)(PATH_MAX - used), ".json");
}

bool cl_registry_read_is_running(const cl_registry_job *job)
{
    return job->pid > 0 && job->start && cl_proc_start(job->pid) == job->start;
}

static void copy_text(const json_t *root, const char *key, char *text, size_t capacity)
{
    const char *value = json_string_value(json_object_get(root, key));
    snprintf(text, capacity, "%s", value ? value : "");
}

bool cl_registry_read_entry(const char *path, cl_registry_job *job)
{
    struct stat found; /* to open a FIFO would block */
    bool regular = stat(path, &found) == 0 && S_ISREG(found.st_mode);
    json_t *root = regular ? json_load_file(path, JSON_ALLOW_NUL, NULL) : NULL;
    if (!root)
        return false;
    *job = (cl_registry_job){ .pid = (pid_t)json_integer_value(json_object_get(root, "pid")),
                              .start = (unsigned long long)json_integer_value(json_object_get(root, "start")),
                              .since = json_integer_value(json_object_get(root, "since")),
                              .ranks = (int)json_integer_value(json_object_get(root, "ranks")) };
    copy_text(root, "job", job->job, sizeof job->job);
    copy_text(root, "hosts", job->hosts, sizeof job->hosts);
    copy_text(root, "command", job->command, sizeof job->command);
    ce_faults_make_printable(job->command, "");
    copy_text(root, "run_dir", job->run_dir, sizeof job->run_dir);
    json_decref(root);
    return *job->job != '\0';
}

/* Returns true if the entry belongs to a process that no longer exists. If the job still runs, its entry is copied to
 * *job. */
static bool is_stale(const char *folder, const char *name, cl_registry_job *job)
{
    char path[PATH_MAX];
    job->pid = 0;
    if (name[0] == '.') /* not an entry */
        return false;
    if (ce_ends_with(name, ".sock"))
        return cl_proc_start(atoi(name)) == 0;
    if (!ce_ends_with(name, ".json") || snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    if (cl_registry_read_entry(path, job) && cl_registry_read_is_running(job))
        return false;
    job->pid = 0;
    return true;
}

static int by_age(const void *a, const void *b)
{
    const cl_registry_job *one = a, *other = b;
    return one->since != other->since ? (one->since > other->since) - (one->since < other->since)
                                      : strcmp(one->job, other->job);
}

int cl_registry_read_list(cl_registry_job **jobs, int *count, int *swept)
{
    char folder[PATH_MAX];
    cl_registry_job found;
    int code = cl_registry_read_folder(folder), gone = 0;
    DIR *all = code ? NULL : opendir(folder);
    *jobs = NULL;
    *count = 0;
    if (!all)
        return code ? code : cl_codes_fail(CL_CODE_SYSTEM, "%s cannot be read: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(all));) {
        if (is_stale(folder, entry->d_name, &found))
            gone += unlinkat(dirfd(all), entry->d_name, 0) == 0;
        if (!found.pid)
            continue;
        *jobs = ce_must_resize(*jobs, ((size_t)*count + 1) * sizeof found);
        (*jobs)[(*count)++] = found;
    }
    closedir(all);
    if (*count)
        qsort(*jobs, (size_t)*count, sizeof **jobs, by_age);
    if (swept)
        *swept = gone;
    return 0;
}

static int fail_to_find(const cl_registry_job *jobs, int count, const char *id, int matches)
{
    ce_names names = { 0 };
    for (int i = 0; i < count; i++)
        if (!matches || strncmp(jobs[i].job, id, strlen(id)) == 0)
            ce_names_add(&names, "%s", jobs[i].job);
    if (matches)
        return cl_codes_fail(CL_CODE_NO_FILE, "several running jobs begin with \"%s\": %s", id, ce_names_text(&names));
    return cl_codes_fail(CL_CODE_NO_FILE, "no job \"%s\" runs on this machine; %s%s", id,
                         count ? "these do: " : "none does", ce_names_text(&names));
}

int cl_registry_read_find(cl_registry_job *job, const char *id)
{
    CE_FREED cl_registry_job *jobs = NULL;
    int count, matches = 0, code = cl_registry_read_list(&jobs, &count, NULL);
    if (code)
        return code;
    for (int i = 0; i < count; i++) {
        bool exact = strcmp(jobs[i].job, id) == 0;
        if (!*id || strncmp(jobs[i].job, id, strlen(id)) != 0)
            continue;
        matches = exact ? 1 : matches + 1;
        *job = jobs[i];
        if (exact)
            break;
    }
    return matches == 1 ? 0 : fail_to_find(jobs, count, id, matches);
}

bool cl_registry_read_find_folder(cl_registry_job *job, const char *folder)
{
    CE_FREED cl_registry_job *jobs = NULL;
    CE_FREED char *path = realpath(folder, NULL);
    int count = 0;
    bool found = false;
    if (path)
        cl_registry_read_list(&jobs, &count, NULL);
    for (int i = 0; i < count && !found; i++) {
        *job = jobs[i];
        found = strcmp(jobs[i].run_dir, path) == 0;
    }
    return found;
}

int cl_registry_read_socket(const char *folder, pid_t pid, int flags,
                            int (*use)(int fd, const struct sockaddr *address, socklen_t bytes))
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct timeval limit = { .tv_sec = ANSWER_SECONDS };
    int at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC),
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%d.sock", at, pid);
    bool open = at >= 0 && fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
                setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
                use(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (at >= 0)
        close(at);
    if (!open && fd >= 0)
        close(fd);
    return open ? fd : -1;
}

char *cl_registry_read_ask(const cl_registry_job *job)
{
    char part[4096], folder[PATH_MAX], *text = NULL;
    size_t length;
    ssize_t count = -1;
    int fd = cl_registry_read_folder(folder) ? -1 : cl_registry_read_socket(folder, job->pid, 0, connect);
    FILE *out = ce_must_stream(&text, &length);
    while (fd >= 0 && (count = read(fd, part, sizeof part)) > 0)
        fwrite(part, 1, (size_t)count, out);
    if (fd >= 0)
        close(fd);
    ce_must_finish(out);
    if (count == 0 && length)
        return text;
    free(text);
    cl_codes_fail(CL_CODE_SYSTEM, "job %s (pid %d): its state cannot be read", job->job, job->pid);
    return NULL;
}
