/* remote_login.h - Opens a libssh session with a host: connected, host key verified, authenticated. */
#ifndef CL_REMOTE_LOGIN_H
#define CL_REMOTE_LOGIN_H

#include "plan/hosts.h"
#include "wire/link.h"

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

/* The name of the known_hosts file if the configuration says that there is none. */
#define CL_REMOTE_NO_FILE "/dev/null"

/* Connects and logs in; blocks. A new host key is reported to `messages`. Returns 0, or CL_CODE_HOST, CL_CODE_USAGE,
 * CL_CODE_NO_FILE with a message. The caller frees *session in either case, if it is not NULL. */
int cl_remote_login(ssh_session *session, const cl_host *host, const cl_options *options, cl_link *messages);

/* Verifies the host's key against known_hosts under the rule of --host_key. */
int cl_remote_trust(ssh_session session, const cl_options *options, cl_link *messages);

#endif
