/* resolve.c - functions that several steps of resolving use. */
#include "config/resolve.h"

#include <stdio.h>
#include <string.h>

bool ce_resolve_is_given(cs_config *config, const char *path)
{
    const char *text = json_string_value(ce_json_find(config->doc, path));
    return ce_json_is_set(config->doc, path) && !(text && strcasecmp(text, "auto") == 0);
}

void ce_resolve_derive(cs_config *config, const char *section, const char *name, const char *value, const char **field)
{
    char path[64];
    json_t *object = ce_json_root(config->doc), *made = json_string(value);
    snprintf(path, sizeof path, "%s.%s", section, name);
    for (const char *at = section; *at && json_is_object(object);) {
        char word[32];
        size_t length = strcspn(at, ".");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (!json_is_object(json_object_get(object, word)))
            json_object_set_new(object, word, json_object());
        object = json_object_get(object, word);
        at += length + (at[length] == '.');
    }
    if (!made || json_object_set_new(object, name, made) != 0) {
        ce_json_fault(config->doc, path, "a folder is needed, as the file's own name is not UTF-8");
        return;
    }
    *field = json_string_value(made);
    ce_json_mark(config->doc, path, "derived");
}
