/* peft_names.c - chooses modules by their names, as PEFT does. */
#include "interchange/peft_names.h"
#include "base/must.h"
#include "text/pattern.h"

#include <stdlib.h>
#include <string.h>

/* The forms of regular expressions around the given one: as re.fullmatch compares target_modules, as keys of rank_pattern
 * are compared, the beginning of a name up to the number of a layer, with and without layers_pattern, and a module of
 * modules_to_save with the modules inside it. */
#define WHOLE "\\A(?:%s)\\z"
#define END "\\A(.*\\.)?(%s)$"
#define LAYER_OF "\\A(?:^|.*?\\.)%s\\.\\d+\\."
#define INSIDE "\\A(^|.*\\.)%s($|\\..*)"
#define LAYER "\\A.*?\\.[^.]*\\.\\d+\\."

/* Returns the length of what the expression matches at the beginning of the text; 0 if it does not match. */
static size_t match(const char *expression, const char *text)
{
    ce_pattern *pattern;
    ce_match found = { 0 };
    if (ce_pattern_open(&pattern, expression, CE_PATTERN_OWN) != CS_OK)
        return 0; /* ce_peft_check_names has compiled it before */
    ce_matcher *matcher = ce_matcher_open();
    bool matches = ce_pattern_next(pattern, matcher, text, strlen(text), &found);
    ce_matcher_close(matcher);
    ce_pattern_close(pattern);
    return matches ? found.to : 0;
}

static bool is_end(const char *name, const char *module)
{
    size_t length = strlen(module), tail = strlen(name);
    return tail <= length && strcmp(module + length - tail, name) == 0 &&
           (tail == length || module[length - tail - 1] == '.');
}

bool ce_peft_matches(const json_t *names, const char *module)
{
    size_t index;
    json_t *name;
    if (json_is_string(names)) {
        CE_FREED char *whole = ce_must_print(WHOLE, json_string_value(names));
        return match(whole, module) > 0;
    }
    json_array_foreach (names, index, name) {
        if (is_end(json_string_value(name), module))
            return true;
    }
    return false;
}

static const json_t *key_of(const json_t *lora, const char *key)
{
    return json_object_get(json_object_get(lora, "peft"), key);
}

/* ---- layers_to_transform ---- */

/* Returns the number of the layer that a module belongs to; -1 if it belongs to none. */
static int64_t layer_number(const json_t *patterns, const char *module)
{
    size_t index, end = 0;
    json_t *pattern;
    if (json_is_string(patterns)) {
        CE_FREED char *expression = ce_must_print(LAYER_OF, json_string_value(patterns));
        end = match(expression, module);
    }
    json_array_foreach (patterns, index, pattern) {
        CE_FREED char *expression = ce_must_print(LAYER_OF, json_string_value(pattern));
        end = end ? end : match(expression, module);
    }
    if (!patterns)
        end = match(LAYER, module);
    if (end == 0)
        return -1;
    for (end--; module[end - 1] != '.';) /* the match ends with a number and a dot */
        end--;
    return strtoll(module + end, NULL, 10);
}

static bool has_layer(const json_t *layers, int64_t number)
{
    size_t index;
    json_t *item;
    if (json_is_integer(layers))
        return json_integer_value(layers) == number;
    json_array_foreach (layers, index, item) {
        if (json_integer_value(item) == number)
            return true;
    }
    return false;
}

/* ---- modules_to_save ---- */

bool ce_peft_saves(const json_t *lora, const char *parameter)
{
    size_t index;
    json_t *item;
    json_array_foreach (key_of(lora, "modules_to_save"), index, item) {
        size_t tail = json_string_length(item);
        for (const char *dot = strchr(parameter, '.'); dot; dot = strchr(dot + 1, '.'))
            if ((size_t)(dot - parameter) >= tail && strncmp(dot - tail, json_string_value(item), tail) == 0)
                return true;
    }
    return false;
}

/* Returns true if the layer is inside a module of modules_to_save, where PEFT adds no adapters. */
static bool is_inside_saved(const json_t *lora, const char *layer)
{
    size_t index;
    json_t *item;
    json_array_foreach (key_of(lora, "modules_to_save"), index, item) {
        CE_FREED char *expression = ce_must_print(INSIDE, json_string_value(item));
        if (match(expression, layer))
            return true;
    }
    return false;
}

/* ---- ranks ---- */

/* Returns the value of the first key, a regular expression, that matches the end of the module's name. */
static const json_t *value_for(const json_t *patterns, const char *module, const json_t *otherwise)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)patterns, key, value) {
        CE_FREED char *expression = ce_must_print(END, key);
        if (match(expression, module))
            return value;
    }
    return otherwise;
}

bool ce_peft_choose(const void *lora, const char *layer, int64_t *r, double *alpha)
{
    const json_t *targets = json_object_get(lora, "targets"), *layers = key_of(lora, "layers_to_transform");
    const char *all = json_string_value(targets);
    if (ce_peft_matches(key_of(lora, "exclude_modules"), layer) || is_inside_saved(lora, layer) ||
        !((all && strcmp(all, "all-linear") == 0) || ce_peft_matches(targets, layer)) ||
        (layers && !has_layer(layers, layer_number(key_of(lora, "layers_pattern"), layer))))
        return false;
    *r = json_integer_value(value_for(key_of(lora, "rank_pattern"), layer, json_object_get(lora, "r")));
    *alpha = json_number_value(value_for(key_of(lora, "alpha_pattern"), layer, json_object_get(lora, "alpha")));
    return true;
}

/* ---- checks ---- */

static cs_status check(const char *key, const char *given)
{
    CE_FREED char *expression = ce_must_print("(?:%s)", given);
    if (ce_pattern_compiles(expression))
        return CS_OK;
    return ce_fail(CS_BAD_CONFIG, "cspeed.lora: %s: PCRE2 does not accept the regular expression \"%s\"", key, given);
}

cs_status ce_peft_check_names(const json_t *lora)
{
    static const char *const maps[] = { "rank_pattern", "alpha_pattern" };
    const json_t *targets = json_object_get(lora, "targets"), *excluded = key_of(lora, "exclude_modules"),
                 *layers = key_of(lora, "layers_pattern");
    const char *pattern;
    size_t index;
    json_t *item;
    if (json_is_string(targets))
        CE_TRY(check("targets", json_string_value(targets)));
    if (json_is_string(excluded))
        CE_TRY(check("exclude_modules", json_string_value(excluded)));
    if (json_is_string(layers))
        CE_TRY(check("layers_pattern", json_string_value(layers)));
    json_array_foreach (layers, index, item) {
        CE_TRY(check("layers_pattern", json_string_value(item)));
    }
    json_array_foreach (key_of(lora, "modules_to_save"), index, item) {
        CE_TRY(check("modules_to_save", json_string_value(item)));
    }
    for (int i = 0; i < 2; i++)
        json_object_foreach ((json_t *)key_of(lora, maps[i]), pattern, item) {
            CE_TRY(check(maps[i], pattern));
        }
    return CS_OK;
}
