/* folder.c - the folder in the cache that describes a GGUF file. */
#include "base/files.h"
#include "base/must.h"
#include "gguf/describe.h"
#include "security/mac.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes the name of the folder: that of the file, and a part of the digest of the file's path. */
static cs_status name_folder(char folder[CE_GGUF_PATH], const char *path, const char *real)
{
    char digest[CE_MAC_DIGEST], cache[CE_GGUF_PATH / 2];
    CE_FREED char *copy = ce_must_copy(path);
    if (!ce_files_cache(cache, sizeof cache))
        return ce_fail(CS_IO_ERROR,
                       "%s is described in a folder of the cache, and neither XDG_CACHE_HOME nor HOME is an absolute "
                       "path: set one of them",
                       real);
    ce_mac_digest(digest, real, strlen(real));
    snprintf(folder, CE_GGUF_PATH, "%s/gguf/%.100s-%.12s", cache, basename(copy), digest);
    return CS_OK;
}

/* Returns the name under which a file is written before it gets its own; other processes may write the same file. */
static char *temporary_name(const char *path)
{
    uint64_t random;
    ce_mac_random(&random, sizeof random);
    return ce_must_print("%s.%016llx.tmp", path, (unsigned long long)random);
}

/* Writes a file if it is not there or differs. */
static cs_status write_text(const char *folder, const char *name, const json_t *contents)
{
    size_t length = 0;
    CE_FREED char *path = ce_files_join(folder, name), *there = NULL;
    CE_FREED char *temporary = temporary_name(path);
    CE_FREED char *text = json_dumps(contents, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    if (!text)
        return ce_fail(CS_NO_MEMORY, "out of memory for the text of %s", path);
    if (ce_files_exists(path) && ce_files_read(&there, &length, path, INT_MAX) == CS_OK && strcmp(there, text) == 0)
        return CS_OK;
    CE_TRY(ce_files_write(temporary, text, strlen(text)));
    return ce_files_rename(temporary, path);
}

static cs_status write_link(const char *folder, const char *real)
{
    char there[PATH_MAX];
    CE_FREED char *path = ce_files_join(folder, CE_GGUF_LINK);
    CE_FREED char *temporary = temporary_name(path);
    ssize_t length = readlink(path, there, sizeof there - 1);
    there[length > 0 ? length : 0] = 0;
    if (strcmp(there, real) == 0)
        return CS_OK;
    if (symlink(real, temporary) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot be made", temporary);
    return ce_files_rename(temporary, path);
}

static cs_status describe(const char *folder, const char *real, const char *path)
{
    static const char *const names[] = { "config.json", "tokenizer.json", "tokenizer_config.json",
                                         "generation_config.json" };
    enum { NAMES = sizeof names / sizeof *names };
    json_t *contents[NAMES] = { NULL };
    ce_gguf_file file;
    CE_TRY(ce_gguf_open(&file, path));
    cs_status status = ce_gguf_config(&contents[0], &file, path);
    if (status == CS_OK)
        status = ce_gguf_vocabulary(&contents[1], &contents[2], &contents[3], &file, path);
    ce_gguf_close(&file);
    if (status == CS_OK)
        status = ce_files_make_directories(folder);
    for (int i = 0; i < NAMES && status == CS_OK; i++) {
        CE_FREED char *old = ce_files_join(folder, names[i]); /* of a file that had this path before */
        if (contents[i])
            status = write_text(folder, names[i], contents[i]);
        else if (unlink(old) != 0 && errno != ENOENT)
            status = ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot be removed", old);
    }
    for (int i = 0; i < NAMES; i++)
        json_decref(contents[i]);
    return status == CS_OK ? write_link(folder, real) : status;
}

cs_status ce_gguf_folder(char folder[CE_GGUF_PATH], const char *path)
{
    CE_FREED char *real = realpath(path, NULL);
    if (!real)
        return ce_fail_errno(CS_NOT_FOUND, errno, "%s", path);
    CE_TRY(name_folder(folder, path, real));
    return describe(folder, real, path);
}
