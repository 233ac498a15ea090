/* remote.h - a process on another host, over SSH: an agent, or one command line.
 *
 * A carrier, a process of its own, speaks SSH (libssh, or the command of --ssh_cmd) and carries bytes between the
 * remote process and a socket that is polled like any other; whoever opens it gets frames (link.h, not sealed) from it,
 * nothing else. It dies with the process that opened it, and ends when that closes the socket; the remote end then sees
 * the end of its input. When the host cannot be reached, or no agent answers, the carrier sends one CL_LINK_FAILED
 * frame (rank: exit code; bytes: host, what, why and what to do) and ends.
 *
 *     cl_channel channel;
 *     cl_remote_open(&channel, host, options);
 *     cl_link_open(&link, channel.fd, channel.fd, NULL, false);     ... CL_LINK_SAY, CL_LINK_HELLO, ...
 *
 * The remote command line is constant: `exec AGENT_PATH __agent`. What a shell prints before CL_LINK_MAGIC is dropped,
 * and the magic too. CL_LINK_SAY frames may come before the agent's HELLO: a new host key's fingerprint, for instance.
 */
#ifndef CL_REMOTE_H
#define CL_REMOTE_H

#include "plan/hosts.h"

#include <sys/types.h>

typedef struct {
    int fd;    /* a stream socket to the carrier; -1: none */
    pid_t pid; /* the carrier; 0: none                     */
} cl_channel;

/* Both return at once; the connection is made by the carrier. 0 or CL_CODE_SYSTEM. */
int cl_remote_open(cl_channel *channel, const cl_host *host, const cl_options *options);

/* One command line, read by the shell of the host (of this machine, when that is meant): CL_LINK_SAY, then
 * CL_LINK_OUTPUT and CL_LINK_ERROR frames, then CL_LINK_FINISH with its exit code as rank, or CL_LINK_FAILED. */
int cl_remote_command(cl_channel *channel, const cl_host *host, const cl_options *options, const char *command);

#endif
