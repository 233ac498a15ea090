/* remote_login.c - connects to a host with libssh, and authenticates there. */
#include "ground/codes.h"
#include "wire/remote_login.h"

#include "base/inet.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECT_SECONDS = 15, SESSION_SECONDS = 30 };

static const char *home(void)
{
    const char *home = getenv("HOME");
    const struct passwd *entry = home && *home ? NULL : getpwuid(getuid());
    return home && *home ? home : entry ? entry->pw_dir : "";
}

/* ---- configuration ---- */

static int refuse_proxy(ssh_session session)
{
    char *proxy = NULL;
    if (ssh_options_get(session, SSH_OPTIONS_PROXYCOMMAND, &proxy) != SSH_OK || !proxy)
        return 0;
    ssh_string_free_char(proxy);
    return cl_codes_fail(CL_CODE_USAGE,
                         "not supported: ProxyJump and ProxyCommand of the ssh configuration, because libssh does "
                         "not have them; --ssh_cmd ssh uses OpenSSH, which has them");
}

/* In ssh_config(5), "UserKnownHostsFile none" means that no such file is read or written. libssh would instead use a
 * file with the name "none". */
static void ignore_known_hosts(ssh_session session)
{
    char *file = NULL;
    if (ssh_options_get(session, SSH_OPTIONS_KNOWNHOSTS, &file) == SSH_OK && strcasecmp(file, "none") == 0)
        ssh_options_set(session, SSH_OPTIONS_KNOWNHOSTS, CL_REMOTE_NO_FILE);
    ssh_string_free_char(file);
}

static int read_configuration(ssh_session session, const cl_options *options)
{
    const char *file = options->ssh_config;
    if (file && access(file, R_OK) < 0)
        return cl_codes_fail(CL_CODE_NO_FILE, "--ssh_config %s: %s", file, strerror(errno));
    if (ssh_options_parse_config(session, file) < 0)
        return cl_codes_fail(CL_CODE_FILE, "%s: %s", file ? file : "~/.ssh/config", ssh_get_error(session));
    ignore_known_hosts(session);
    return refuse_proxy(session);
}

/* Sets the session's options. The hostfile overrides the flags, and the flags override ssh's configuration. */
static int set_up(ssh_session session, const cl_host *host, const cl_options *options)
{
    char folder[4096], known[4096];
    long seconds = SESSION_SECONDS;
    const char *user = host->user ? host->user : options->ssh_user;
    int port = host->port ? host->port : options->ssh_port;
    snprintf(folder, sizeof folder, "%s/.ssh", home());
    snprintf(known, sizeof known, "%.4000s/known_hosts", folder);
    ssh_options_set(session, SSH_OPTIONS_SSH_DIR, folder);
    ssh_options_set(session, SSH_OPTIONS_KNOWNHOSTS, known);
    ssh_options_set(session, SSH_OPTIONS_TIMEOUT, &seconds);
    if (ssh_options_set(session, SSH_OPTIONS_HOST, host->name) < 0)
        return cl_codes_fail(CL_CODE_FILE, "this is not the name of a host");
    int code = read_configuration(session, options);
    if (code)
        return code;
    if (options->ssh_key && access(options->ssh_key, R_OK) < 0)
        return cl_codes_fail(CL_CODE_NO_FILE, "--ssh_key %s: %s", options->ssh_key, strerror(errno));
    if (options->ssh_key)
        ssh_options_set(session, SSH_OPTIONS_ADD_IDENTITY, options->ssh_key);
    if (host->address)
        ssh_options_set(session, SSH_OPTIONS_HOST, host->address);
    if (user)
        ssh_options_set(session, SSH_OPTIONS_USER, user);
    if (port)
        ssh_options_set(session, SSH_OPTIONS_PORT, &(unsigned){ (unsigned)port });
    return 0;
}

/* ---- connection ---- */

static int explain_refusal(const char *name, unsigned port, int reason)
{
    if (reason == ECONNREFUSED)
        return cl_codes_fail(CL_CODE_HOST,
                             "%s port %u: connection refused; check that sshd is running there, on this port "
                             "(--ssh_port, or port= in the hostfile)",
                             name, port);
    if (reason == ETIMEDOUT)
        return cl_codes_fail(CL_CODE_HOST,
                             "%s port %u: no answer; check that the host is up, and that no firewall blocks port %u",
                             name, port, port);
    return cl_codes_fail(CL_CODE_HOST, "%s port %u: %s", name, port, strerror(reason));
}

static int call(ssh_session session, int *fd)
{
    struct addrinfo *addresses = NULL, hints = { .ai_socktype = SOCK_STREAM };
    char *name = NULL, service[16];
    unsigned port = 22;
    int code;
    if (ssh_options_get(session, SSH_OPTIONS_HOST, &name) != SSH_OK)
        return cl_codes_fail(CL_CODE_FILE, "this is not the name of a host");
    ssh_options_get_port(session, &port);
    snprintf(service, sizeof service, "%u", port);
    int unresolved = getaddrinfo(name, service, &hints, &addresses);
    if (unresolved)
        code = cl_codes_fail(CL_CODE_HOST,
                             "the name %s cannot be resolved: %s; correct it in the hostfile, or write the address "
                             "there as addr=",
                             name, gai_strerror(unresolved));
    else {
        int reason = ce_inet_connect(addresses, CONNECT_SECONDS, NULL, NULL, fd), on = 1;
        code = reason ? explain_refusal(name, port, reason) : 0;
        setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        freeaddrinfo(addresses);
    }
    ssh_string_free_char(name);
    return code;
}

/* ---- authentication ---- */

static void add(char *text, size_t capacity, const char *word)
{
    size_t length = strlen(text);
    snprintf(text + length, capacity - length, "%s%s", length ? ", " : "", word);
}

/* Reports which authentication methods the server accepts, and which methods were tried. */
static int explain_login(ssh_session session, const cl_options *options)
{
    static const struct {
        int bit;
        const char *name;
    } methods[] = { { SSH_AUTH_METHOD_PUBLICKEY, "publickey" },
                    { SSH_AUTH_METHOD_PASSWORD, "password" },
                    { SSH_AUTH_METHOD_INTERACTIVE, "keyboard-interactive" },
                    { SSH_AUTH_METHOD_HOSTBASED, "hostbased" },
                    { SSH_AUTH_METHOD_GSSAPI_MIC, "gssapi-with-mic" } };
    static const char *const names[] = { "id_ed25519", "id_ecdsa", "id_rsa" };
    char takes[256] = "", tried[4096 + 1024] = "", path[4200], *user = NULL, *first = NULL;
    int list = ssh_userauth_list(session, NULL);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (list & methods[i].bit)
            add(takes, sizeof takes, methods[i].name);
    const char *agent = getenv("SSH_AUTH_SOCK");
    add(tried, sizeof tried, agent && *agent ? "the keys of the ssh agent" : "no ssh agent (SSH_AUTH_SOCK is not set)");
    if (options->ssh_key)
        add(tried, sizeof tried, options->ssh_key);
    else if (ssh_options_get(session, SSH_OPTIONS_IDENTITY, &first) == SSH_OK && access(first, F_OK) == 0)
        add(tried, sizeof tried, first);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%.4000s/.ssh/%s", home(), names[i]);
        if (access(path, F_OK) == 0 && (!first || strcmp(path, first) != 0))
            add(tried, sizeof tried, path);
    }
    ssh_options_get(session, SSH_OPTIONS_USER, &user);
    int code = cl_codes_fail(CL_CODE_HOST,
                             "no key was accepted for user %s; the server accepts: %s; tried: %s. Put a public key "
                             "into ~/.ssh/authorized_keys there (ssh-copy-id), or name the key with --ssh_key; one "
                             "with a passphrase must be in the ssh agent (ssh-add)",
                             user ? user : "?", *takes ? takes : "none of the methods that the server accepts", tried);
    ssh_string_free_char(user);
    ssh_string_free_char(first);
    return code;
}

static int no_passphrase(const char *prompt, char *buffer, size_t length, int echo, int verify, void *data)
{
    (void)prompt, (void)buffer, (void)length, (void)echo, (void)verify, (void)data;
    return -1; /* the user cannot be asked, so libssh skips a key that is protected by a passphrase */
}

static int log_in(ssh_session session, const cl_options *options)
{
    /* static, because the session keeps a pointer to this structure */
    static struct ssh_callbacks_struct callbacks = { .auth_function = no_passphrase };
    ssh_callbacks_init(&callbacks);
    ssh_set_callbacks(session, &callbacks);
    int answer = ssh_userauth_publickey_auto(session, NULL, NULL);
    if (answer != SSH_AUTH_SUCCESS && ssh_is_connected(session))
        answer = ssh_userauth_none(session, NULL);
    if (answer == SSH_AUTH_SUCCESS)
        return 0;
    if (answer == SSH_AUTH_ERROR || !ssh_is_connected(session))
        return cl_codes_fail(CL_CODE_HOST, "logging in failed: %s", ssh_get_error(session));
    return explain_login(session, options);
}

int cl_remote_login(ssh_session *session, const cl_host *host, const cl_options *options, cl_link *messages)
{
    int fd = -1, code;
    *session = ssh_new();
    if (!*session)
        return cl_codes_fail(CL_CODE_SYSTEM, "no memory");
    code = set_up(*session, host, options);
    if (code == 0)
        code = call(*session, &fd);
    if (code)
        return code;
    ssh_options_set(*session, SSH_OPTIONS_FD, &fd);
    if (ssh_connect(*session) != SSH_OK)
        return cl_codes_fail(CL_CODE_HOST, "no SSH session can be opened: %s", ssh_get_error(*session));
    code = cl_remote_trust(*session, options, messages);
    return code ? code : log_in(*session, options);
}
