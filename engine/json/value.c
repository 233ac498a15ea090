/* value.c - reads one JSON value into one field of a settings struct, as a row of the key table says. */
#include "json/value.h"
#include "json/dialect.h"
#include "base/must.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SHOWN = 48 };

bool ce_value_is_auto(const json_t *value)
{
    return json_is_string(value) && strcasecmp(json_string_value(value), "auto") == 0;
}

static void refuse(const ce_value *e, const char *what)
{
    char text[SHOWN];
    CE_ASSERT(e->doc);
    ce_json_fault(e->doc, e->path, "%s, not %s", what, ce_json_show(e->value, text, sizeof text));
}

/* ---- one value ---- */

static double number_of(const json_t *value)
{
    double number = json_number_value(value);
    return fabs(number) >= CE_DIALECT_INFINITY ? copysign(INFINITY, number) : number;
}

static bool is_within(const ce_value *e, double number)
{
    char what[96];
    if ((e->key->min == 0 && e->key->max == 0) || (number >= e->key->min && number <= e->key->max))
        return true;
    if (number < e->key->min)
        snprintf(what, sizeof what, "at least %.10g is needed", e->key->min);
    else
        snprintf(what, sizeof what, "at most %.10g is possible", e->key->max);
    refuse(e, what);
    return false;
}

static void read_bool(const ce_value *e)
{
    bool truth = json_is_true(e->value) || (json_is_number(e->value) && number_of(e->value) == 1.0);
    if (!truth && !json_is_false(e->value) && !(json_is_number(e->value) && number_of(e->value) == 0.0))
        refuse(e, "true or false is needed");
    else
        *(bool *)e->field = truth;
}

static void read_int(const ce_value *e)
{
    double number = json_is_number(e->value) ? number_of(e->value) : NAN;
    if (number == INFINITY && e->key->max == INFINITY)
        *(int64_t *)e->field = INT64_MAX;
    else if (!(fabs(number) < 0x1p63) || number != trunc(number))
        refuse(e, "a whole number is needed");
    else if (is_within(e, number))
        *(int64_t *)e->field = json_is_integer(e->value) ? json_integer_value(e->value) : (int64_t)number;
}

static void read_number(const ce_value *e)
{
    double number = json_is_number(e->value) ? number_of(e->value) : NAN;
    if (isnan(number) || (isinf(number) && e->key->max != INFINITY))
        refuse(e, "a number is needed");
    else if (is_within(e, number))
        *(double *)e->field = number;
}

static void read_string(const ce_value *e)
{
    if (!json_is_string(e->value))
        refuse(e, "a string in double quotes is needed");
    else
        *(const char **)e->field = json_string_value(e->value);
}

/* Refuses a word that is none of the choices, and names the most similar choice. */
static void refuse_choice(const ce_value *e, const char *wanted)
{
    enum { MAX_NAMES = 32 };
    const char *names[MAX_NAMES + 1] = { NULL };
    char text[SHOWN], *copy = strdup(e->key->choices), *rest;
    CE_ASSERT(e->doc && copy);
    names[0] = strtok_r(copy, "|", &rest);
    for (int count = 1; names[count - 1] && count < MAX_NAMES; count++)
        names[count] = strtok_r(NULL, "|", &rest);
    const char *nearest = wanted ? cs_nearest(wanted, names) : NULL;
    /* The sentence of a key may mention the names that other libraries have for its values. */
    bool told = !nearest && wanted && strlen(wanted) > 2 && strstr(e->key->sentence, wanted);
    ce_json_fault(e->doc, e->path, "one of %s is needed, not %s%s%s%s%s%s", e->key->choices,
                  ce_json_show(e->value, text, sizeof text), nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                  nearest ? "\"?" : "", told ? "; " : "", told ? e->key->sentence : "");
    free(copy);
}

static void read_choice(const ce_value *e)
{
    const char *wanted = json_string_value(e->value);
    int index = 0;
    for (const char *choice = e->key->choices; wanted; index++) {
        size_t length = strcspn(choice, "|");
        if (strlen(wanted) == length && strncasecmp(wanted, choice, length) == 0) {
            *(int *)e->field = index;
            return;
        }
        if (!choice[length])
            break;
        choice += length + 1;
    }
    refuse_choice(e, wanted);
}

static void read_pair(const ce_value *e)
{
    double *pair = (double *)(void *)e->field, both[2] = { NAN, NAN };
    if (json_is_array(e->value) && json_array_size(e->value) == 2)
        for (size_t i = 0; i < 2; i++)
            if (json_is_number(json_array_get(e->value, i)))
                both[i] = number_of(json_array_get(e->value, i));
    if (!isfinite(both[0]) || !isfinite(both[1]))
        refuse(e, "a list of two numbers is needed");
    else if (is_within(e, both[0]) && is_within(e, both[1]))
        memcpy(pair, both, sizeof both);
}

json_t *ce_value_fallback(const ce_key *key)
{
    json_t *value = json_loads(key->fallback, JSON_DECODE_ANY, NULL);
    CE_ASSERT(value);
    return value;
}

json_t *ce_value_sample(const ce_key *key)
{
    bool untyped = strcmp(key->fallback, "null") == 0 && key->type == CE_KEY_INERT && key->choices;
    return untyped ? json_loads(key->choices, JSON_DECODE_ANY, NULL) : ce_value_fallback(key);
}

static const char *type_name(const json_t *value)
{
    return json_is_boolean(value)  ? "true or false is needed"
           : json_is_number(value) ? "a number is needed"
           : json_is_string(value) ? "a string in double quotes is needed"
           : json_is_object(value) ? "an object is needed"
                                   : "a list is needed";
}

bool ce_value_check_inert(const ce_value *e)
{
    json_auto_t *usual = ce_value_fallback(e->key);
    json_auto_t *sample = ce_value_sample(e->key);
    bool differs = false, same_type = json_typeof(sample) == json_typeof(e->value) ||
                                      (json_is_boolean(sample) && json_is_boolean(e->value)) ||
                                      (json_is_number(sample) && json_is_number(e->value));
    if (ce_value_is_auto(e->value))
        ;
    else if (!same_type && !json_is_null(sample))
        refuse(e, type_name(sample));
    else if (json_is_number(e->value) && e->key->max == INFINITY && number_of(e->value) != trunc(number_of(e->value)))
        refuse(e, "a whole number is needed");
    else if (!json_is_number(e->value))
        differs = !json_equal(usual, e->value);
    else if (is_within(e, number_of(e->value)))
        differs = json_is_null(usual) || json_number_value(usual) != json_number_value(e->value);
    return differs;
}

/* ---- inert and refused keys ---- */

static bool equals_text(const json_t *value, const char *text, size_t length)
{
    json_auto_t *other = json_loadb(text, length, JSON_DECODE_ANY, NULL);
    bool equal = json_is_number(other) && json_is_number(value) ? json_number_value(other) == json_number_value(value)
                                                                : json_equal(other, value);
    return equal;
}

bool ce_value_is_harmless(const ce_key *key, const json_t *value)
{
    const json_t *enabled = json_object_get(value, "enabled");
    if (json_is_null(value) || ce_value_is_auto(value) || equals_text(value, key->fallback, strlen(key->fallback)))
        return true;
    if (json_is_object(value) && (json_object_size(value) == 0 || json_is_false(enabled) ||
                                  (!enabled && strcmp(key->fallback, "{\"enabled\": false}") == 0)))
        return true;
    if (json_is_array(value) && json_array_size(value) == 0)
        return true;
    for (const char *choice = key->choices; choice;) {
        size_t length = strcspn(choice, "|");
        if (equals_text(value, choice, length))
            return true;
        choice = choice[length] ? choice + length + 1 : NULL;
    }
    return false;
}

void ce_value_read(const ce_value *e)
{
    switch (e->key->type) {
    case CE_KEY_BOOL:
        read_bool(e);
        break;
    case CE_KEY_INT:
        read_int(e);
        break;
    case CE_KEY_NUMBER:
        read_number(e);
        break;
    case CE_KEY_STRING:
        read_string(e);
        break;
    case CE_KEY_CHOICE:
        read_choice(e);
        break;
    case CE_KEY_PAIR:
        read_pair(e);
        break;
    case CE_KEY_JSON:
        *(const json_t **)(void *)e->field = e->value;
        break;
    case CE_KEY_REFUSED:
        if (!ce_value_is_harmless(e->key, e->value))
            ce_json_fault_key(e->doc, e->path, "not supported: %s, because %s%s", e->path, e->key->sentence,
                              e->key->min > 0 ? ce_json_lenient_hint(e->doc) : "");
        break;
    case CE_KEY_SECTION:
        if (!json_is_object(e->value))
            refuse(e, json_is_boolean(e->value)
                          ? "an object is needed ({\"enabled\": true}, if the section has this key)"
                          : "an object is needed");
        break;
    case CE_KEY_INERT:
        break;
    }
}

json_t *ce_value_of(const ce_key *key, const char *field)
{
    switch (key->type) {
    case CE_KEY_BOOL:
        return json_boolean(*(const bool *)field);
    case CE_KEY_INT:
        return json_integer(*(const int64_t *)(const void *)field);
    case CE_KEY_NUMBER:
        return json_real(*(const double *)(const void *)field);
    case CE_KEY_PAIR: {
        const double *pair = (const double *)(const void *)field;
        return json_pack("[ff]", pair[0], pair[1]);
    }
    case CE_KEY_INERT:
        return ce_value_fallback(key);
    default:
        return NULL;
    }
}

static json_t *choice_of(const ce_key *key, int index)
{
    const char *choice = key->choices;
    for (; index > 0; index--)
        choice += strcspn(choice, "|") + 1;
    return json_stringn(choice, strcspn(choice, "|"));
}

json_t *ce_value_any(const ce_key *key, const char *field)
{
    const char *text = key->type == CE_KEY_STRING ? *(const char *const *)(const void *)field : NULL;
    json_t *json = key->type == CE_KEY_JSON ? *(json_t *const *)(const void *)field : NULL;
    if (key->type == CE_KEY_CHOICE)
        return choice_of(key, *(const int *)(const void *)field);
    if (key->type == CE_KEY_STRING)
        return text ? json_string(text) : json_null();
    if (key->type == CE_KEY_JSON)
        return json ? json_incref(json) : json_null();
    if (key->type == CE_KEY_NUMBER && isinf(*(const double *)(const void *)field))
        return json_string("Infinity");
    return key->type < CE_KEY_INERT ? ce_value_of(key, field) : NULL;
}
