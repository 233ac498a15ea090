/* starter.c - starts agents with mpirun or srun. The parameters of the agents are environment variables, which mpirun
 * and srun pass on:
 *
 *     CSPEED_JOIN    ADDRESS PORT DIGEST PATIENCE JOB NODE=HOST,NODE=HOST...
 *     CSPEED_SECRET  the secret of this job
 *
 * With mpirun, the i-th process is the agent of the i-th node of that list. Slurm reorders the processes, so a process
 * that srun has started finds its node in the list by the name of its host. */
#include "wire/starter.h"

#include "ground/codes.h"
#include "ground/descriptors.h"
#include "ground/programs.h"
#include "wire/words.h"

#include "base/must.h"
#include "security/mac.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { JOIN_BYTES = 64 << 10 };

void cl_starter_secret(void)
{
    unsigned char random[CE_MAC_BYTES];
    char text[CE_MAC_DIGEST];
    ce_mac_random(random, sizeof random);
    ce_mac_digest(text, random, sizeof random);
    setenv("CSPEED_SECRET", text, 1);
    ce_mac_forget(random, sizeof random);
    ce_mac_forget(text, sizeof text);
}

/* ---- the parameters of the agents ---- */

static const cl_host *first_elsewhere(const cl_plan *plan)
{
    for (int i = 0; i < plan->node_count; i++)
        if (!plan->nodes[i].here)
            return plan->nodes[i].host;
    return NULL;
}

/* Finds this machine's address on the route to a host (to the first of its addresses that has a route), by connecting a datagram socket (which sends nothing). */
static int find_address(const cl_host *host, char text[INET6_ADDRSTRLEN])
{
    struct addrinfo *all = NULL, hints = { .ai_socktype = SOCK_DGRAM };
    struct sockaddr_storage local;
    socklen_t length = sizeof local;
    int unresolved = getaddrinfo(cl_hosts_address(host), "9", &hints, &all);
    if (unresolved)
        return cl_codes_fail(CL_CODE_HOST, "%s: the name cannot be resolved: %s", host->name, gai_strerror(unresolved));
    bool found = false;
    for (const struct addrinfo *a = all; a && !found; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        found = fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
                getsockname(fd, (struct sockaddr *)&local, &length) == 0 &&
                getnameinfo((struct sockaddr *)&local, length, text, INET6_ADDRSTRLEN, NULL, 0, NI_NUMERICHOST) == 0;
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(all);
    return found ? 0
                 : cl_codes_fail(CL_CODE_HOST,
                                 "%s: there is no route to it: %s; --master_addr sets the address at which its agent "
                                 "finds this machine",
                                 host->name, strerror(errno));
}

static int set_join_variable(const cl_plan *plan, int port)
{
    static char text[JOIN_BYTES];
    char found[INET6_ADDRSTRLEN] = "";
    const char *address = plan->master_addr;
    int code = *address ? 0 : find_address(first_elsewhere(plan), found);
    if (code)
        return code;
    int used = snprintf(text, sizeof text, "%s %d %llx %.0f %s ", *address ? address : found, port,
                        cl_hostplan_digest(plan), plan->options->rdzv_timeout, plan->id);
    for (int i = 0; i < plan->node_count && used < JOIN_BYTES; i++)
        if (!plan->nodes[i].here)
            used += snprintf(text + used, (size_t)(JOIN_BYTES - used), "%d=%s,",
                             (int)(plan->nodes[i].host - plan->hosts.list), plan->nodes[i].host->name);
    if (used >= JOIN_BYTES || setenv("CSPEED_JOIN", text, 1))
        return cl_codes_fail(CL_CODE_SYSTEM, "the names of the hosts are too long for one environment variable");
    return 0;
}

/* ---- the command lines ---- */

static void add_agent(cl_words *words, const cl_plan *plan)
{
    char self[PATH_MAX];
    cl_programs_self(self);
    cl_words_add(words, "%s", plan->options->agent_path ? plan->options->agent_path : self);
    cl_words_add(words, "__agent");
    cl_words_add(words, "--join");
}

static void add_hosts(cl_words *words, const cl_plan *plan, const char *format)
{
    static char text[JOIN_BYTES]; /* the buffer has room for the longest text that set_join_variable() accepts */
    int used = 0;
    for (int i = 0; i < plan->node_count; i++)
        if (!plan->nodes[i].here && used < JOIN_BYTES)
            used += snprintf(text + used, (size_t)(JOIN_BYTES - used), "%s%s", used ? "," : "",
                             cl_hosts_address(plan->nodes[i].host));
    cl_words_add(words, "%s%s", format, text);
}

/* Writes Open MPI's command line. It has one app context for each node, so that the i-th process runs on the i-th host
 * under any mapping policy. */
static void write_openmpi(cl_words *words, const cl_plan *plan, int count, char **more)
{
    static const char *const fixed[] = { "--bind-to", "none", NULL };
    static const char *const each[] = { "-x", "CSPEED_JOIN", "-x", "CSPEED_SECRET", "-n", "1", "--host", NULL };
    (void)count;
    cl_words_add_all(words, fixed);
    cl_words_add_all(words, (const char *const *)more);
    for (int i = 0, first = 1; i < plan->node_count; i++) {
        if (plan->nodes[i].here)
            continue;
        if (!first)
            cl_words_add(words, ":");
        first = 0;
        cl_words_add_all(words, each);
        cl_words_add(words, "%s", cl_hosts_address(plan->nodes[i].host));
        add_agent(words, plan);
    }
}

/* Writes MPICH's command line. MPICH's starter, Hydra, sends the whole environment over its own connection. */
static void write_mpich(cl_words *words, const cl_plan *plan, int count, char **more)
{
    cl_words_add(words, "-hosts");
    add_hosts(words, plan, "");
    cl_words_add(words, "-ppn");
    cl_words_add(words, "1");
    cl_words_add(words, "-n");
    cl_words_add(words, "%d", count);
    cl_words_add_all(words, (const char *const *)more);
    add_agent(words, plan);
}

static void write_slurm(cl_words *words, const cl_plan *plan, int count, char **more)
{
    static const char *const fixed[] = { "--ntasks-per-node=1", "--cpu-bind=none",      "--mpi=none", "--export=ALL",
                                         "--input=none",        "--kill-on-bad-exit=0", NULL };
    cl_words_add(words, "--nodes=%d", count);
    cl_words_add(words, "--ntasks=%d", count);
    add_hosts(words, plan, "--nodelist=");
    cl_words_add_all(words, fixed);
    cl_words_add_all(words, (const char *const *)more);
    add_agent(words, plan);
}

static const struct {
    int launcher;
    const char *name, *package, *programs[3];
    void (*write)(cl_words *words, const cl_plan *plan, int count, char **more);
} starters[] = {
    { CL_BY_OPENMPI, "openmpi", "openmpi-bin", { "mpirun.openmpi", "mpirun" }, write_openmpi },
    { CL_BY_MPICH, "mpich", "mpich", { "mpiexec.hydra", "mpirun.mpich", "mpirun" }, write_mpich },
    { CL_BY_SLURM, "slurm", "slurm-client", { "srun" }, write_slurm },
};

/* ---- mpirun or srun ---- */

static const char *find_program(const char *const programs[3])
{
    const char *path = getenv("PATH");
    char full[4096];
    for (int i = 0; i < 3 && programs[i]; i++)
        for (const char *folder = path ? path : "/usr/bin:/bin"; folder;) {
            size_t length = strcspn(folder, ":");
            snprintf(full, sizeof full, "%.*s/%s", (int)length, folder, programs[i]);
            if (access(full, X_OK) == 0)
                return programs[i];
            folder = folder[length] ? folder + length + 1 : NULL;
        }
    return NULL;
}

int cl_starter_find(const char **program, int launcher)
{
    int which = 0;
    while (starters[which].launcher != launcher)
        which++;
    *program = find_program(starters[which].programs);
    return *program ? 0
                    : cl_codes_fail(CL_CODE_NOT_FOUND, "--launcher %s: there is no %s in PATH (Debian: apt install %s)",
                                    starters[which].name, starters[which].programs[0], starters[which].package);
}

void cl_starter_allow_root(void)
{
    if (geteuid() != 0)
        return;
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

static void become(char **argv, pid_t parent)
{
    sigset_t none;
    int empty = open("/dev/null", O_RDONLY);
    setsid();
    /* the parent's death sends SIGTERM and not SIGKILL, because mpirun or srun must then end its agents */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(CL_CODE_SYSTEM);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    dup2(empty, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* the stdout of this process is reserved for the ranks' output */
    close_range(3, ~0U, 0);
    cl_starter_allow_root();
    cl_descriptors_restore();
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "cspeed: %s: %s\n", argv[0], strerror(errno));
    _exit(CL_CODE_NOT_FOUND);
}

/* Refuses flags that have an effect only when the launcher itself uses SSH. */
static int refuse_ssh(const cl_options *options, const char *name)
{
    const struct {
        bool given;
        const char *flag;
    } flags[] = { { options->ssh_port != 0, "--ssh_port" },
                  { options->ssh_user, "--ssh_user" },
                  { options->ssh_key, "--ssh_key" },
                  { options->ssh_cmd, "--ssh_cmd" },
                  { options->ssh_config, "--ssh_config" } };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].given)
            return cl_codes_fail(CL_CODE_USAGE,
                                 "not supported: %s with --launcher %s, because that program makes its own "
                                 "connections to the hosts; configure it in ~/.ssh/config or --launcher_args",
                                 flags[i].flag, name);
    return 0;
}

static int start(pid_t *pid, const cl_plan *plan, int count, int which)
{
    CE_CLOSED(cl_words_free) cl_words more = { 0 }, words = { 0 };
    const char *program;
    int code = cl_starter_find(&program, starters[which].launcher);
    if (code == 0)
        code = cl_words_split(&more, "--launcher_args", plan->options->launcher_args);
    if (code)
        return code;
    cl_words_add(&words, "%s", program);
    starters[which].write(&words, plan, count, more.list);
    if (plan->options->verbose)
        cl_words_print(&words);
    pid_t parent = getpid();
    *pid = fork();
    if (*pid == 0)
        become(words.list, parent);
    return *pid > 0 ? 0 : cl_codes_fail(CL_CODE_SYSTEM, "%s cannot be started: %s", program, strerror(errno));
}

int cl_starter_open(pid_t *pid, const cl_plan *plan, int port)
{
    int count = 0, which = 0;
    *pid = 0;
    for (int i = 0; i < plan->node_count; i++)
        count += !plan->nodes[i].here;
    if (count == 0)
        return 0;
    while (starters[which].launcher != plan->launcher)
        which++;
    int code = refuse_ssh(plan->options, starters[which].name);
    if (code == 0)
        code = set_join_variable(plan, port);
    if (code == 0)
        code = start(pid, plan, count, which);
    unsetenv("CSPEED_JOIN");
    return code;
}
