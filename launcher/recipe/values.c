/* values.c - the values of a recipe, and how a rule sets a key of the configuration. */
#include "recipe/values.h"
#include "base/must.h"
#include "cspeed/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *cl_value_text(const json_t *value)
{
    return json_is_string(value) ? json_string_value(value) : "";
}

bool cl_value_is(const json_t *value, const char *text)
{
    return strcasecmp(cl_value_text(value), text) == 0;
}

bool cl_value_is_off(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) &&
            (cl_value_is(value, "") || cl_value_is(value, "no") || cl_value_is(value, "none") ||
             cl_value_is(value, "false") || cl_value_is(value, "null"))) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* True for true, "true", "auto", 1 and other values that switch something on. */
bool cl_value_is_on(const json_t *value)
{
    return !cl_value_is_off(value) && !(json_is_number(value) && json_number_value(value) == 0);
}

json_t *cl_value_number(const json_t *value)
{
    char *end;
    double number = strtod(cl_value_text(value), &end);
    if (!json_is_string(value) || end == cl_value_text(value) || *end || !isfinite(number))
        return json_deep_copy(value);
    return fabs(number) < 1e15 && number == floor(number) ? json_integer((json_int_t)number) : json_real(number);
}

double cl_value_double(const json_t *value)
{
    json_t *number = cl_value_number(value);
    double result = json_is_number(number) ? json_number_value(number) : (double)NAN;
    json_decref(number);
    return result;
}

/* Returns the items of a list, or of a text with commas or spaces between them, as a new list of texts or numbers. */
json_t *cl_value_list(const json_t *value)
{
    json_t *list = json_array();
    CE_FREED char *copy = ce_must_copy(cl_value_text(value));
    char *rest = NULL;
    if (json_is_array(value)) {
        json_decref(list);
        return json_deep_copy(value);
    }
    for (char *word = strtok_r(copy, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
        json_t *text = json_string(word);
        json_array_append_new(list, cl_value_number(text));
        json_decref(text);
    }
    if (json_is_number(value))
        json_array_append(list, (json_t *)value);
    return list;
}

void cl_rules_set(cl_conversion *c, const char *path, json_t *value)
{
    char part[CS_OPTION_BYTES];
    json_t *at = c->to->config;
    for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(dot - path), path);
        json_t *inner = json_object_get(at, part);
        if (!json_is_object(inner)) {
            inner = json_object();
            json_object_set_new(at, part, inner);
        }
        at = inner;
    }
    json_object_set_new(at, path, value);
}

bool cl_rules_no(cl_conversion *c, const char *reason)
{
    snprintf(c->reason, sizeof c->reason, "%s", reason);
    return false;
}
