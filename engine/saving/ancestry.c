/* ancestry.c - records, for each folder of checkpoints, the ancestors of the current state (the checkpoints from which
 * it descends) and the checkpoints that were found damaged.
 *
 * The next save in a folder writes the ancestors into the manifest of the new checkpoint, because pruning depends on
 * them, and renames the damaged checkpoints. */
#include "saving/saving.h"
#include "base/names.h"
#include "base/log.h"
#include "comm/collective_status.h"
#include "checkpoint/line.h"
#include "checkpoint/reader.h"
#include "checkpoint/staging.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { KEY_BYTES = 64 };

/* Writes the key of a folder: its device and inode number, so that the key does not depend on how the path is written.
 * A folder that does not exist yet has the key "new", until the save has created it. */
static void key_of(char key[KEY_BYTES], const char *dir)
{
    struct stat about = { 0 };
    if (stat(dir, &about) == 0)
        snprintf(key, KEY_BYTES, "%llx:%llx", (unsigned long long)about.st_dev, (unsigned long long)about.st_ino);
    else
        snprintf(key, KEY_BYTES, "new");
}

/* Returns the list of ancestors for the folder with this key. A new list begins with the checkpoint that the state was
 * last saved to or loaded from. */
static json_t *line_at(ce_ancestry *ancestry, const char *key)
{
    json_t *line = json_object_get(ancestry->lines, key);
    if (line)
        return line;
    line = json_array();
    if (ancestry->parent)
        json_array_append(line, ancestry->parent);
    if (!ancestry->lines)
        ancestry->lines = json_object();
    json_object_set_new(ancestry->lines, key, line);
    return line;
}

static void take_parent(ce_ancestry *ancestry, json_t *line)
{
    json_decref(ancestry->parent);
    ancestry->parent = json_incref(json_array_get(line, 0));
}

void ce_ancestry_loaded(cs_engine *engine, const char *dir, ce_checkpoint_reader *reader, bool module_only)
{
    ce_ancestry *ancestry = &engine->saving->ancestry;
    char key[KEY_BYTES];
    key_of(key, dir);
    if (!ancestry->damaged)
        ancestry->damaged = json_object();
    json_object_set_new(ancestry->damaged, key, json_deep_copy(ce_checkpoint_damaged(reader)));
    if (module_only) /* Only parameters were replaced, so the training's history is unchanged. */
        return;
    json_t *line = ce_line_behind(&reader->manifest);
    json_decref(ancestry->lines);
    ancestry->lines = json_object();
    json_object_set_new(ancestry->lines, key, line);
    take_parent(ancestry, line);
}

void ce_ancestry_offer(cs_engine *engine, const char *dir, ce_checkpoint_content *content)
{
    ce_ancestry *ancestry = &engine->saving->ancestry;
    key_of(ancestry->saving, dir);
    content->line = line_at(ancestry, ancestry->saving);
    content->damaged = json_object_get(ancestry->damaged, ancestry->saving);
}

void ce_ancestry_saved(cs_engine *engine)
{
    ce_ancestry *ancestry = &engine->saving->ancestry;
    json_object_del(ancestry->damaged, ancestry->saving);
    take_parent(ancestry, json_object_get(ancestry->lines, ancestry->saving));
    json_object_del(ancestry->lines, "new");
}

void ce_ancestry_close(cs_engine *engine)
{
    json_decref(engine->saving->ancestry.lines);
    json_decref(engine->saving->ancestry.damaged);
    json_decref(engine->saving->ancestry.parent);
}

/* ---- rewinding to an earlier checkpoint ---- */

/* Lists the tags of the checkpoints in `dir` that are abandoned if the training goes back to dir/name,
 * and of those that were abandoned before. The list is "" if there are none. */
static cs_status list_abandoned(ce_names *list, const char *dir, const char *name, int64_t step)
{
    ce_catalog catalog;
    CE_TRY(ce_catalog_open(&catalog, dir));
    ce_line_follow(&catalog, dir, name);
    for (int64_t i = 0; i < catalog.count; i++) {
        const ce_catalog_item *item = &catalog.items[i];
        bool later = item->generation == CE_NO_ANCESTOR && item->step > step;
        if (later || ce_line_is_abandoned(item))
            ce_names_add(list, "%s", item->tag);
    }
    ce_catalog_close(&catalog);
    return CS_OK;
}

/* Makes the file `latest` name the checkpoint in `folder`. Its tag is taken from the folder's name, because the folder
 * may be a renamed copy. */
static cs_status go_back(const char *dir, const char *folder, int64_t step)
{
    char name[CE_TAG_BYTES], tag[CE_TAG_BYTES];
    ce_names list = { 0 };
    ce_tag_unescape(tag, folder);
    CE_TRY(ce_tag_escape(name, tag));
    if (strcmp(name, folder) != 0)
        return ce_fail(CS_BAD_CONFIG,
                       "%s/%s cannot be the checkpoint that the file latest names, because of its name; rename it", dir,
                       folder);
    CE_TRY(list_abandoned(&list, dir, name, step));
    CE_TRY(ce_staging_name_latest(dir, tag));
    if (list.count)
        ce_log(CE_LOG_WARNING,
               "%s/latest names %s from now on, and these checkpoints are left aside: %s. They are not "
               "pruned, and a save under the same tag replaces one; remove them when they are no longer needed, or go "
               "back to one by its tag",
               dir, tag, ce_names_text(&list));
    return CS_OK;
}

cs_status ce_ancestry_rewind(cs_engine *engine, const char *dir, const ce_checkpoint_reader *reader)
{
    const char *folder = strrchr(reader->path, '/') + 1;
    cs_status status = engine->world.rank == 0 ? go_back(dir, folder, reader->manifest.step) : CS_OK;
    return ce_collective_status(engine->comm, status);
}
