/* line.c - ancestry of a checkpoint: the earlier checkpoints that it continues, newest first. */
#include "base/must.h"
#include "checkpoint/line.h"
#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = CE_TAG_BYTES + 16 };

static json_t *entry_of(const char *tag, uint32_t digest)
{
    char digits[9];
    snprintf(digits, sizeof digits, "%08x", (unsigned)digest);
    return json_pack("{s:s, s:s}", "tag", tag, "crc32c", digits);
}

static const char *tag_of(const json_t *entry)
{
    const char *tag = json_string_value(json_object_get(entry, "tag"));
    return tag ? tag : "";
}

json_t *ce_line_behind(const ce_manifest *manifest)
{
    json_t *line = json_array();
    json_array_append_new(line, entry_of(manifest->tag, manifest->digest));
    json_array_extend(line, json_object_get(manifest->root, CE_LINE_KEY));
    return line;
}

void ce_line_add(json_t *line, const char *tag, uint32_t digest)
{
    for (size_t i = json_array_size(line); i-- > 0;)
        if (strcmp(tag_of(json_array_get(line, i)), tag) == 0)
            json_array_remove(line, i);
    json_array_insert_new(line, 0, entry_of(tag, digest));
}

static bool is_there(const json_t *entry, const char *dir)
{
    char name[CE_TAG_BYTES];
    if (ce_tag_escape(name, tag_of(entry)) != CS_OK)
        return false;
    CE_FREED char *path = ce_files_join(dir, name);
    bool found = ce_files_holds(path, CE_MANIFEST_FILE);
    return found;
}

void ce_line_shorten(json_t *line, const char *dir)
{
    for (size_t i = json_array_size(line); i-- > 1;)
        if (!is_there(json_array_get(line, i), dir))
            json_array_remove(line, i);
}

/* Reads the list of ancestors from the manifest of dir/name. The rest of the manifest need not be valid JSON. Returns a
 * new reference, or NULL if there is no valid list. */
static json_t *read_list(const char *dir, const char *name)
{
    static const char mark[] = "\"" CE_LINE_KEY "\": [";
    char *folder = ce_files_join(dir, name), *path = ce_files_join(folder, CE_MANIFEST_FILE), *text;
    size_t length;
    const char *found = NULL;
    if (ce_files_read(&text, &length, path, CE_MANIFEST_LIMIT) == CS_OK)
        found = memmem(text, length, mark, sizeof mark - 1);
    const char *list = found ? found + sizeof mark - 2 : NULL;
    json_t *line = list ? json_loadb(list, length - (size_t)(list - text), JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    free(text);
    free(path);
    free(folder);
    return line;
}

/* Returns the list of ancestors in the manifest of dir/name as a JSON object. A key has the digest and the tag of an
 * ancestor. The value of the key is the generation of this ancestor: 1 for the parent, 2 for the parent of the parent,
 * and so on. */
static json_t *read_generations(const char *dir, const char *name)
{
    size_t i;
    json_t *generations = json_object(), *list = read_list(dir, name), *entry;
    json_array_foreach (list, i, entry) {
        char key[KEY_BYTES];
        const char *digits = json_string_value(json_object_get(entry, "crc32c"));
        snprintf(key, sizeof key, "%.8s %s", digits ? digits : "", tag_of(entry));
        if (!json_object_get(generations, key))
            json_object_set_new(generations, key, json_integer((json_int_t)i + 1));
    }
    json_decref(list);
    return generations;
}

static int by_generation(const void *one, const void *other)
{
    const ce_catalog_item *a = one, *b = other;
    if (a->generation != b->generation)
        return a->generation < b->generation ? -1 : 1;
    if (a->step != b->step)
        return a->step > b->step ? -1 : 1;
    return strcmp(a->name, b->name);
}

void ce_line_follow(ce_catalog *catalog, const char *dir, const char *name)
{
    json_auto_t *generations = read_generations(dir, name);
    for (int64_t i = 0; i < catalog->count; i++) {
        ce_catalog_item *item = &catalog->items[i];
        char key[KEY_BYTES];
        snprintf(key, sizeof key, "%08x %s", (unsigned)item->digest, item->tag);
        const json_t *generation = json_object_get(generations, key);
        item->generation = generation ? json_integer_value(generation) : CE_NO_ANCESTOR;
        if (strcmp(item->name, name) == 0)
            item->generation = 0;
    }
    if (catalog->count > 1)
        qsort(catalog->items, (size_t)catalog->count, sizeof *catalog->items, by_generation);
}

bool ce_line_is_abandoned(const ce_catalog_item *item)
{
    return item->generation == CE_NO_ANCESTOR && item->has_line;
}
