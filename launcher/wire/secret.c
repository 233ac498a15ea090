/* secret.c - reads the shared secret of a job, and derives keys from it. */
#include "wire/secret.h"

#include "ground/codes.h"

#include "security/mac.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BYTES = 4096, MIN_BYTES = 16 };

static int take(const char *where, const char *secret, size_t length, unsigned char *key)
{
    if (length < MIN_BYTES)
        return cl_codes_fail(CL_CODE_FILE,
                             "%s contains a secret of %zu bytes; at least %d are needed: `openssl rand -hex 32` "
                             "makes one",
                             where, length, MIN_BYTES);
    ce_mac_key(secret, length, key);
    return 0;
}

static int read_file(const char *path, unsigned char *key)
{
    char text[MAX_BYTES];
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &facts) < 0)
        return cl_codes_fail(CL_CODE_NO_FILE, "the secret's file %s: %s", path, strerror(errno));
    if (facts.st_uid != geteuid() || (facts.st_mode & 077)) {
        close(fd);
        return cl_codes_fail(CL_CODE_FILE,
                             "the secret's file %s must belong to you, and only you may read it: chmod 600 %s", path,
                             path);
    }
    ssize_t length = read(fd, text, sizeof text);
    close(fd);
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        length--;
    int code = take(path, text, length > 0 ? (size_t)length : 0, key);
    ce_mac_forget(text, sizeof text);
    return code;
}

int cl_secret_key(unsigned char *key, bool *known)
{
    const char *secret = getenv("CSPEED_SECRET"), *path = getenv("CSPEED_SECRET_FILE");
    *known = (secret && *secret) || (path && *path);
    if (!*known)
        return 0;
    return secret && *secret ? take("CSPEED_SECRET", secret, strlen(secret), key) : read_file(path, key);
}

int cl_secret_ranks_key(const char *job, unsigned char *key, bool *known)
{
    unsigned char secret[CE_MAC_BYTES];
    int code = cl_secret_key(secret, known);
    if (code || !*known)
        return code;
    struct iovec parts[] = { { "ranks of ", 9 }, { (void *)(uintptr_t)job, strlen(job) } };
    ce_mac_once(key, secret, parts, 2);
    ce_mac_forget(secret, sizeof secret);
    return 0;
}
