/* leftover.c - finds and ends leftover processes of jobs: processes whose agent no longer exists. */
#include "node/leftover.h"

#include "node/proc.h"
#include "plan/env.h"

#include "base/must.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

enum { ENVIRONMENT_BYTES = 256 << 10, STATUS_BYTES = 4096, NAMESPACE_BYTES = 64 };

/* Writes the names of the pid namespace and the time namespace of a process: a process id is valid in one pid
 * namespace, and a start time is relative to the time namespace. If the kernel has no time namespaces, only the first
 * name is written. */
static bool name_namespaces(const char *process, char text[NAMESPACE_BYTES])
{
    char path[64];
    size_t used = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/%s/ns/%s", process, i ? "time" : "pid");
        ssize_t length = readlink(path, text + used, NAMESPACE_BYTES - 1 - used);
        if (length < 0 && i == 0)
            return false;
        used += length > 0 ? (size_t)length : 0;
    }
    text[used] = '\0';
    return true;
}

/* Returns true if /proc shows the process ids of the pid namespace of this process. */
static bool is_proc_ours(void)
{
    char text[32];
    ssize_t length = readlink("/proc/self", text, sizeof text - 1);
    text[length < 0 ? 0 : length] = '\0';
    return atoi(text) == getpid();
}

bool cl_leftover_mark(pid_t agent, char text[CL_LEFTOVER_MARK])
{
    char namespaces[NAMESPACE_BYTES];
    unsigned long long start = cl_proc_start(agent);
    if (!start || !is_proc_ours() || !name_namespaces("self", namespaces))
        return false;
    snprintf(text, CL_LEFTOVER_MARK, "%d:%llu:%s", agent, start, namespaces);
    return true;
}

/* Returns true if CSPEED_AGENT in the environment of the process found->pid identifies an agent that has ended and
 * whose namespaces were `ours`. In that case sets found->job. `text` is a buffer of ENVIRONMENT_BYTES. */
static bool has_lost_agent(cl_leftover *found, char *text, const char *ours)
{
    size_t length = cl_proc_text(found->pid, "environ", text, ENVIRONMENT_BYTES);
    const char *agent = cl_env_find(text, length, "CSPEED_AGENT"), *job;
    char theirs[NAMESPACE_BYTES];
    int pid;
    unsigned long long start;
    if (!agent || sscanf(agent, "%d:%llu:%63s", &pid, &start, theirs) != 3 || strcmp(theirs, ours) != 0 ||
        !cl_proc_is_gone(pid, start))
        return false;
    job = cl_env_find(text, length, "CSPEED_JOB_ID");
    snprintf(found->job, sizeof found->job, "%s", job ? job : "");
    return true;
}

/* Returns true if the process is in the namespaces of this process. A process of another container never counts as a
 * leftover process. */
static bool shares_namespaces(pid_t pid, const char *ours)
{
    char process[16], theirs[NAMESPACE_BYTES];
    snprintf(process, sizeof process, "%d", pid);
    return name_namespaces(process, theirs) && strcmp(theirs, ours) == 0;
}

/* Returns true if the process belongs to this user. The user is read from /proc/PID/status, because the owner of the
 * folder /proc/PID is root if the process is not dumpable (prctl, PR_SET_DUMPABLE). */
static bool is_of_this_user(pid_t pid)
{
    char text[STATUS_BYTES];
    unsigned real, effective;
    cl_proc_text(pid, "status", text, sizeof text);
    const char *line = strstr(text, "\nUid:");
    return line && sscanf(line, "\nUid: %u %u", &real, &effective) == 2 && real == geteuid() && effective == geteuid();
}

/* Returns true if the process runs a program named cspeed, whose file may have been deleted or rebuilt since. */
static bool is_cspeed(pid_t pid)
{
    char path[64], program[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    ssize_t length = readlink(path, program, sizeof program - 1);
    program[length < 0 ? 0 : length] = '\0';
    const char *name = strrchr(program, '/');
    return name && (strcmp(name, "/cspeed") == 0 || strcmp(name, "/cspeed (deleted)") == 0);
}

/* Returns true if an ancestor of the process runs the program cspeed. Such a process may belong to another job: a rank
 * has started that job, and the job continues without the rank. Also returns true if an ancestor ends during the check,
 * because the answer is then unknown. */
static bool may_be_of_another_job(pid_t pid)
{
    for (cl_proc here = { .parent = pid }; here.parent > 1;)
        if (is_cspeed(here.parent) || !cl_proc_read(here.parent, &here))
            return true;
    return false;
}

/* The environment is checked first, because few processes have CSPEED_AGENT in their environment. The start time is
 * read between two checks of the environment: if both checks succeed, start time and environment belong to the same
 * process. */
static bool is_leftover(cl_leftover *found, char *text, const char *ours)
{
    if (!has_lost_agent(found, text, ours))
        return false;
    found->start = cl_proc_start(found->pid);
    return found->start && has_lost_agent(found, text, ours) && shares_namespaces(found->pid, ours) &&
           is_of_this_user(found->pid) && !may_be_of_another_job(found->pid);
}

cl_leftover *cl_leftover_find(int *count)
{
    char ours[NAMESPACE_BYTES];
    bool known = is_proc_ours() && name_namespaces("self", ours);
    cl_leftover *list = NULL;
    CE_FREED char *text = ce_must_alloc(ENVIRONMENT_BYTES);
    DIR *folder = known ? opendir("/proc") : NULL;
    *count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        cl_leftover found = { .pid = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0 };
        if (!found.pid || found.pid == getpid() || !is_leftover(&found, text, ours))
            continue;
        cl_proc_text(found.pid, "comm", found.name, sizeof found.name);
        found.name[strcspn(found.name, "\n")] = '\0';
        list = ce_must_resize(list, ((size_t)*count + 1) * sizeof found);
        list[(*count)++] = found;
    }
    if (folder)
        closedir(folder);
    return list;
}

/* Sends a signal through a pid file descriptor. The descriptor is opened before the start time is compared, so that it
 * cannot refer to a later process with the same process id. */
static void send_signal(const cl_leftover *one, int number)
{
    int fd = pidfd_open(one->pid, 0);
    if (fd >= 0 && cl_proc_start(one->pid) == one->start)
        pidfd_send_signal(fd, number, NULL, 0);
    if (fd >= 0)
        close(fd);
}

int cl_leftover_signal(const cl_leftover *list, int count, int number)
{
    int alive = 0;
    for (int i = 0; i < count; i++) {
        if (cl_proc_start(list[i].pid) != list[i].start)
            continue;
        alive++;
        if (number)
            send_signal(&list[i], number);
    }
    return alive;
}

int cl_leftover_await(const cl_leftover *list, int count, double seconds)
{
    int alive = cl_leftover_signal(list, count, 0);
    for (double waited = 0; alive && waited < seconds; waited += 0.02) {
        nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
        alive = cl_leftover_signal(list, count, 0);
    }
    return alive;
}
