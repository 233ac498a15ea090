/* resolve.c - functions that several steps of resolving use. */
#include "config/resolve.h"
#include "json/value.h"

#include <stdio.h>
#include <string.h>

bool ce_resolve_is_given(cs_config *config, const char *path)
{
    const char *text = json_string_value(ce_json_find(config->doc, path));
    return ce_json_is_set(config->doc, path) && !(text && strcasecmp(text, "auto") == 0);
}

bool ce_resolve_is_changed(cs_config *config, const char *path, const ce_key *key)
{
    bool text = key->type == CE_KEY_STRING && strcmp(key->fallback, "null") != 0; /* the table has it without quotes */
    json_t *usual = text ? json_string(key->fallback) : ce_value_fallback(key),
           *value = ce_value_any(key, (const char *)&config->settings + key->offset);
    bool same = json_is_number(usual) ? json_number_value(usual) == json_number_value(value) : json_equal(usual, value);
    json_decref(usual);
    json_decref(value);
    return !same && ce_resolve_is_given(config, path);
}

bool ce_resolve_is_of_command_line(cs_config *config, const char *path)
{
    char origin[32];
    return strcmp(ce_json_origin(config->doc, path, origin, sizeof origin), "command line") == 0;
}

json_t *ce_resolve_section(ce_json *doc, const char *path)
{
    json_t *object = ce_json_root(doc);
    char name[32];
    for (size_t length; *path; path += length + (path[length] == '.')) {
        length = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        json_t *member = json_object_get(object, name);
        if (!member || json_is_null(member)) {
            json_object_set_new(object, name, json_object());
            member = json_object_get(object, name);
        }
        object = member;
    }
    return json_is_object(object) ? object : NULL;
}

void ce_resolve_derive(cs_config *config, const char *section, const char *name, const char *value, const char **field)
{
    char path[64];
    json_t *object = ce_resolve_section(config->doc, section), *made = json_string(value);
    snprintf(path, sizeof path, "%s.%s", section, name);
    if (made && json_object_set_new(object, name, made) == 0) {
        *field = json_string_value(made);
        ce_json_mark(config->doc, path, "derived");
    } else if (object) { /* If there is no object, the tables have reported this. */
        ce_json_fault(config->doc, path, "a folder is needed, as the file's own name is not UTF-8");
    }
}
