/* open_checkpoint.c - opens one checkpoint from a path and an optional tag. */
#include "saved/open_checkpoint.h"
#include "base/must.h"
#include "base/files.h"
#include "checkpoint/tag.h"

#include <stdlib.h>
#include <string.h>

enum { HEAP_BYTES = 4096 };

/* Returns the path without trailing slashes, resolved if its last component is "." or "..". */
static char *named(const char *path)
{
    char *dir = ce_files_join(path, "");
    for (size_t length = strlen(dir); length > 1 && dir[length - 1] == '/'; length--)
        dir[length - 1] = 0;
    const char *last = basename(dir);
    char *whole = strcmp(last, ".") == 0 || strcmp(last, "..") == 0 ? realpath(dir, NULL) : NULL;
    if (!whole)
        return dir;
    free(dir);
    return whole;
}

char *cl_open_checkpoint_locate(const char *path, char **tag)
{
    char *dir = named(path);
    *tag = NULL;
    if (!ce_files_holds(dir, CE_MANIFEST_FILE))
        return dir;
    char *slash = strrchr(dir, '/'), *above;
    above = slash == dir ? strdup("/") : slash ? strndup(dir, (size_t)(slash - dir)) : strdup(".");
    *tag = malloc(CE_TAG_BYTES);
    CE_ASSERT(*tag);
    /* The tag is taken from the name of the folder, because the manifest may be damaged or copied from another
     * checkpoint. */
    ce_tag_unescape(*tag, basename(dir));
    free(dir);
    return above;
}

int cl_open_checkpoint_open(cl_open_checkpoint *checkpoint, const char *path, const char *tag)
{
    cs_world world = { .size = 1, .local_size = 1 };
    cs_comm_settings settings = { .kind = "self", .heap_bytes = HEAP_BYTES };
    char *path_tag, *dir = cl_open_checkpoint_locate(path, &path_tag);
    *checkpoint = (cl_open_checkpoint){ 0 };
    cs_status status = cs_comm_open(&checkpoint->self, &world, &settings);
    if (status == CS_OK)
        status = ce_checkpoint_open(&checkpoint->reader, checkpoint->self, dir, tag ? tag : path_tag);
    free(path_tag);
    free(dir);
    return cs_exit_code(status);
}

void cl_open_checkpoint_close(cl_open_checkpoint *checkpoint)
{
    ce_checkpoint_close(checkpoint->reader);
    cs_comm_close(checkpoint->self);
    *checkpoint = (cl_open_checkpoint){ 0 };
}
