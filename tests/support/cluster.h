/* cluster.h - hosts for tests of the launcher: a private sshd on loopback addresses, or in network namespaces.
 *
 * The user's ~/.ssh is not touched: while a cluster runs, HOME is a temporary folder with a key that the sshd accepts
 * and without known_hosts. Call shell_enter() first, and cluster_stop() before shell_leave().
 *
 *     if (!cluster_start(2, NULL)) return;                       127.0.0.2 and 127.0.0.3
 *     shell_run("cspeed --hosts %s:1,%s:1 --ssh_port %d ...", cluster_host(0), cluster_host(1), cluster_port()); */
#ifndef CS_TESTS_CLUSTER_H
#define CS_TESTS_CLUSTER_H

#include <stdbool.h>

/* Starts the hosts. `lines` is appended to sshd_config and may be NULL. Returns false, after printing the reason, if
 * the machine has no sshd. */
bool cluster_start(int hosts, const char *lines);

/* Starts each host in its own network namespace with its own sshd. The namespaces are connected by veth pairs to a
 * bridge. Returns false if this machine does not allow that. */
bool cluster_start_nets(int hosts, const char *lines);

void cluster_stop(void);
const char *cluster_host(int index); /* the address of host `index`, from 0 */
int cluster_port(void);              /* the port of all hosts' sshd */

/* Writes a hostfile to `path` that gives each host `slots` slots and the port of sshd. */
void cluster_write_hostfile(const char *path, int slots);

/* For network namespaces: cuts the link of a host, restores it, or limits its rate to a number of kbit/s, with a delay
 * if the kernel has netem. cluster_slow returns false if the kernel has neither netem nor tbf. */
void cluster_cut(int index);
void cluster_mend(int index);
bool cluster_slow(int index, int kilobits, int milliseconds);

#endif
