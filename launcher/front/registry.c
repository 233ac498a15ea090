/* registry.c - the entry of a running job in the registry. */
#include "front/registry.h"

#include "ground/codes.h"
#include "node/proc.h"
#include "show/quote.h"
#include "front/registry_read.h"

#include "base/clock.h"
#include "base/must.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* If no file descriptor was free for a client, the socket is not polled for this many nanoseconds. */
#define REST INT64_C(500000000)

enum { CALLERS = 16, TRIES = 3 };

static void socket_path(const char *folder, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.4000s/%d.sock", folder, getpid());
}

static int listen_in(const char *folder)
{
    char path[PATH_MAX];
    socket_path(folder, path);
    unlink(path); /* an earlier process with the same process id may have left the socket */
    int fd = cl_registry_read_socket(folder, getpid(), SOCK_NONBLOCK, bind);
    if (fd < 0 || listen(fd, CALLERS) == 0)
        return fd;
    close(fd);
    return -1;
}

static char *command_of(const cl_plan *plan)
{
    char *text, masked[512];
    bool hide = false;
    FILE *out = ce_must_stream(&text, NULL);
    for (int i = 0; plan->arguments && plan->arguments[i]; i++) {
        if (i)
            putc(' ', out);
        fputs(cl_env_masked(plan->arguments[i], &hide, masked, sizeof masked), out);
    }
    ce_must_finish(out);
    return text;
}

static char *hosts_of(const cl_plan *plan)
{
    char *text;
    FILE *out = ce_must_stream(&text, NULL);
    for (int i = 0; i < plan->node_count; i++)
        fprintf(out, "%s%s", i ? "," : "", plan->nodes[i].host->name);
    ce_must_finish(out);
    return text;
}

static bool write_entry(const cl_plan *plan, const char *run_dir, const char *path)
{
    CE_FREED char *command = command_of(plan), *hosts = hosts_of(plan), *folder = realpath(run_dir, NULL);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (out) {
        fputs("{\"job\": ", out);
        cl_quote(out, plan->id);
        fprintf(out, ", \"pid\": %d, \"start\": %llu, \"since\": %ld, \"ranks\": %d, \"hosts\": ", getpid(),
                cl_proc_start(getpid()), time(NULL), plan->rank_count);
        cl_quote(out, hosts);
        fputs(", \"run_dir\": ", out);
        cl_quote(out, folder ? folder : run_dir);
        fputs(", \"command\": ", out);
        cl_quote(out, command);
        fputs("}\n", out);
    }
    return out && fclose(out) == 0;
}

/* Adds the entry by link(2): the entry appears complete, and only if no entry of that name exists. */
static int enter(const cl_plan *plan, const char *folder, const char *draft)
{
    char path[PATH_MAX];
    cl_registry_job other;
    cl_registry_read_file(folder, plan->id, path);
    for (int i = 0; i < TRIES; i++) {
        if (link(draft, path) == 0)
            return 0;
        if (errno != EEXIST)
            break;
        if (cl_registry_read_entry(path, &other) && cl_registry_read_is_running(&other))
            return cl_codes_fail(CL_CODE_USAGE,
                                 "--job_id: job %s already runs on this machine (pid %d): `cspeed stop %s` ends it; "
                                 "to run both, give this one another --job_id",
                                 plan->id, other.pid, plan->id);
        unlink(path);
    }
    return cl_codes_fail(CL_CODE_SYSTEM, "the list of running jobs: %s cannot be made: %s", path, strerror(errno));
}

int cl_registry_open(cl_registry *registry, const cl_plan *plan, const char *run_dir)
{
    char folder[PATH_MAX], draft[PATH_MAX + 32];
    *registry = (cl_registry){ .fd = -1 };
    int code = cl_registry_read_folder(folder);
    if (code)
        return code;
    snprintf(draft, sizeof draft, "%s/.%d", folder, getpid());
    code = write_entry(plan, run_dir, draft)
               ? enter(plan, folder, draft)
               : cl_codes_fail(CL_CODE_SYSTEM, "the list of running jobs: %s cannot be written: %s", draft,
                               strerror(errno));
    unlink(draft);
    if (code)
        return code;
    snprintf(registry->job, sizeof registry->job, "%s", plan->id);
    registry->fd = listen_in(folder);
    return 0;
}

void cl_registry_forget(cl_registry *registry)
{
    if (registry->fd >= 0)
        close(registry->fd);
    *registry = (cl_registry){ .fd = -1 };
}

void cl_registry_close(cl_registry *registry)
{
    char folder[PATH_MAX], path[PATH_MAX];
    if (*registry->job && cl_registry_read_folder(folder) == 0) {
        cl_registry_read_file(folder, registry->job, path);
        unlink(path);
        socket_path(folder, path);
        unlink(path);
    }
    cl_registry_forget(registry);
}

void cl_registry_answer(cl_registry *registry, const char *state)
{
    int caller = accept4(registry->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int bytes = (int)strlen(state) + 4096;
    if (caller < 0) {
        registry->rests_until = ce_clock_now() + REST;
        return;
    }
    /* the whole text fits into the socket's buffer, so send does not wait for the client */
    setsockopt(caller, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    send(caller, state, strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL);
    close(caller);
}
