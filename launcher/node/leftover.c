/* leftover.c - processes whose agent is gone. */
#include "node/leftover.h"

#include "node/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ENVIRONMENT_BYTES = 256 << 10, NAMESPACE_BYTES = 64 };

void cs_leftover_mark(pid_t agent, char text[64])
{
    snprintf(text, 64, "%d:%llu", agent, cs_proc_start(agent));
}

/* A whole file of /proc/PID; returns its length. */
static size_t read_file(pid_t pid, const char *file, char *text, size_t room)
{
    char   path[64];
    size_t length = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t part = 1; fd >= 0 && part > 0 && length<room - 1; length += part> 0 ? (size_t)part : 0)
        part = read(fd, text + length, room - 1 - length);
    if (fd >= 0)
        close(fd);
    text[length] = '\0';
    return length;
}

/* The value of a variable in an environment as /proc shows it; NULL: it has none. */
static const char *find_variable(const char *text, size_t length, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *at = text; at < text + length; at += strlen(at) + 1)
        if (strncmp(at, name, bytes) == 0 && at[bytes] == '=')
            return at + bytes + 1;
    return NULL;
}

/* Whether its environment names an agent that is gone; the job goes into found->job. */
static bool has_lost_agent(cs_leftover *found, char *text)
{
    size_t             length = read_file(found->pid, "environ", text, ENVIRONMENT_BYTES);
    const char        *agent  = find_variable(text, length, "CSPEED_AGENT"), *job;
    int                pid;
    unsigned long long start;
    if (!agent || sscanf(agent, "%d:%llu", &pid, &start) != 2 || cs_proc_start(pid) == start)
        return false;
    job = find_variable(text, length, "CSPEED_JOB_ID");
    snprintf(found->job, sizeof found->job, "%s", job ? job : "");
    return true;
}

/* The pid that an agent has is one of its own pid namespace: a process of a container is not ours to judge. */
static bool shares_namespace(pid_t pid)
{
    char    path[64], theirs[NAMESPACE_BYTES], ours[NAMESPACE_BYTES];
    ssize_t length = readlink("/proc/self/ns/pid", ours, sizeof ours);
    snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
    return length > 0 && readlink(path, theirs, sizeof theirs) == length && memcmp(ours, theirs, (size_t)length) == 0;
}

/* Whether its program is this one, though the file may have been built anew since. */
static bool is_cspeed(pid_t pid)
{
    char path[64], program[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    ssize_t length                   = readlink(path, program, sizeof program - 1);
    program[length < 0 ? 0 : length] = '\0';
    const char *name                 = strrchr(program, '/');
    return name && (strcmp(name, "/cspeed") == 0 || strcmp(name, "/cspeed (deleted)") == 0);
}

/* A job that a rank has started is a job of its own, which goes on without that rank. */
static bool is_of_another_job(pid_t pid)
{
    cs_proc here    = { .parent = pid };
    bool    another = false;
    while (!another && here.parent > 1) {
        another = is_cspeed(here.parent);
        if (!cs_proc_read(here.parent, &here))
            break;
    }
    return another;
}

/* Few processes name an agent, so that is looked at first; then again behind the start, which makes it the same process
 * that will be signalled. */
static bool is_leftover(cs_leftover *found, char *text)
{
    char        path[64];
    struct stat owner;
    snprintf(path, sizeof path, "/proc/%d", found->pid);
    if (stat(path, &owner) < 0 || owner.st_uid != geteuid() || !has_lost_agent(found, text))
        return false;
    found->start = cs_proc_start(found->pid);
    return found->start && has_lost_agent(found, text) && shares_namespace(found->pid) &&
           !is_of_another_job(found->pid);
}

cs_leftover *cs_leftover_find(int *count)
{
    cs_leftover *list   = NULL;
    char        *text   = malloc(ENVIRONMENT_BYTES);
    DIR         *folder = text ? opendir("/proc") : NULL;
    *count              = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        cs_leftover found = { .pid = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0 };
        if (!found.pid || found.pid == getpid() || !is_leftover(&found, text))
            continue;
        read_file(found.pid, "comm", found.name, sizeof found.name);
        found.name[strcspn(found.name, "\n")] = '\0';
        cs_leftover *larger                   = realloc(list, ((size_t)*count + 1) * sizeof found);
        if (!larger)
            break;
        list             = larger;
        list[(*count)++] = found;
    }
    if (folder)
        closedir(folder);
    free(text);
    return list;
}

/* The process behind the descriptor is that of the list, since the descriptor was opened before its start was compared.
 */
static void send_signal(const cs_leftover *one, int number)
{
    int fd = pidfd_open(one->pid, 0);
    if (fd >= 0 && cs_proc_start(one->pid) == one->start)
        pidfd_send_signal(fd, number, NULL, 0);
    if (fd >= 0)
        close(fd);
}

int cs_leftover_signal(const cs_leftover *list, int count, int number)
{
    int alive = 0;
    for (int i = 0; i < count; i++) {
        if (cs_proc_start(list[i].pid) != list[i].start)
            continue;
        alive++;
        if (number)
            send_signal(&list[i], number);
    }
    return alive;
}

int cs_leftover_await(const cs_leftover *list, int count, double seconds)
{
    int alive = cs_leftover_signal(list, count, 0);
    for (double waited = 0; alive && waited < seconds; waited += 0.02) {
        nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
        alive = cs_leftover_signal(list, count, 0);
    }
    return alive;
}
