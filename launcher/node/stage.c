/* stage.c - writes a file that the front process has sent (--stage). */
#include "node/agent.h"

#include "ground/codes.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes the file under another name and renames it, because agents of other nodes may write the same file on a shared
 * file system. */
static bool write_file(const char *path, mode_t mode, const char *bytes, size_t count)
{
    char draft[PATH_MAX + 32];
    snprintf(draft, sizeof draft, "%s.%d.part", path, getpid());
    int fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode | 0200);
    bool kept = fd >= 0 && ce_files_write_at(fd, bytes, count, 0, draft) == CS_OK && fchmod(fd, mode) == 0;
    if (fd >= 0)
        kept &= close(fd) == 0;
    kept = kept && rename(draft, path) == 0;
    int reason = errno;
    if (fd >= 0 && !kept)
        unlink(draft);
    errno = reason;
    return kept;
}

int cl_stage_write(const cl_message *message)
{
    char path[PATH_MAX];
    const char *folder = message->bytes, *name = folder + strlen(folder) + 1, *end = folder + message->length;
    const char *bytes = name < end ? name + strlen(name) + 1 : end + 1;
    if (bytes > end)
        return cl_codes_fail(CL_CODE_DISAGREE,
                             "--stage: a file was received without a name; install the same cspeed on every host");
    int length = snprintf(path, sizeof path, "%s%s%s", *name == '/' ? "" : folder, *name == '/' ? "" : "/", name);
    char *slash = length < (int)sizeof path ? strrchr(path, '/') : NULL;
    if (!slash)
        return cl_codes_fail(CL_CODE_NO_FILE, "--stage %s: the path is too long", name);
    *slash = '\0';
    if (*path && !cl_logs_make_folders(path, 0777)) /* a part of the user's work: the permissions follow the umask */
        return cl_codes_fail(CL_CODE_LOG, "--stage %s: the folder %s cannot be made: %s", name, path, strerror(errno));
    *slash = '/';
    if (write_file(path, message->rank & 0777, bytes, (size_t)(end - bytes)))
        return 0;
    return cl_codes_fail(CL_CODE_LOG, "--stage %s: %s cannot be written: %s", name, path, strerror(errno));
}
