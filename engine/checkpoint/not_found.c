/* not_found.c - error messages for a checkpoint that was not found: the reason, and what to name instead. */
#include "base/must.h"
#include "checkpoint/not_found.h"
#include "base/files.h"
#include "checkpoint/other_formats.h"
#include "checkpoint/manifest.h"
#include "base/names.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_ANOTHER "name the output folder of a training, or one checkpoint in it"

/* Sets the message for a directory `dir` that does not exist. If its parent has checkpoints, the last component of the
 * path was probably meant as a tag, and the message says so. */
static cs_status not_there(const char *dir)
{
    CE_CLOSED(ce_catalog_close) ce_catalog catalog = { 0 };
    CE_FREED char *above = ce_files_join(dir, "");
    size_t length = strlen(above);
    while (length > 1 && above[length - 1] == '/')
        above[--length] = 0;
    char *slash = strrchr(above, '/');
    const char *folder = !slash ? "." : slash == above ? "/" : above;
    if (slash)
        *slash = 0;
    if (ce_catalog_open(&catalog, folder) == CS_OK && catalog.count > 0)
        return ce_not_found_tag(&catalog, folder, slash ? slash + 1 : above);
    return ce_fail(CS_NOT_FOUND, "%s: no such folder; " NAME_ANOTHER, dir);
}

static cs_status refuse_other_format(const char *sentence)
{
    return ce_fail(CS_UNSUPPORTED, "not supported: %s", sentence);
}

cs_status ce_not_found_folder(const char *dir)
{
    char description[CE_OTHER_FORMATS_BYTES];
    if (errno == ENOENT)
        return not_there(dir);
    if (errno == ENOTDIR)
        return ce_other_formats_recognise(description, dir)
                   ? refuse_other_format(description)
                   : ce_fail(CS_NOT_FOUND, "%s: not a folder; " NAME_ANOTHER, dir);
    return ce_files_refuse(dir);
}

/* Looks for a subdirectory of `dir` that has a file `latest`, because a training has written checkpoints there. Returns
 * the path of the subdirectory, which the caller frees, or NULL if there is no such subdirectory. */
static char *find_inside(const char *dir)
{
    char *found = NULL;
    DIR *listing = opendir(dir);
    if (!listing)
        return NULL;
    for (const struct dirent *entry; !found && (entry = readdir(listing)) != NULL;) {
        char *path = entry->d_name[0] == '.' ? NULL : ce_files_join(dir, entry->d_name);
        if (path && ce_files_holds(path, "latest"))
            found = path;
        else
            free(path);
    }
    closedir(listing);
    return found;
}

cs_status ce_not_found_all(const ce_catalog *catalog, const char *dir)
{
    char description[CE_OTHER_FORMATS_BYTES];
    if (ce_other_formats_recognise(description, dir))
        return refuse_other_format(description);
    if (catalog->broken)
        return ce_fail(catalog->refused ? CS_IO_ERROR : CS_BAD_FILE,
                       "%s contains no complete checkpoint: %s; `cspeed inspect %s` lists all of its %zu", dir,
                       json_string_value(json_object_iter_value(json_object_iter(catalog->broken))), dir,
                       json_object_size(catalog->broken));
    if (ce_files_holds(dir, "config.json"))
        return ce_fail(CS_NOT_FOUND,
                       "%s contains no checkpoint: it is a Hugging Face folder, which generate, eval and cspeed "
                       "import read",
                       dir);
    CE_FREED char *inside = find_inside(dir);
    cs_status status = inside
                           ? ce_fail(CS_NOT_FOUND, "%s contains no checkpoint; %s does", dir, inside)
                           : ce_fail(CS_NOT_FOUND, "%s contains no checkpoint: no folder in it has a %s; " NAME_ANOTHER,
                                     dir, CE_MANIFEST_FILE);
    return status;
}

cs_status ce_not_found_tag(const ce_catalog *catalog, const char *dir, const char *tag)
{
    ce_names tags = { .most = 100 };
    for (int64_t i = 0; i < catalog->count; i++)
        ce_names_add(&tags, "%s", catalog->items[i].tag);
    return ce_fail(CS_NOT_FOUND, "%s has no checkpoint \"%s\"; it holds %s", dir, tag,
                   tags.count ? ce_names_text(&tags) : "no complete checkpoint");
}

cs_status ce_not_found_manifest(const char *directory)
{
    char description[CE_OTHER_FORMATS_BYTES];
    if (!ce_files_exists(directory))
        return ce_fail(CS_NOT_FOUND, "%s is not there", directory);
    if (ce_other_formats_recognise(description, directory))
        return refuse_other_format(description);
    return ce_fail(CS_BAD_FILE, "%s has no %s: it is not a checkpoint, or its saving was interrupted", directory,
                   CE_MANIFEST_FILE);
}
