/* listing.c - lists all keys with their values and origins, and looks up keys by path or similar name. */
#include "config/listing.h"
#include "base/must.h"
#include "json/value.h"
#include "config/resolve.h"
#include "config/sections.h"
#include "config/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 320 };

typedef struct {
    cs_config *config;
    void (*visit)(void *to, const ce_listing *item);
    void *to;
} lister;

static void give(const lister *to, const char *path, const ce_key *key, json_t *value)
{
    char origin[64];
    bool idle = key && key->type >= CE_KEY_INERT;
    const char *why = idle                                    ? key->sentence
                      : ce_resolve_is_given(to->config, path) ? ce_idle_because(to->config, path)
                                                              : NULL;
    const char *from = ce_json_origin(to->config->doc, path, origin, sizeof origin);
    if (json_is_null(ce_json_find(to->config->doc, path)) && !json_is_null(value))
        from = "default"; /* The value null means the default. */
    if (idle && ce_json_is_set(to->config->doc, path))
        value = json_incref(ce_json_find(to->config->doc, path));
    if (value)
        to->visit(to->to, &(ce_listing){ path, why, value, from });
    json_decref(value);
}

static void list_table(const lister *to, const char *path, const ce_key *keys, int count, const void *base)
{
    char full[PATH];
    for (int i = 0; i < count; i++) {
        if (keys[i].type == CE_KEY_SECTION)
            continue;
        snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", keys[i].name);
        give(to, full, &keys[i], ce_value_any(&keys[i], (const char *)base + keys[i].offset));
    }
}

static void list_optimizer(const lister *to)
{
    int count;
    const ce_optim_settings *settings = &to->config->settings.optim;
    const ce_key *keys = ce_optim_keys(settings, &count);
    give(to, "optimizer.type", NULL, json_string(ce_optim_find(settings).name));
    list_table(to, "optimizer.params", keys, count, settings);
}

static void list_schedule(const lister *to)
{
    const ce_schedule_settings *settings = &to->config->settings.schedule;
    const ce_schedule *shape = settings->shape;
    give(to, "scheduler.type", NULL, shape ? json_string(shape->name) : json_null());
    if (shape)
        list_table(to, "scheduler.params", shape->keys, shape->key_count, settings);
}

void ce_listing_each(cs_config *config, void (*visit)(void *to, const ce_listing *item), void *to)
{
    const lister lists = { config, visit, to };
    const ce_section *section;
    if (!config->filled)
        return;
    for (int i = 0; (section = ce_sections_at(i)); i++) {
        const char *path = ce_legacy_spelling(config->doc, section->path);
        list_table(&lists, path, section->keys, section->count, &config->settings);
        if (i > 0)
            continue;
        ce_json_mark(config->doc, "precision", "derived");
        give(&lists, "precision", NULL, json_string(cs_config_get_string(config, "precision")));
        list_optimizer(&lists);
        list_schedule(&lists);
    }
}

/* ---- one key ---- */

/* Returns a pointer to the last name in `path` if the section `folder` directly contains this path, otherwise NULL. */
static const char *name_within(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    if (length == 0)
        return strchr(path, '.') ? NULL : path;
    return strncmp(path, folder, length) == 0 && path[length] == '.' && !strchr(path + length + 1, '.')
               ? path + length + 1
               : NULL;
}

static const char *last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* One key table. `folder` is the path of the section that contains the table's keys. `heading` is the same path, except
 * in "optimizer.params" and "scheduler.params": there it is the name of the optimizer, such as "AdamW", or of the
 * schedule. */
typedef struct {
    const char *folder, *heading;
    const ce_key *keys;
    int count;
} table;

typedef struct {
    table list[128];
    int count;
} tables;

static void add_table(tables *all, const char *folder, const char *heading, const ce_key *keys, int count)
{
    CE_ASSERT(all->count < (int)(sizeof all->list / sizeof *all->list));
    all->list[all->count++] = (table){ folder, heading, keys, count };
}

static tables all_tables(void)
{
    tables all = { .count = 0 };
    const ce_section *section;
    const ce_schedule *shape;
    const ce_key *keys;
    int count;
    for (int i = 0; (section = ce_sections_at(i)); i++)
        add_table(&all, section->path, section->path, section->keys, section->count);
    for (int kind = 0; kind < CE_OPTIM_KINDS; kind++) {
        const ce_optim_settings settings = { .kind = kind };
        keys = ce_optim_keys(&settings, &count);
        add_table(&all, "optimizer.params", ce_optim_find(&settings).name, keys, count);
    }
    keys = ce_optim_section(&count);
    add_table(&all, "optimizer", "optimizer", keys, count);
    keys = ce_schedule_keys(&count);
    add_table(&all, "scheduler", "scheduler", keys, count);
    for (int i = 0; (shape = ce_schedule_at(i)); i++)
        add_table(&all, "scheduler.params", shape->name, shape->keys, shape->key_count);
    return all;
}

int ce_listing_explain(const char *path, void (*visit)(void *to, const char *heading, const ce_key *key), void *to)
{
    tables all = all_tables();
    int found = 0;
    for (int i = 0; i < all.count; i++) {
        const table *at = &all.list[i];
        const char *name = name_within(path, at->folder);
        const ce_key *key = name ? ce_keys_find(at->keys, at->count, name) : NULL;
        if (key)
            visit(to, at->heading, key);
        found += key != NULL;
    }
    return found;
}

char *ce_listing_nearest(const char *path)
{
    tables all = all_tables();
    const char *last = last_name(path), *near = NULL;
    char *nearest = NULL;
    for (int i = 0; i < all.count && !near; i++) {
        const table *at = &all.list[i];
        const char *name = name_within(path, at->folder);
        if (name)
            near = ce_keys_nearest(at->keys, at->count, name);
        /* The last name of the path is a key, but the path to this key is wrong. */
        else if (ce_keys_find(at->keys, at->count, last))
            near = last;
        if (near)
            CE_ASSERT(asprintf(&nearest, "%s%s%s", at->folder, *at->folder ? "." : "", near) >= 0);
    }
    return nearest;
}

/* ---- where a misplaced key belongs ---- */

enum { PLACES = 3 }; /* A key that belongs to more sections than this, such as "enabled", is not reported. */

typedef struct {
    const char *wanted;
    const char *folders[PLACES]; /* sections where the key has an effect */
    /* If the wrong path is in a section with several tables: the headings of the tables that have this key, for example
     * names of optimizers. */
    const char *owners[PLACES];
    int folder_count, owner_count;
    const char *idle;    /* a section where the key is inert, or NULL */
    const char *refused; /* a section where the key is refused, or NULL */
    const ce_key *key;   /* row of the key in the section `refused` */
} placer;

static void add(const char **list, int *count, const char *text)
{
    for (int i = 0; i < *count && i < PLACES; i++)
        if (strcmp(list[i], text) == 0)
            return;
    if (*count < PLACES)
        list[*count] = text;
    ++*count;
}

static void place_in(placer *seek, const table *at)
{
    const ce_key *key = ce_keys_find(at->keys, at->count, last_name(seek->wanted));
    if (!key)
        return;
    if (name_within(seek->wanted, at->folder)) {
        add(seek->owners, &seek->owner_count, at->heading);
    } else if (key->type == CE_KEY_REFUSED && !seek->refused) {
        seek->refused = at->folder;
        seek->key = key;
    } else if (key->type == CE_KEY_INERT && !seek->idle) {
        seek->idle = at->folder;
    } else if (key->type < CE_KEY_INERT || key->type == CE_KEY_SECTION) {
        add(seek->folders, &seek->folder_count, at->folder);
    }
}

static placer place(const char *path)
{
    tables all = all_tables();
    placer seek = { .wanted = path };
    for (int i = 0; i < all.count; i++)
        place_in(&seek, &all.list[i]);
    return seek;
}

/* Returns the text `before` and the places, as in "it is a key of a, b or c". An empty place is the top level. The
 * caller frees the text. */
static char *list_places(const char *before, const char *of, const char *const *places, int count)
{
    char text[512];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", before);
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s%s%s",
                                 i == 0          ? ""
                                 : i + 1 < count ? ","
                                                 : " or",
                                 *places[i] ? of : "at the top level", *places[i] ? " " : "", places[i]);
    char *made = strdup(text);
    CE_ASSERT(made);
    return made;
}

char *ce_listing_place(const char *name)
{
    placer seek = place(name);
    char *path = NULL;
    if (seek.owner_count + seek.folder_count == 1)
        CE_ASSERT(
            asprintf(&path, "%s%s%s", seek.owner_count ? "" : seek.folders[0], seek.owner_count ? "" : ".", name) >= 0);
    return path;
}

char *ce_listing_advise(const char *path)
{
    placer seek = place(path);
    const ce_word *word = ce_words_find(last_name(path), false);
    char *advice = NULL;
    /* Other trainers have flat files. Below the top level a key of cspeed that has the same name is more likely. */
    bool ours = seek.owner_count > 0 || seek.folder_count > 0 || seek.idle || seek.refused;
    if (word && (!ours || !strchr(path, '.')))
        return ce_words_say(word);
    if (seek.owner_count > 0 && seek.owner_count <= PLACES)
        return list_places("it is a key", "of", seek.owners, seek.owner_count);
    if (seek.folder_count > 0 && seek.folder_count <= PLACES)
        return list_places("it belongs", "in", seek.folders, seek.folder_count);
    if (seek.folder_count > 0 || seek.owner_count > 0)
        return NULL;
    if (seek.idle)
        return list_places("it belongs", "in", &seek.idle, 1);
    if (seek.refused)
        CE_ASSERT(asprintf(&advice, "%s%s%s is not supported, because %s", seek.refused, *seek.refused ? "." : "",
                           seek.key->name, seek.key->sentence) >= 0);
    return advice;
}
