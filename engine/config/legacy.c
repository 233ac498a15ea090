/* legacy.c - replaces DeepSpeed's deprecated keys by the current ones before the tables read the file. Each replacement
 * adds a note for the user. */
#include "config/resolve.h"
#include "config/sections.h"

#include <stdio.h>
#include <string.h>

/* Records that the value of the key `today` has the same origin as the key `old`. An origin is a line of the file, or
 * the command line. */
static void move_origin(ce_json *doc, const char *old, const char *today)
{
    char origin[64];
    ce_json_mark(doc, today, ce_json_origin(doc, old, origin, sizeof origin));
}

static void turn_boolean(ce_json *doc)
{
    const json_t *zero = ce_json_find(doc, "zero_optimization");
    if (!json_is_boolean(zero))
        return;
    int stage = json_is_true(zero);
    ce_json_note(doc, "zero_optimization", "%s is the old spelling of {\"stage\": %d}", stage ? "true" : "false",
                 stage);
    json_object_set_new(ce_json_root(doc), "zero_optimization", json_pack("{si}", "stage", stage));
    move_origin(doc, "zero_optimization", "zero_optimization.stage");
}

/* Replaces the key `old`, if its value is true, by the key `today` with the value {"device": "cpu"}. A file with both
 * keys is an error, as in DeepSpeed. */
static void turn_offload(ce_json *doc, const char *old, const char *today)
{
    char path[64];
    json_t *zero = ce_json_find(doc, "zero_optimization"), *value = json_object_get(zero, old);
    snprintf(path, sizeof path, "zero_optimization.%s", old);
    if (!json_is_boolean(value))
        return; /* If `old` has a value of another type, its row in the key table reports the error. */
    if (json_is_object(json_object_get(zero, today))) {
        ce_json_fault_key(doc, path, "the old spelling of \"%s\", which is set too: remove this one", today);
        return;
    }
    if (json_is_true(value)) {
        char device[96];
        snprintf(device, sizeof device, "zero_optimization.%s.device", today);
        json_object_set_new(zero, today, json_pack("{ss}", "device", "cpu"));
        move_origin(doc, path, device);
    }
    ce_json_note(doc, path, "the old spelling of \"%s\": {\"device\": \"%s\"}", today,
                 json_is_true(value) ? "cpu" : "none");
    json_object_del(zero, old);
}

const char *ce_legacy_spelling(ce_json *doc, const char *path)
{
    bool older = strcmp(path, "bf16") == 0 && !ce_json_is_set(doc, "bf16") && ce_json_is_set(doc, "bfloat16");
    return older ? "bfloat16" : path;
}

/* Removes the keys of "pipeline" that no table has. DeepSpeed copies this section without a check. */
static void leave_pipeline(ce_json *doc)
{
    static const char section[] = "pipeline";
    const ce_section *known = ce_sections_find(section, strlen(section));
    json_t *pipeline = ce_json_find(doc, section), *value;
    const char *name;
    void *next;
    json_object_foreach_safe(pipeline, next, name, value)
    {
        if (*name == '_' || ce_keys_find(known->keys, known->count, name))
            continue;
        ce_json_note(doc, section, "\"%s\" has no effect; DeepSpeed does not read this key either", name);
        json_object_del(pipeline, name);
    }
}

/* Moves the members of `object` whose names have Accelerate's prefix into the section parallelism_config, without the
 * prefix. `path` is the path of the object. */
static void move_prefixed(ce_json *doc, json_t *object, const char *path)
{
    static const char section[] = "parallelism_config", prefix[] = "parallelism_config_";
    const size_t length = sizeof prefix - 1;
    json_t *value;
    const char *name;
    void *next;
    json_object_foreach_safe(object, next, name, value)
    {
        char old[128], today[128];
        json_t *to = strncmp(name, prefix, length) == 0 ? ce_resolve_section(doc, section) : NULL;
        if (!to)
            continue;
        snprintf(old, sizeof old, "%s%s%s", path, *path ? "." : "", name);
        snprintf(today, sizeof today, "%s.%s", section, name + length);
        if (json_object_get(to, name + length)) {
            ce_json_fault_key(doc, old, "%s is set too: remove one of the two", today);
            continue;
        }
        json_object_set(to, name + length, value);
        move_origin(doc, old, today);
        json_object_del(object, name);
    }
}

void ce_legacy_resolve(cs_config *config)
{
    ce_json *doc = config->doc;
    turn_boolean(doc);
    leave_pipeline(doc);
    move_prefixed(doc, ce_json_root(doc), "");
    move_prefixed(doc, ce_json_find(doc, "parallelism_config"), "parallelism_config");
    turn_offload(doc, "cpu_offload", "offload_optimizer");
    turn_offload(doc, "cpu_offload_param", "offload_param");
    if (ce_json_is_set(doc, "bfloat16"))
        ce_json_note(doc, "bfloat16",
                     ce_json_is_set(doc, "bf16") ? "ignored, because \"bf16\" is set too"
                                                 : "the old spelling of \"bf16\"");
}
