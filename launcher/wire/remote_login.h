/* remote_login.h - a session of libssh with a host: connected, its key checked, logged in. */
#ifndef CL_REMOTE_LOGIN_H
#define CL_REMOTE_LOGIN_H

#include "plan/hosts.h"
#include "wire/link.h"

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

/* What stands for known_hosts where the configuration says that there is to be none. */
#define CL_REMOTE_NO_FILE "/dev/null"

/* Blocks. A new host key is told to `news`. 0, or CL_CODE_HOST, CL_CODE_USAGE, CL_CODE_NO_FILE with a sentence;
 * *session is to be freed in either case when it is not NULL. */
int cl_remote_login(ssh_session *session, const cl_host *host, const cl_options *options, cl_link *news);

/* The host's key against known_hosts, as --host_key says. */
int cl_remote_trust(ssh_session session, const cl_options *options, cl_link *news);

#endif
