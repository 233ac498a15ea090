/* catalog.c - lists the complete checkpoints of a directory, newest first. */
#include "checkpoint/catalog.h"
#include "checkpoint/not_found.h"
#include "base/files.h"
#include "checkpoint/manifest.h"
#include "checkpoint/staging.h"
#include "base/must.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static cs_status look(ce_catalog_item *item, const char *dir, const char *name)
{
    CE_CLOSED(ce_manifest_close) ce_manifest manifest = { 0 };
    CE_FREED char *path = ce_files_join(dir, name);
    CE_TRY(ce_manifest_load(&manifest, path));
    CE_TRY(ce_manifest_check_files(&manifest, path));
    *item = (ce_catalog_item){ .name = ce_must_copy(name),
                               .tag = ce_must_copy(manifest.tag),
                               .step = manifest.step,
                               .digest = manifest.digest,
                               .has_line = json_object_get(manifest.root, CE_LINE_KEY) != NULL,
                               .generation = CE_NO_ANCESTOR };
    return CS_OK;
}

static void add(ce_catalog *catalog, const char *dir, const char *name)
{
    ce_catalog_item item;
    cs_status status = look(&item, dir, name);
    if (status != CS_OK && status != CS_NOT_FOUND) {
        catalog->broken = catalog->broken ? catalog->broken : json_object();
        json_object_set_new(catalog->broken, name, json_string(cs_error()));
        catalog->refused |= status == CS_IO_ERROR;
    }
    if (status != CS_OK)
        return;
    catalog->items = ce_must_resize(catalog->items, (size_t)(catalog->count + 1) * sizeof *catalog->items);
    catalog->items[catalog->count++] = item;
}

static int by_step(const void *one, const void *other)
{
    const ce_catalog_item *a = one, *b = other;
    if (a->step != b->step)
        return a->step > b->step ? -1 : 1;
    return strcmp(a->name, b->name);
}

cs_status ce_catalog_open(ce_catalog *catalog, const char *dir)
{
    *catalog = (ce_catalog){ 0 };
    DIR *listing = opendir(dir);
    if (!listing)
        return ce_not_found_folder(dir);
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;)
        if (entry->d_name[0] != '.' && !ce_staging_is_aside(dir, entry->d_name))
            add(catalog, dir, entry->d_name);
    closedir(listing);
    if (catalog->count > 1)
        qsort(catalog->items, (size_t)catalog->count, sizeof *catalog->items, by_step);
    return CS_OK;
}

void ce_catalog_close(ce_catalog *catalog)
{
    for (int64_t i = 0; i < catalog->count; i++) {
        free(catalog->items[i].name);
        free(catalog->items[i].tag);
    }
    free(catalog->items);
    json_decref(catalog->broken);
    *catalog = (ce_catalog){ 0 };
}

cs_status ce_catalog_find(char name[CE_TAG_BYTES], const char *dir, const char *tag)
{
    CE_CLOSED(ce_catalog_close) ce_catalog catalog = { 0 };
    CE_TRY(ce_tag_escape(name, tag));
    if (ce_files_holds(dir, name))
        return CS_OK;
    if (!strchr(tag, '/') && tag[0] != '.' && strlen(tag) < CE_TAG_BYTES && ce_files_holds(dir, tag)) {
        strcpy(name, tag); /* the user renamed the directory, so its name is not an escaped tag */
        return CS_OK;
    }
    CE_TRY(ce_catalog_open(&catalog, dir));
    return ce_not_found_tag(&catalog, dir, tag);
}

cs_status ce_catalog_pointed(char name[CE_TAG_BYTES], const char *dir, const char *pointer)
{
    enum { LIMIT = 4096 };
    CE_FREED char *path = ce_files_join(dir, pointer);
    CE_FREED char *text = NULL;
    size_t length;
    CE_TRY(ce_files_read(&text, &length, path, LIMIT));
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        text[--length] = 0; /* An editor may have added a newline to the file. */
    if (length == 0 || strlen(text) != length || ce_tag_escape(name, text) != CS_OK)
        return ce_fail(CS_BAD_FILE, "%s is empty: the tag of a checkpoint is missing in it", path);
    return CS_OK;
}

cs_status ce_catalog_latest(char name[CE_TAG_BYTES], const char *dir)
{
    return ce_catalog_pointed(name, dir, "latest");
}
