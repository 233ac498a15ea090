/* cluster.h - hosts for tests of the launcher: a private sshd on loopback addresses, or in network namespaces.
 *
 * Nothing of the user's ~/.ssh is touched: HOME is a folder of the test's own while a cluster runs, with a key that the
 * sshd takes and no known_hosts. Call shell_enter() first; cluster_stop() before shell_leave().
 *
 *     if (!cluster_start(2, NULL)) return;                       127.0.0.2 and 127.0.0.3
 *     shell_run("cspeed --hosts %s:1,%s:1 --ssh_port %d ...", cluster_host(0), cluster_host(1), cluster_port()); */
#ifndef CS_TESTS_CLUSTER_H
#define CS_TESTS_CLUSTER_H

#include <stdbool.h>

/* `lines` is added to sshd_config; may be NULL. False, and the reason printed, where the machine has no sshd. */
bool cluster_start(int hosts, const char *lines);

/* The same with a network namespace a host, joined by veth to a bridge of ours, each with its own sshd. False where
 * this machine does not allow that. */
bool cluster_start_nets(int hosts, const char *lines);

void cluster_stop(void);
const char *cluster_host(int index); /* its address */
int cluster_port(void);              /* of sshd     */

/* A hostfile with `slots` slots a host, and the port; written to `path`. */
void cluster_write_hostfile(const char *path, int slots);

/* Of namespaces: the host's link is cut, or mended; or lets through so many kbit a second, with a delay where the
 * kernel has netem; false where it can do neither. */
void cluster_cut(int index);
void cluster_mend(int index);
bool cluster_slow(int index, int kilobits, int milliseconds);

#endif
