/* jsonpart.c - functions that the readers of tokenizer.json's sections have in common. */
#include "text/jsonpart.h"
#include "base/must.h"

#include <stdio.h>

const char *ce_jsonpart_type(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "of no type";
}

bool ce_jsonpart_flag(const json_t *part, const char *key, bool otherwise)
{
    const json_t *flag = json_object_get(part, key);
    return json_is_boolean(flag) ? json_is_true(flag) : otherwise;
}

const char *ce_jsonpart_member(char text[CE_JSONPART_PATH], const char *path, const char *list, size_t index)
{
    snprintf(text, CE_JSONPART_PATH, "%s.%s[%zu]", path, list, index);
    return text;
}

cs_status ce_jsonpart_text(char **text, const json_t *part, const char *key, const char *path)
{
    const char *value = json_string_value(json_object_get(part, key));
    if (!value)
        return ce_fail(CS_BAD_FILE, "%s.%s is not a text", path, key);
    *text = ce_must_copy(value);
    return CS_OK;
}

cs_status ce_jsonpart_pattern(ce_pattern **pattern, const json_t *part, const char *path)
{
    const json_t *value = json_object_get(part, "pattern");
    const char *regex = json_string_value(json_object_get(value, "Regex"));
    const char *literal = json_string_value(json_object_get(value, "String"));
    if (!regex && !literal)
        return ce_fail(CS_BAD_FILE, "%s.pattern is neither {\"String\": …} nor {\"Regex\": …}", path);
    if (!*(regex ? regex : literal))
        return ce_fail(CS_UNSUPPORTED, "not supported: %s.pattern is empty, and would match everywhere", path);
    cs_status status = ce_pattern_open(pattern, regex ? regex : literal, regex ? CE_PATTERN_REGEX : CE_PATTERN_LITERAL);
    return status == CS_OK ? CS_OK : ce_fail(status, "%s: %s", path, cs_error());
}

cs_status ce_jsonpart_refuse(const char *path, const char *type, const char *why)
{
    return ce_fail(CS_UNSUPPORTED, "not supported: %s is %s: %s", path, type, why);
}
