/* listed.c - the texts beside the manifest, read through it. */
#include "checkpoint/listed.h"
#include "base/crc.h"
#include "checkpoint/files.h"

#include <stdlib.h>
#include <string.h>

static cs_status read_text(char **text, size_t *length, const json_t *about, const char *path)
{
    const char *digits = json_string_value(json_object_get(about, "crc32c"));
    uint32_t    wanted = 0;
    if (!digits || !cs_manifest_digits(&wanted, digits))
        return cs_fail(CS_BAD_FILE, "%s: the manifest has no checksum of it", path);
    cs_status status = cs_files_read(text, length, path, CS_MANIFEST_LIMIT);
    if (status == CS_NOT_FOUND)
        status = cs_fail(CS_BAD_FILE, "%s is missing, and the manifest lists it", path);
    if (status == CS_OK && cs_crc32c(0, *text, *length) != wanted)
        status = cs_fail(CS_BAD_FILE, "%s has CRC32C %08x where the manifest says %08x: it is damaged", path,
                         (unsigned)cs_crc32c(0, *text, *length), (unsigned)wanted);
    return status;
}

cs_status cs_listed_read(char **text, size_t *length, const cs_manifest *manifest, const char *key,
                         const char *directory)
{
    const json_t *about = json_object_get(manifest->root, key);
    const char   *file  = strcmp(key, "config") == 0 ? CS_CONFIG_FILE : CS_CLIENT_STATE_FILE;
    *text               = NULL;
    *length             = 0;
    if (!json_is_object(about))
        return cs_fail(CS_NOT_FOUND, "%s: the checkpoint was saved without %s", directory, file);
    char     *path   = cs_files_join(directory, file);
    cs_status status = read_text(text, length, about, path);
    if (status != CS_OK) {
        free(*text);
        *text = NULL;
    }
    free(path);
    return status;
}
