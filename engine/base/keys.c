/* keys.c - reads JSON objects by key tables, reports unknown and unsupported keys, resolves "auto". */
#include "base/keys.h"
#include "base/must.h"
#include "base/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 320, SHOWN = 48 };

static void join(char *to, const char *path, const char *name)
{
    snprintf(to, PATH, "%s%s%s", path, *path ? "." : "", name);
}

bool cs_keys_is_auto(const json_t *object, const char *name)
{
    return cs_value_is_auto(json_object_get(object, name));
}

const char *cs_keys_nearest(const cs_key *table, int count, const char *name)
{
    const char **names = calloc((size_t)count + 1, sizeof *names);
    CS_ASSERT(names);
    for (int i = 0; i < count; i++)
        names[i] = table[i].name;
    const char *nearest = cs_nearest(name, names);
    free(names);
    return nearest;
}

static void refuse_unknown(cs_json *doc, json_t *object, const char *path, const cs_key *table, int count)
{
    const char *name;
    json_t *value;
    char full[PATH];
    json_object_foreach (object, name, value) {
        if (*name == '_' || cs_keys_find(table, count, name))
            continue;
        const char *nearest = cs_keys_nearest(table, count, name);
        join(full, path, name);
        char *advice = cs_json_advice(doc, full);
        if (advice)
            cs_json_unknown(doc, full, "unknown key here: %s", advice);
        else if (nearest)
            cs_json_unknown(doc, full, "unknown key; the nearest known one is \"%s\"", nearest);
        else
            cs_json_unknown(doc, full, "unknown key, and no known one is near; train --config_help lists them");
        free(advice);
    }
}

void cs_keys_default(void *settings, const cs_key *table, int count)
{
    for (int i = 0; i < count; i++) {
        const cs_key *key = &table[i];
        char *field = (char *)settings + key->offset;
        bool absent = strcmp(key->fallback, "null") == 0;
        if (key->type >= CS_KEY_INERT)
            continue;
        if (key->type == CS_KEY_STRING)
            *(const char **)(void *)field = absent ? NULL : key->fallback;
        else if (key->type == CS_KEY_JSON)
            *(json_t **)(void *)field = NULL;
        else if (!absent) {
            json_t *value = cs_value_fallback(key);
            cs_value_read(&(cs_value){ NULL, key, key->name, value, field });
            json_decref(value);
        }
    }
}

void cs_keys_fill(cs_json *doc, json_t *object, const char *path, void *settings, const cs_key *table, int count)
{
    char full[PATH], inert[1024] = "";
    size_t used = 0;
    cs_keys_default(settings, table, count);
    if (!json_is_object(object))
        return;
    refuse_unknown(doc, object, path, table, count);
    for (int i = 0; i < count; i++) {
        const cs_key *key = &table[i];
        const json_t *value = json_object_get(object, key->name);
        join(full, path, key->name);
        cs_value e = { doc, key, full, value, (char *)settings + key->offset };
        if (json_is_null(value) && key->type == CS_KEY_STRING)
            *(const char **)(void *)e.field = NULL;
        if (!value || json_is_null(value))
            continue;
        if (key->type == CS_KEY_INERT && cs_value_check_inert(&e) && used < sizeof inert)
            used += (size_t)snprintf(inert + used, sizeof inert - used, "%s%s", used ? ", " : "", key->name);
        if (key->type < CS_KEY_INERT && key->type != CS_KEY_CHOICE && cs_value_is_auto(value)) {
            if (key->choices)
                continue;
            if (key->type != CS_KEY_STRING && key->type != CS_KEY_JSON)
                cs_json_fault(doc, full, "\"auto\" cannot be resolved here: give the value");
            else
                cs_value_read(&e);
            continue;
        }
        cs_value_read(&e);
    }
    if (used)
        cs_json_note(doc, path, "accepted, and without effect here (train --config_help says why): %s", inert);
}

void cs_keys_settle(cs_json *doc, json_t *object, const char *path, const void *settings, const cs_key *table,
                    int count)
{
    char said[512] = "", text[SHOWN], full[PATH];
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        json_t *value = NULL;
        if (cs_keys_is_auto(object, table[i].name))
            value = table[i].type == CS_KEY_STRING && table[i].choices
                        ? json_null()
                        : cs_value_of(&table[i], (const char *)settings + table[i].offset);
        if (value && table[i].type != CS_KEY_INERT && used < sizeof said)
            used += (size_t)snprintf(said + used, sizeof said - used, "%s%s = %s", used ? ", " : "", table[i].name,
                                     cs_json_show(value, text, sizeof text));
        if (!value)
            continue;
        json_object_set_new(object, table[i].name, value);
        join(full, path, table[i].name);
        cs_json_mark(doc, full, "auto");
    }
    if (used)
        cs_json_note(doc, path, "\"auto\" became %s", said);
}

const cs_key *cs_keys_find(const cs_key *table, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const char *cs_keys_type_name(cs_key_type type)
{
    static const char *const types[] = { "true/false", "integer", "number",   "text",    "choice",
                                         "pair",       "JSON",    "accepted", "refused", "section" };
    return types[type];
}

void cs_keys_help(const char *heading, const cs_key *table, int count)
{
    printf("\n%s\n", heading);
    for (int i = 0; i < count; i++) {
        const cs_key *key = &table[i];
        bool quote = key->type == CS_KEY_STRING && strcmp(key->fallback, "null") != 0;
        char usual[64];
        snprintf(usual, sizeof usual, quote ? "\"%s\"" : "%s", key->fallback);
        printf("  %-42s %-10s %-18s %s%s%s%s\n", key->name, cs_keys_type_name(key->type), usual,
               key->type == CS_KEY_CHOICE ? key->choices : "", key->type == CS_KEY_CHOICE ? ": " : "",
               key->type == CS_KEY_REFUSED ? "not supported, because " : "", key->sentence);
    }
}
