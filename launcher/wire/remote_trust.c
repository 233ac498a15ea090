/* remote_trust.c - verifies a host's key against known_hosts: the key is known, new, or changed. */
#include "ground/codes.h"
#include "wire/remote_login.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes the fingerprint "SHA256:..." and the type of the host's key. */
static void describe(ssh_session session, char *text, size_t capacity)
{
    ssh_key key = NULL;
    unsigned char *hash = NULL;
    size_t bytes = 0;
    char *print = NULL;
    if (ssh_get_server_publickey(session, &key) == SSH_OK &&
        ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &bytes) == SSH_OK)
        print = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, bytes);
    snprintf(text, capacity, "%s %s", key ? ssh_key_type_to_char(ssh_key_type(key)) : "?", print ? print : "?");
    ssh_string_free_char(print);
    ssh_clean_pubkey_hash(&hash);
    ssh_key_free(key);
}

/* Creates the folder of the known_hosts file if it does not exist. A file name without a slash is in the current
 * folder. */
static void make_folder(const char *file)
{
    char folder[4096];
    const char *slash = strrchr(file, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - file) : 0, file);
    if (*folder)
        mkdir(folder, 0700);
}

/* Adds the key to known_hosts. Other processes may add their keys, or the same key, at the same time. */
static int add_to_known_hosts(ssh_session session, const char *file, const char *host, const char *print,
                              cl_link *messages)
{
    make_folder(file);
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600), code = 0;
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        code = cl_codes_fail(CL_CODE_HOST, "%s: %s; the new host key cannot be stored there", file, strerror(errno));
    else if (ssh_session_is_known_server(session) != SSH_KNOWN_HOSTS_OK) {
        if (ssh_session_update_known_hosts(session) != SSH_OK)
            code = cl_codes_fail(CL_CODE_HOST, "%s: the new host key cannot be stored there: %s", file,
                                 ssh_get_error(session));
        else
            cl_link_say(messages, CL_LINK_SAY, 0, "new host key of %s: %s; stored in %s", host, print, file);
    }
    if (fd >= 0)
        close(fd);
    return code;
}

static int verify_key(ssh_session session, const cl_options *options, const char *host, const char *file,
                      cl_link *messages)
{
    char print[256];
    int known = ssh_session_is_known_server(session);
    describe(session, print, sizeof print);
    if (known == SSH_KNOWN_HOSTS_OK)
        return 0;
    if (known == SSH_KNOWN_HOSTS_CHANGED || known == SSH_KNOWN_HOSTS_OTHER)
        return cl_codes_fail(
            CL_CODE_HOST,
            "HOST KEY CHANGED: %s presents %s, but %s contains another key. Either the host was installed again, or "
            "another machine intercepts the connection. If it was installed again, `ssh-keygen -R '%s'` removes the "
            "old key",
            host, print, file, host);
    if (known == SSH_KNOWN_HOSTS_ERROR)
        return cl_codes_fail(CL_CODE_HOST, "%s: the host key cannot be verified: %s", file, ssh_get_error(session));
    if (options->host_key == CL_HOST_KEY_STRICT)
        return cl_codes_fail(
            CL_CODE_HOST,
            "unknown host key of %s: %s is not in %s, and --host_key strict accepts no new key; compare it with the "
            "key on the host (ssh-keygen -lf), and log in once with ssh to add it",
            host, print, file);
    if (strcmp(file, CL_REMOTE_NO_FILE) != 0)
        return add_to_known_hosts(session, file, host, print, messages);
    cl_link_say(messages, CL_LINK_SAY, 0, "new host key of %s: %s; not stored, because UserKnownHostsFile is none",
                host, print);
    return 0;
}

int cl_remote_trust(ssh_session session, const cl_options *options, cl_link *messages)
{
    char *host = NULL, *file = NULL, name[512];
    unsigned port = 22;
    if (options->host_key == CL_HOST_KEY_OFF)
        return 0;
    ssh_options_get_port(session, &port);
    if (ssh_options_get(session, SSH_OPTIONS_HOST, &host) != SSH_OK ||
        ssh_options_get(session, SSH_OPTIONS_KNOWNHOSTS, &file) != SSH_OK)
        return cl_codes_fail(CL_CODE_HOST, "known_hosts: %s", ssh_get_error(session));
    if (port == 22)
        snprintf(name, sizeof name, "%s", host);
    else
        snprintf(name, sizeof name, "[%s]:%u", host, port);
    int code = verify_key(session, options, name, file, messages);
    ssh_string_free_char(host);
    ssh_string_free_char(file);
    return code;
}
