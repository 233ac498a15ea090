/* remote_login.h - a session of libssh with a host: connected, its key checked, logged in. */
#ifndef CS_LAUNCHER_REMOTE_LOGIN_H
#define CS_LAUNCHER_REMOTE_LOGIN_H

#include "plan/hosts.h"
#include "wire/link.h"

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

/* What stands for known_hosts where the configuration says that there is to be none. */
#define CS_REMOTE_NO_FILE "/dev/null"

/* Blocks. A new host key is told to `news`. 0, or CS_CODE_HOST, CS_CODE_USAGE, CS_CODE_NO_FILE with a sentence;
 * *session is to be freed in either case when it is not NULL. */
int cs_remote_login(ssh_session *session, const cs_host *host, const cs_options *options, cs_link *news);

/* The host's key against known_hosts, as --host_key says. */
int cs_remote_trust(ssh_session session, const cs_options *options, cs_link *news);

#endif
