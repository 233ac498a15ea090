/* templates.c - detects configuration templates that were not filled in. A string such as "${BATCH_SIZE}" in place of a
 * number is reported as a placeholder and not as a wrong type. */
#include "json/dialect.h"
#include "config/resolve.h"

#include <stdio.h>
#include <string.h>

enum { PATH = 320 };

/* Reports a placeholder. <x> counts as a placeholder only if it is the whole string, because normal text may contain
 * such words too. */
static void check_string(ce_json *doc, const char *path, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        size_t found = ce_dialect_placeholder(text + i, length - i);
        if (found > 0 && (text[i] != '<' || found == length)) {
            ce_json_fault(doc, path, CE_DIALECT_UNFILLED, (int)found, text + i);
            return;
        }
    }
}

static void check(ce_json *doc, const char *path, const json_t *value)
{
    char full[PATH];
    const char *name;
    json_t *member;
    size_t index;
    if (strcmp(path, "cspeed.model") == 0) /* The special tokens in cspeed.model may look like placeholders. */
        return;
    if (json_is_string(value))
        check_string(doc, path, json_string_value(value));
    json_array_foreach (value, index, member)
        check(doc, path, member);
    json_object_foreach ((json_t *)(uintptr_t)value, name, member) {
        snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", name);
        if (*name != '_')
            check(doc, full, member);
    }
}

void ce_templates_check(cs_config *config)
{
    check(config->doc, "", ce_json_root(config->doc));
}
