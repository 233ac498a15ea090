/* cluster.c - hosts for tests of the launcher: sshd processes on loopback addresses or in network namespaces. */
#include "cluster.h"
#include "ports.h"
#include "suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_HOSTS = 64 };

static struct {
    int hosts, port, net; /* net: third byte of the namespaces' addresses, or 0 with loopback addresses */
    pid_t servers[MAX_HOSTS];
    int server_count;
    char folder[512], names[MAX_HOSTS][32];
    char *home, *agent;
} cluster;

static int __attribute__((format(printf, 1, 2))) quietly(const char *format, ...)
{
    char command[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(command, sizeof command, "exec >/dev/null 2>&1; ");
    vsnprintf(command + length, sizeof command - (size_t)length, format, arguments);
    va_end(arguments);
    return system(command);
}

const char *cluster_host(int index)
{
    return cluster.names[index];
}

int cluster_port(void)
{
    return cluster.port;
}

void cluster_write_hostfile(const char *path, int slots)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < cluster.hosts; i++)
        fprintf(file, "%s slots=%d port=%d\n", cluster.names[i], slots, cluster.port);
    fclose(file);
}

/* ---- sshd ------------------------------------------------------------------------------------- */

static void make_keys(void)
{
    char path[600];
    for (int i = 0; i < 2; i++) {
        static const char *const files[] = { "host_key", ".ssh/id_ed25519" };
        snprintf(path, sizeof path, "%s/.ssh", cluster.folder);
        mkdir(path, 0700);
        ck_assert_int_eq(quietly("ssh-keygen -q -t ed25519 -N '' -f '%s/%s'", cluster.folder, files[i]), 0);
    }
    quietly("cp '%s/.ssh/id_ed25519.pub' '%s/authorized_keys'", cluster.folder, cluster.folder);
}

static void write_config(const char *path, int from, int to, const char *lines)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "Port %d\nHostKey %s/host_key\nAuthorizedKeysFile %s/authorized_keys\n", cluster.port, cluster.folder,
            cluster.folder);
    for (int i = from; i < to; i++)
        fprintf(file, "ListenAddress %s\n", cluster.names[i]);
    fputs("PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nUseDNS no\n"
          "KbdInteractiveAuthentication no\nMaxStartups 200\nPrintMotd no\nLogLevel ERROR\n",
          file);
    fputs(lines ? lines : "", file);
    /* HOME keeps the user's own ~/.bashrc from being executed. Open MPI's daemons of two hosts must not create the same
     * folder at the same time, so each host has its own folder for temporary files of Open MPI. */
    for (int i = from; i < to; i++)
        fprintf(file, "Match LocalAddress %s\nSetEnv HOME=%s OMPI_MCA_orte_tmpdir_base=%s/tmp.%d\n", cluster.names[i],
                cluster.folder, cluster.folder, i);
    fclose(file);
}

static void start_server(int from, int to, const char *lines)
{
    char config[600], namespace[32];
    pid_t parent = getpid();
    snprintf(config, sizeof config, "%s/sshd_config.%d", cluster.folder, from);
    snprintf(namespace, sizeof namespace, "cs%d-%d", cluster.net, from);
    write_config(config, from, to, lines);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char log[600];
        setsid();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        snprintf(log, sizeof log, "%s/sshd.log", cluster.folder);
        if (getppid() != parent || !freopen(log, "a", stderr) || !freopen("/dev/null", "w", stdout))
            _exit(99);
        if (cluster.net)
            execlp("ip", "ip", "netns", "exec", namespace, "/usr/sbin/sshd", "-D", "-e", "-f", config, (char *)NULL);
        execl("/usr/sbin/sshd", "/usr/sbin/sshd", "-D", "-e", "-f", config, (char *)NULL);
        _exit(99);
    }
    cluster.servers[cluster.server_count++] = pid;
}

static bool answers(const char *host)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)cluster.port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, host, &address.sin_addr);
    bool connected = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return connected;
}

static void await_servers(void)
{
    for (int i = 0; i < cluster.hosts; i++)
        for (int turn = 0; !answers(cluster.names[i]); turn++) {
            ck_assert_msg(turn < SUITE_PATIENCE * 50, "sshd does not come up on %s; see %s/sshd.log", cluster.names[i],
                          cluster.folder);
            nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        }
}

static char *swap_variable(const char *name, char *value)
{
    char *old = getenv(name) ? strdup(getenv(name)) : NULL;
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    return old;
}

static bool begin(int hosts)
{
    if (access("/usr/sbin/sshd", X_OK) < 0 || quietly("command -v ssh-keygen")) {
        printf("skipped: no sshd on this machine (openssh-server)\n");
        return false;
    }
    ck_assert_int_le(hosts, MAX_HOSTS);
    memset(&cluster, 0, sizeof cluster);
    cluster.hosts = hosts;
    ck_assert_ptr_nonnull(getcwd(cluster.folder, sizeof cluster.folder - 8));
    strcat(cluster.folder, "/home");
    ck_assert_int_eq(mkdir(cluster.folder, 0700), 0);
    if (getuid() == 0)
        mkdir("/run/sshd", 0755); /* sshd requires this folder when it runs as root */
    make_keys();
    cluster.home = swap_variable("HOME", cluster.folder);
    cluster.agent = swap_variable("SSH_AUTH_SOCK", NULL);
    return true;
}

bool cluster_start(int hosts, const char *lines)
{
    if (!begin(hosts))
        return false;
    for (int i = 0; i < hosts; i++)
        snprintf(cluster.names[i], sizeof *cluster.names, "127.0.0.%d", i + 2);
    cluster.port = ports_free(cluster.names[0]);
    start_server(0, hosts, lines);
    await_servers();
    return true;
}

/* ---- namespaces ------------------------------------------------------------------------------- */

static int remove_nets(void)
{
    for (int i = 0; i < cluster.hosts; i++) /* a process that remains would keep the namespace and its link */
        quietly("ip netns pids cs%d-%d | xargs -r kill -9; ip link delete csv%d-%d; ip netns delete cs%d-%d",
                cluster.net, i, cluster.net, i, cluster.net, i);
    return quietly("ip link delete csb%d", cluster.net);
}

static int add_net(int i)
{
    int net = cluster.net;
    return quietly("ip netns add cs%d-%d && ip link add csv%d-%d type veth peer name eth0 netns cs%d-%d && "
                   "ip link set csv%d-%d master csb%d up && ip -n cs%d-%d address add %s/24 dev eth0 && "
                   "ip -n cs%d-%d link set eth0 up && ip -n cs%d-%d link set lo up",
                   net, i, net, i, net, i, net, i, net, net, i, cluster.names[i], net, i, net, i);
}

bool cluster_start_nets(int hosts, const char *lines)
{
    int failed;
    if (getuid() != 0 || quietly("ip netns list")) {
        printf("skipped: network namespaces need root and iproute2\n");
        return false;
    }
    if (!begin(hosts))
        return false;
    cluster.net = 1 + getpid() % 250;
    cluster.port = 22;
    failed = quietly("ip link add csb%d type bridge && ip address add 10.213.%d.1/24 dev csb%d && ip link set csb%d up",
                     cluster.net, cluster.net, cluster.net, cluster.net);
    for (int i = 0; i < hosts && !failed; i++) {
        snprintf(cluster.names[i], sizeof *cluster.names, "10.213.%d.%d", cluster.net, i + 2);
        failed = add_net(i);
    }
    if (failed) {
        printf("skipped: this machine makes no network namespaces with veth\n");
        cluster_stop();
        return false;
    }
    for (int i = 0; i < hosts; i++)
        start_server(i, i + 1, lines);
    await_servers();
    return true;
}

void cluster_cut(int index)
{
    ck_assert_int_eq(quietly("ip link set csv%d-%d down", cluster.net, index), 0);
}

void cluster_mend(int index)
{
    ck_assert_int_eq(quietly("ip link set csv%d-%d up", cluster.net, index), 0);
}

/* If the kernel has no netem, only the rate is limited. */
static bool shape(const char *where, const char *device, int kilobits, int milliseconds)
{
    return quietly("tc %s qdisc replace dev %s root netem rate %dkbit delay %dms || "
                   "tc %s qdisc replace dev %s root tbf rate %dkbit burst 8kb latency 1s",
                   where, device, kilobits, milliseconds, where, device, kilobits) == 0;
}

bool cluster_slow(int index, int kilobits, int milliseconds)
{
    char ours[32], its[32];
    snprintf(ours, sizeof ours, "csv%d-%d", cluster.net, index);
    snprintf(its, sizeof its, "-n cs%d-%d", cluster.net, index);
    return shape("", ours, kilobits, milliseconds) && shape(its, "eth0", kilobits, milliseconds);
}

void cluster_stop(void)
{
    for (int i = 0; i < cluster.server_count; i++) {
        kill(cluster.servers[i], SIGTERM);
        waitpid(cluster.servers[i], NULL, 0);
    }
    if (cluster.net)
        remove_nets();
    free(swap_variable("HOME", cluster.home));
    free(swap_variable("SSH_AUTH_SOCK", cluster.agent));
    free(cluster.home);
    free(cluster.agent);
    cluster.hosts = cluster.server_count = 0;
}
