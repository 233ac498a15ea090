/* remote_login.h - opens a libssh session with a host: connects, verifies the host key, and authenticates. */
#ifndef CL_REMOTE_LOGIN_H
#define CL_REMOTE_LOGIN_H

#include "plan/hosts.h"
#include "wire/link.h"

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

/* This name of the known_hosts file means that no known_hosts file is used. */
#define CL_REMOTE_NO_FILE "/dev/null"

/* Connects and logs in; blocks. A new host key is reported to `messages`. Returns 0, or CL_CODE_HOST, CL_CODE_USAGE or
 * CL_CODE_NO_FILE with a message. In either case, the caller frees *session if it is not NULL. */
int cl_remote_login(ssh_session *session, const cl_host *host, const cl_options *options, cl_link *messages);

/* Verifies the host's key against known_hosts, by the rule that --host_key gives. */
int cl_remote_trust(ssh_session session, const cl_options *options, cl_link *messages);

#endif
