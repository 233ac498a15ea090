/* staging.c - copies the small files of --stage to the nodes before the orders are sent. */
#include "front/front.h"

#include "ground/codes.h"

#include "base/must.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BYTES = 16 << 20 };

/* Reads a file into a malloc'ed message that consists of FOLDER, NUL, PATH, NUL, and the bytes of the file. */
static int read_file(const char *folder, const char *path, int fd, char **bytes, size_t *length, uint32_t *mode)
{
    struct stat facts;
    size_t names = strlen(folder) + strlen(path) + 2, got = 0;
    if (fstat(fd, &facts) < 0 || !S_ISREG(facts.st_mode))
        return cl_codes_fail(CL_CODE_NO_FILE,
                             "--stage %s: only single files are copied; make one file of a folder with tar", path);
    if (facts.st_size > MAX_BYTES)
        return cl_codes_fail(CL_CODE_FILE,
                             "--stage %s: it has %lld bytes, and at most %d bytes can be copied; put it on a file "
                             "system that all nodes share",
                             path, (long long)facts.st_size, MAX_BYTES);
    *bytes = ce_must_alloc(names + (size_t)facts.st_size);
    stpcpy(stpcpy(*bytes, folder) + 1, path);
    for (ssize_t more; got < (size_t)facts.st_size; got += (size_t)more) {
        more = read(fd, *bytes + names + got, (size_t)facts.st_size - got);
        if (more <= 0)
            return cl_codes_fail(CL_CODE_NO_FILE, "--stage %s: it cannot be read: %s", path, strerror(errno));
    }
    *length = names + got;
    *mode = facts.st_mode & 0777;
    return 0;
}

static int send_file(cl_front *front, const char *path)
{
    CE_FREED char *bytes = NULL;
    size_t length = 0;
    uint32_t mode = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cl_codes_fail(CL_CODE_NO_FILE, "--stage %s: %s", path, strerror(errno));
    int code = read_file(front->plan->workdir, path, fd, &bytes, &length, &mode);
    close(fd);
    for (int i = 0; i < front->plan->node_count && code == 0; i++)
        if (!front->nodes[i].here)
            cl_link_send(&front->nodes[i].link, CL_LINK_STAGE, mode, bytes, length);
    return code;
}

int cl_staging_send(cl_front *front)
{
    const cs_option_list *files = &front->options->stage;
    int code = 0;
    for (int i = 0; i < files->count && code == 0; i++)
        code = send_file(front, files->list[i]);
    return code;
}
