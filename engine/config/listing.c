/* listing.c - every key that has a value, with the value and where it comes from; and one key by its path. */
#include "config/listing.h"
#include "base/must.h"
#include "base/value.h"
#include "config/resolve.h"
#include "config/sections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 320 };

typedef struct {
    cs_config *config;
    void (*visit)(void *to, const cs_listing *item);
    void *to;
} lister;

static void give(const lister *to, const char *path, const cs_key *key, json_t *value)
{
    char        origin[64];
    bool        idle = key && key->type >= CS_KEY_INERT;
    const char *from = cs_json_origin(to->config->doc, path, origin, sizeof origin);
    if (idle && cs_json_is_set(to->config->doc, path))
        value = json_incref(cs_json_find(to->config->doc, path));
    if (value)
        to->visit(to->to, &(cs_listing){path, idle ? key->sentence : NULL, value, from});
    json_decref(value);
}

static void list_table(const lister *to, const char *path, const cs_key *keys, int count, const void *base)
{
    char full[PATH];
    for (int i = 0; i < count; i++) {
        if (keys[i].type == CS_KEY_SECTION)
            continue;
        snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", keys[i].name);
        give(to, full, &keys[i], cs_value_any(&keys[i], (const char *)base + keys[i].offset));
    }
}

static void list_optimizer(const lister *to)
{
    int                      count;
    const cs_optim_settings *settings = &to->config->settings.optim;
    const cs_key            *keys     = cs_optim_keys(settings, &count);
    give(to, "optimizer.type", NULL, json_string(cs_optim_find(settings).name));
    list_table(to, "optimizer.params", keys, count, settings);
}

static void list_schedule(const lister *to)
{
    const cs_schedule_settings *settings = &to->config->settings.schedule;
    const cs_schedule          *shape    = settings->shape;
    give(to, "scheduler.type", NULL, shape ? json_string(shape->name) : json_null());
    if (shape)
        list_table(to, "scheduler.params", shape->keys, shape->key_count, settings);
}

void cs_listing_each(cs_config *config, void (*visit)(void *to, const cs_listing *item), void *to)
{
    const lister      lists = {config, visit, to};
    const cs_section *section;
    for (int i = 0; (section = cs_sections_at(i)); i++) {
        const char *path = cs_resolve_spelling(config->doc, section->path);
        list_table(&lists, path, section->keys, section->count, &config->settings);
        if (i > 0)
            continue;
        cs_json_mark(config->doc, "precision", "derived");
        give(&lists, "precision", NULL, json_string(cs_config_get_string(config, "precision")));
        list_optimizer(&lists);
        list_schedule(&lists);
    }
}

/* ---- one key ---- */

typedef struct {
    const char *wanted;
    void (*visit)(void *to, const char *heading, const cs_key *key);
    void *to;
    int   found;
    char *nearest; /* looked for instead, when visit is NULL */
} seeker;

/* Whether `path` is `folder.name`; where to find the name. */
static const char *name_within(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    if (length == 0)
        return strchr(path, '.') ? NULL : path;
    return strncmp(path, folder, length) == 0 && path[length] == '.' && !strchr(path + length + 1, '.')
               ? path + length + 1
               : NULL;
}

static void seek_near(seeker *seek, const char *folder, const char *name, const cs_key *keys, int count)
{
    const char *near = cs_keys_nearest(keys, count, name);
    if (near && !seek->nearest)
        CS_ASSERT(asprintf(&seek->nearest, "%s%s%s", folder, *folder ? "." : "", near) >= 0);
}

static void seek_in(seeker *seek, const char *folder, const char *heading, const cs_key *keys, int count)
{
    const char   *name = name_within(seek->wanted, folder);
    const cs_key *key  = name ? cs_keys_find(keys, count, name) : NULL;
    if (!seek->visit) {
        const char *last = strrchr(seek->wanted, '.');
        if (name)
            seek_near(seek, folder, name, keys, count);
        else if (cs_keys_find(keys, count, last ? last + 1 : seek->wanted)) /* the right name in the wrong place */
            seek_near(seek, folder, last ? last + 1 : seek->wanted, keys, count);
    } else if (key) {
        seek->found++;
        seek->visit(seek->to, heading, key);
    }
}

static void seek_all(seeker *seek)
{
    const cs_section  *section;
    const cs_schedule *shape;
    int                count;
    for (int i = 0; (section = cs_sections_at(i)); i++)
        seek_in(seek, section->path, section->path, section->keys, section->count);
    for (int kind = 0; kind <= CS_OPTIM_MUON; kind++) {
        const cs_optim_settings settings = {.kind = kind};
        const cs_key           *keys     = cs_optim_keys(&settings, &count);
        seek_in(seek, "optimizer.params", cs_optim_find(&settings).name, keys, count);
    }
    const cs_key *keys = cs_optim_section(&count);
    seek_in(seek, "optimizer", "optimizer", keys, count);
    keys = cs_schedule_keys(&count);
    seek_in(seek, "scheduler", "scheduler", keys, count);
    for (int i = 0; (shape = cs_schedule_at(i)); i++)
        seek_in(seek, "scheduler.params", shape->name, shape->keys, shape->key_count);
}

int cs_listing_explain(const char *path, void (*visit)(void *to, const char *heading, const cs_key *key), void *to)
{
    seeker seek = {.wanted = path, .visit = visit, .to = to};
    seek_all(&seek);
    return seek.found;
}

char *cs_listing_nearest(const char *path)
{
    seeker seek = {.wanted = path};
    seek_all(&seek);
    return seek.nearest;
}
