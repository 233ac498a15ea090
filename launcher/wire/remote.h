/* remote.h - starts a process on another host over SSH: an agent, or one command line.
 *
 * A carrier process uses SSH (libssh, or the command of --ssh_cmd) and forwards bytes between the remote process and a
 * stream socket. The caller polls this socket and receives only frames from it (link.h, not sealed). The carrier is
 * killed when the caller dies, and ends when the caller closes the socket. In both cases the remote process sees the
 * end of its input. If the host cannot be reached, or no agent answers, the carrier sends one CL_LINK_FAILED frame
 * (rank: exit code; bytes: host, failure, reason, and what to do) and ends.
 *
 *     cl_channel channel;
 *     cl_remote_open(&channel, host, options);
 *     cl_link_open(&link, channel.fd, channel.fd, NULL, false); ... CL_LINK_SAY, CL_LINK_HELLO, ...
 *
 * The remote command line is always `exec AGENT_PATH __agent`. The bytes up to and including CL_LINK_MAGIC are dropped:
 * they are output of a login shell. CL_LINK_SAY frames may arrive before the agent's HELLO, for example with the
 * fingerprint of a new host key. */
#ifndef CL_REMOTE_H
#define CL_REMOTE_H

#include "plan/hosts.h"

#include <sys/types.h>

typedef struct {
    int fd;    /* the stream socket to the carrier; -1: it is closed */
    pid_t pid; /* process id of the carrier; 0: none */
} cl_channel;

/* cl_remote_open and cl_remote_command return at once, and the carrier then makes the connection. Both return 0 or
 * CL_CODE_SYSTEM. */
int cl_remote_open(cl_channel *channel, const cl_host *host, const cl_options *options);

/* Runs one command line in the shell of the host, which may be this machine. The frames are CL_LINK_SAY, CL_LINK_OUTPUT
 * and CL_LINK_ERROR. The last frame is CL_LINK_FINISH, whose field `rank` has the exit code, or CL_LINK_FAILED. */
int cl_remote_command(cl_channel *channel, const cl_host *host, const cl_options *options, const char *command);

#endif
