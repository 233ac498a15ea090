/* keys.c - reads JSON objects by key tables, reports unknown and unsupported keys, resolves "auto". */
#include "json/keys.h"
#include "base/must.h"
#include "json/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 320, SHOWN = 48 };

static void join(char *to, const char *path, const char *name)
{
    snprintf(to, PATH, "%s%s%s", path, *path ? "." : "", name);
}

bool ce_keys_is_auto(const json_t *object, const char *name)
{
    return ce_value_is_auto(json_object_get(object, name));
}

const char *ce_keys_nearest(const ce_key *table, int count, const char *name)
{
    const char **names = ce_must_alloc(((size_t)count + 1) * sizeof *names);
    for (int i = 0; i < count; i++)
        names[i] = table[i].name;
    const char *nearest = cs_nearest(name, names);
    free(names);
    return nearest;
}

static void refuse_unknown(ce_json *doc, json_t *object, const char *path, const ce_key *table, int count)
{
    const char *name;
    json_t *value;
    char full[PATH];
    json_object_foreach (object, name, value) {
        if (*name == '_' || ce_keys_find(table, count, name))
            continue;
        const char *nearest = ce_keys_nearest(table, count, name);
        join(full, path, name);
        CE_FREED char *advice = ce_json_advice(doc, full);
        if (advice)
            ce_json_unknown(doc, full, "unknown key here: %s", advice);
        else if (nearest)
            ce_json_unknown(doc, full, "unknown key; the nearest known one is \"%s\"", nearest);
        else
            ce_json_unknown(doc, full,
                            "unknown key, and no known key has a similar name; `cspeed help keys` lists them");
    }
}

void ce_keys_default(void *settings, const ce_key *table, int count)
{
    for (int i = 0; i < count; i++) {
        const ce_key *key = &table[i];
        char *field = (char *)settings + key->offset;
        bool absent = strcmp(key->fallback, "null") == 0;
        if (key->type >= CE_KEY_INERT)
            continue;
        if (key->type == CE_KEY_STRING)
            *(const char **)(void *)field = absent ? NULL : key->fallback;
        else if (key->type == CE_KEY_JSON)
            *(json_t **)(void *)field = NULL;
        else if (!absent) {
            json_auto_t *value = ce_value_fallback(key);
            ce_value_read(&(ce_value){ NULL, key, key->name, value, field });
        }
    }
}

void ce_keys_fill(ce_json *doc, json_t *object, const char *path, void *settings, const ce_key *table, int count)
{
    char full[PATH], inert[1024] = "";
    size_t used = 0;
    ce_keys_default(settings, table, count);
    if (!json_is_object(object))
        return;
    refuse_unknown(doc, object, path, table, count);
    for (int i = 0; i < count; i++) {
        const ce_key *key = &table[i];
        const json_t *value = json_object_get(object, key->name);
        join(full, path, key->name);
        ce_value e = { doc, key, full, value, (char *)settings + key->offset };
        if (json_is_null(value) && key->type == CE_KEY_STRING)
            *(const char **)(void *)e.field = NULL;
        if (!value || json_is_null(value))
            continue;
        if (key->type == CE_KEY_INERT && ce_value_check_inert(&e) && used < sizeof inert)
            used += (size_t)snprintf(inert + used, sizeof inert - used, "%s%s", used ? ", " : "", key->name);
        if (key->type < CE_KEY_INERT && key->type != CE_KEY_CHOICE && ce_value_is_auto(value)) {
            if (key->choices)
                continue;
            if (key->type != CE_KEY_STRING && key->type != CE_KEY_JSON)
                ce_json_fault(doc, full, "\"auto\" cannot be resolved here: give the value");
            else
                ce_value_read(&e);
            continue;
        }
        ce_value_read(&e);
    }
    if (used)
        ce_json_note(doc, path,
                     "no effect here, though not at their defaults (`cspeed config --explain KEY` says why): %s",
                     inert);
}

void ce_keys_settle(ce_json *doc, json_t *object, const char *path, const void *settings, const ce_key *table,
                    int count)
{
    char said[512] = "", text[SHOWN], full[PATH];
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        json_t *value = NULL;
        if (ce_keys_is_auto(object, table[i].name))
            value = table[i].type == CE_KEY_STRING && table[i].choices
                        ? json_null()
                        : ce_value_of(&table[i], (const char *)settings + table[i].offset);
        if (value && table[i].type != CE_KEY_INERT && used < sizeof said)
            used += (size_t)snprintf(said + used, sizeof said - used, "%s%s = %s", used ? ", " : "", table[i].name,
                                     ce_json_show(value, text, sizeof text));
        if (!value)
            continue;
        json_object_set_new(object, table[i].name, value);
        join(full, path, table[i].name);
        ce_json_mark(doc, full, "auto");
    }
    if (used)
        ce_json_note(doc, path, "\"auto\" became %s", said);
}

const ce_key *ce_keys_find(const ce_key *table, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const char *ce_keys_type_name(ce_key_type type)
{
    static const char *const types[] = { "true/false", "integer", "number",   "text",    "choice",
                                         "pair",       "JSON",    "accepted", "refused", "section" };
    return types[type];
}

/* Prints the default between backquotes, which mark code in Markdown. The table has the default of a STRING without
 * quotes, so they are added here. */
static void print_default(const ce_key *key)
{
    bool quoted = key->type == CE_KEY_STRING && strcmp(key->fallback, "null") != 0;
    printf(quoted ? ", `\"%s\"`" : ", `%s`", key->fallback);
}

void ce_keys_help(const char *heading, const ce_key *table, int count)
{
    printf("\n## %s\n\n", heading);
    for (int i = 0; i < count; i++) {
        const ce_key *key = &table[i];
        printf("- `%s` (%s", key->name, ce_keys_type_name(key->type));
        if (key->type != CE_KEY_SECTION)
            print_default(key);
        printf("): %s%s%s%s\n", key->type == CE_KEY_CHOICE ? key->choices : "", key->type == CE_KEY_CHOICE ? ": " : "",
               key->type == CE_KEY_REFUSED ? "not supported, because " : "", key->sentence);
    }
}
