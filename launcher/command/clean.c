/* clean.c - the command that looks for what jobs have left behind on this machine, and ends it.
 *
 * A process is a leftover when it carries CSPEED_JOB_ID, belongs to this user, its job's front does not run here, and
 * no cspeed stands above it: on other nodes of a job the agent does. Never by the name of a program. */
#include "argument.h"
#include "codes.h"
#include "command.h"
#include "front/roster.h"

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

enum { GRACE_SECONDS = 5, ENVIRONMENT_BYTES = 256 << 10 };

typedef struct {
    pid_t              pid;
    unsigned long long start;
    char               job[64], name[32];
} leftover;

typedef struct {
    leftover      *list;
    int            count;
    cs_roster_job *jobs; /* those that run */
    int            job_count;
} survey;

/* A whole file of /proc; returns its length. */
static size_t read_file(pid_t pid, const char *file, char *text, size_t room)
{
    char   path[64];
    size_t length = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    FILE *in = fopen(path, "re");
    if (in) {
        length = fread(text, 1, room - 1, in);
        fclose(in);
    }
    text[length] = '\0';
    return length;
}

/* The value of CSPEED_JOB_ID; false: it has none. */
static bool job_of(pid_t pid, char job[64])
{
    static const char variable[] = "CSPEED_JOB_ID=";
    char             *text       = malloc(ENVIRONMENT_BYTES);
    size_t            length     = text ? read_file(pid, "environ", text, ENVIRONMENT_BYTES) : 0;
    bool              found      = false;
    for (const char *at = text; length && at < text + length && !found; at += strlen(at) + 1) {
        found = strncmp(at, variable, sizeof variable - 1) == 0;
        if (found)
            snprintf(job, 64, "%s", at + sizeof variable - 1);
    }
    free(text);
    return found && *job;
}

static pid_t parent_of(pid_t pid)
{
    char text[1024];
    int  parent = 0;
    read_file(pid, "stat", text, sizeof text);
    const char *after = strrchr(text, ')');
    return after && sscanf(after + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Whether its program is this one, though the file may have been built anew since. */
static bool is_cspeed(pid_t pid)
{
    char path[64], program[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    ssize_t     length = readlink(path, program, sizeof program - 1);
    const char *name;
    program[length < 0 ? 0 : length] = '\0';
    name                             = strrchr(program, '/');
    return name && (strcmp(name, "/cspeed") == 0 || strcmp(name, "/cspeed (deleted)") == 0);
}

static bool is_supervised(pid_t pid)
{
    bool found = false;
    for (pid_t above = parent_of(pid); above > 1 && !found; above = parent_of(above))
        found = is_cspeed(above);
    return found;
}

static bool runs_here(const survey *all, const char *job)
{
    bool found = false;
    for (int i = 0; i < all->job_count; i++)
        found |= strcmp(all->jobs[i].job, job) == 0;
    return found;
}

static bool is_leftover(const survey *all, pid_t pid, leftover *found)
{
    char        path[64];
    struct stat owner;
    snprintf(path, sizeof path, "/proc/%d", pid);
    *found = (leftover){ .pid = pid, .start = cs_roster_start(pid) };
    return stat(path, &owner) == 0 && owner.st_uid == geteuid() && pid != getpid() && found->start &&
           job_of(pid, found->job) && !runs_here(all, found->job) && !is_cspeed(pid) && !is_supervised(pid);
}

static void look(survey *all)
{
    leftover found;
    DIR     *folder = opendir("/proc");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (!isdigit((unsigned char)*entry->d_name) || !is_leftover(all, atoi(entry->d_name), &found))
            continue;
        read_file(found.pid, "comm", found.name, sizeof found.name);
        found.name[strcspn(found.name, "\n")] = '\0';
        leftover *larger                      = realloc(all->list, ((size_t)all->count + 1) * sizeof found);
        if (!larger)
            break;
        all->list               = larger;
        all->list[all->count++] = found;
    }
    if (folder)
        closedir(folder);
}

/* The process behind the descriptor is that of the list, since the descriptor was opened before its start was compared.
 */
static void send_signal(const leftover *one, int number)
{
    int fd = pidfd_open(one->pid, 0);
    if (fd >= 0 && cs_roster_start(one->pid) == one->start)
        pidfd_send_signal(fd, number, NULL, 0);
    if (fd >= 0)
        close(fd);
}

/* Signals those that still run; returns how many do. */
static int signal_all(const survey *all, int number)
{
    int alive = 0;
    for (int i = 0; i < all->count; i++) {
        if (cs_roster_start(all->list[i].pid) != all->list[i].start)
            continue;
        alive++;
        if (number)
            send_signal(&all->list[i], number);
    }
    return alive;
}

static int await_end(const survey *all, double seconds)
{
    int alive = signal_all(all, 0);
    for (double waited = 0; alive && waited < seconds; waited += 0.02) {
        nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
        alive = signal_all(all, 0);
    }
    return alive;
}

static int end_all(const survey *all)
{
    signal_all(all, SIGTERM);
    signal_all(all, SIGCONT);
    if (await_end(all, GRACE_SECONDS))
        signal_all(all, SIGKILL);
    int alive = await_end(all, GRACE_SECONDS);
    printf("%d ended\n", all->count - alive);
    return alive ? cs_codes_fail(CS_CODE_SYSTEM, "%d of them do not end, though SIGKILL was sent", alive) : 0;
}

static int run(const cs_options *options, char **arguments)
{
    survey all   = { 0 };
    bool   yes   = false;
    int    swept = 0, code;
    (void)options;
    while (*arguments)
        if (!cs_argument_is(&arguments, "--yes"))
            return cs_codes_fail(CS_CODE_USAGE, "clean: \"%s\" is unexpected", *arguments);
        else
            yes = true;
    code = cs_roster_list(&all.jobs, &all.job_count, &swept);
    if (code)
        return code;
    look(&all);
    if (swept)
        printf("%d stale file%s of the registry removed\n", swept, swept == 1 ? "" : "s");
    for (int i = 0; i < all.count; i++)
        printf("left behind by job %s: pid %d (%s)\n", all.list[i].job, all.list[i].pid, all.list[i].name);
    if (!all.count)
        printf("no process is left behind\n");
    else if (!yes)
        printf("`cspeed clean --yes` ends %s\n", all.count == 1 ? "it" : "them");
    else
        code = end_all(&all);
    free(all.list);
    free(all.jobs);
    return code;
}

const cs_command cs_command_clean = {
    .name    = "clean",
    .group   = "Start",
    .summary = "find what jobs have left behind here, and end it",
    .usage   = "cspeed clean [--yes]",
    .text =
        "Lists processes of yours on this machine that carry the id of a job (CSPEED_JOB_ID) which no cspeed watches\n"
        "over any more; --yes ends them: SIGTERM, five seconds, SIGKILL. Entries of jobs that are gone are removed "
        "from\n"
        "the registry.\n",
    .example = "cspeed clean --yes",
    .run     = run,
};
