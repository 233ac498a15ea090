/* yaml.c - YAML by libyaml, as JSON values. Plain scalars are null, true or false (also yes, no, on and off), numbers, or
 * text, as in YAML 1.1; "1e-5" is a number too, although YAML 1.1 wants a point in it. */
#include "recipe/recipe.h"
#include "base/must.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifdef CE_HAS_YAML
#include <yaml.h>

enum { MAX_DEPTH = 64 };

typedef struct {
    yaml_parser_t parser;
    json_t *anchors; /* values by their anchors */
    const char *name;
    int depth;
} reader;

static cs_status next(reader *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event))
        return CS_OK;
    return ce_fail(CS_BAD_FILE, "%s:%zu:%zu: not YAML: %s", r->name, r->parser.problem_mark.line + 1,
                   r->parser.problem_mark.column + 1, r->parser.problem ? r->parser.problem : "it cannot be read");
}

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcasecmp(text, *words) == 0)
            return true;
    return false;
}

static json_t *plain(const char *text)
{
    static const char *const none[] = { "", "~", "null", NULL }, *const yes[] = { "true", "yes", "on", NULL },
                             *const no[] = { "false", "no", "off", NULL };
    char *end;
    if (is_one_of(text, none))
        return json_null();
    if (is_one_of(text, yes) || is_one_of(text, no))
        return json_boolean(is_one_of(text, yes));
    if (!strchr("+-.0123456789", *text))
        return json_string(text);
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (!*end && end != text && errno == 0)
        return json_integer(whole);
    double number = strtod(text, &end);
    return !*end && end != text && isfinite(number) ? json_real(number) : json_string(text);
}

static cs_status read_value(reader *r, json_t **value, const yaml_event_t *event);

/* Adds the members of a "<<" to an object, unless it has them. */
static void merge(json_t *into, json_t *from)
{
    size_t i;
    json_t *part;
    if (json_is_object(from))
        json_object_update_missing(into, from);
    json_array_foreach (from, i, part)
        json_object_update_missing(into, part);
}

static cs_status read_members(reader *r, json_t *object)
{
    for (;;) {
        yaml_event_t key, event;
        json_t *value = NULL;
        CE_TRY(next(r, &key));
        bool ends = key.type == YAML_MAPPING_END_EVENT;
        cs_status status = CS_OK;
        if (!ends && key.type != YAML_SCALAR_EVENT)
            status = ce_fail(CS_BAD_FILE, "%s:%zu: a key that is not a word", r->name, key.start_mark.line + 1);
        else if (!ends && (status = next(r, &event)) == CS_OK) {
            status = read_value(r, &value, &event);
            yaml_event_delete(&event);
        }
        const char *name = ends ? "" : (const char *)key.data.scalar.value;
        if (value && strcmp(name, "<<") == 0)
            merge(object, value);
        else if (value && json_object_set(object, name, value) != 0)
            status = ce_fail(CS_BAD_FILE, "%s:%zu: a key that is not UTF-8", r->name, key.start_mark.line + 1);
        json_decref(value);
        yaml_event_delete(&key);
        if (ends || status != CS_OK)
            return status;
    }
}

static cs_status read_items(reader *r, json_t *array)
{
    for (;;) {
        yaml_event_t event;
        json_t *value = NULL;
        CE_TRY(next(r, &event));
        bool ends = event.type == YAML_SEQUENCE_END_EVENT;
        cs_status status = ends ? CS_OK : read_value(r, &value, &event);
        yaml_event_delete(&event);
        if (value)
            json_array_append_new(array, value);
        if (ends || status != CS_OK)
            return status;
    }
}

static cs_status read_collection(reader *r, json_t **value, const yaml_event_t *event)
{
    bool object = event->type == YAML_MAPPING_START_EVENT;
    if (r->depth == MAX_DEPTH)
        return ce_fail(CS_BAD_FILE, "%s:%zu: more than %d levels", r->name, event->start_mark.line + 1, MAX_DEPTH);
    r->depth++;
    *value = object ? json_object() : json_array();
    cs_status status = object ? read_members(r, *value) : read_items(r, *value);
    r->depth--;
    return status;
}

/* Reads the value that begins with `event`. The caller decrements the reference, also after a failure. */
static cs_status read_value(reader *r, json_t **value, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL;
    cs_status status = CS_OK;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        *value = json_incref(json_object_get(r->anchors, (const char *)event->data.alias.anchor));
        break;
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        *value = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE
                     ? plain((const char *)event->data.scalar.value)
                     : json_string((const char *)event->data.scalar.value);
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        status = read_collection(r, value, event);
        break;
    default:
        anchor = event->data.sequence_start.anchor;
        status = read_collection(r, value, event);
    }
    if (status == CS_OK && !*value)
        return ce_fail(CS_BAD_FILE, "%s:%zu: the value is an unknown alias, or is not UTF-8", r->name,
                       event->start_mark.line + 1);
    if (status == CS_OK && anchor)
        json_object_set(r->anchors, (const char *)anchor, *value);
    return status;
}

static cs_status read_document(reader *r, json_t **value)
{
    cs_status status = CS_OK;
    for (bool ends = false; status == CS_OK && !ends && !*value;) {
        yaml_event_t event;
        CE_TRY(next(r, &event));
        if (event.type == YAML_STREAM_END_EVENT)
            ends = true;
        else if (event.type != YAML_STREAM_START_EVENT && event.type != YAML_DOCUMENT_START_EVENT &&
                 event.type != YAML_DOCUMENT_END_EVENT)
            status = read_value(r, value, &event);
        yaml_event_delete(&event);
    }
    if (status == CS_OK && !json_is_object(*value))
        return ce_fail(CS_BAD_FILE, "%s: the recipe is not a mapping of keys to values (learning_rate: 2e-5)", r->name);
    return status;
}

cs_status cl_recipe_read_yaml(json_t **recipe, const char *text, size_t length, const char *name)
{
    reader r = { .anchors = json_object(), .name = name };
    *recipe = NULL;
    CE_ASSERT(r.anchors && yaml_parser_initialize(&r.parser));
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    cs_status status = read_document(&r, recipe);
    yaml_parser_delete(&r.parser);
    json_decref(r.anchors);
    if (status != CS_OK) {
        json_decref(*recipe);
        *recipe = NULL;
    }
    return status;
}

#else

cs_status cl_recipe_read_yaml(json_t **recipe, const char *text, size_t length, const char *name)
{
    *recipe = NULL;
    (void)text, (void)length;
    return ce_fail(CS_UNSUPPORTED,
                   "not supported: %s, because this build cannot read YAML: install libyaml's headers "
                   "(Debian: libyaml-dev) and build again",
                   name);
}

#endif
