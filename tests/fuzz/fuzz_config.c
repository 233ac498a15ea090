/* fuzz_config.c - reads any bytes, and any JSON structure, as a configuration: it is refused with a message or
 * resolved, without a crash. A resolved configuration that is read again resolves to itself.
 *
 * The bytes before the first NUL are the configuration; the bytes after this NUL are overrides, one on each line. If
 * the configuration is JSON, it is read once more without the overrides, and some known keys are set to values of every
 * kind. A hash of the configuration's text selects these keys and values. */
#include "base/must.h"
#include "config/listing.h"
#include "config/sections.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static cs_config *make(const char *text, size_t length)
{
    ce_json *doc;
    if (ce_json_parse(&doc, text, length, "fuzz.json") != CS_OK) {
        CE_ASSERT(*cs_error());
        return NULL;
    }
    cs_config *config = calloc(1, sizeof *config);
    CE_ASSERT(config);
    config->doc = doc;
    ce_json_advise(doc, ce_listing_advise);
    return config;
}

static void set_all(cs_config *config, char *lines)
{
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n"))
        if (cs_config_set(config, line) != CS_OK)
            CE_ASSERT(*cs_error());
}

/* A resolved configuration, read again, is accepted and resolves to itself. */
static void check_again(const cs_config *config)
{
    cs_config *again = make(config->text, strlen(config->text));
    CE_ASSERT(again);
    if (cs_config_finish(again) != CS_OK)
        ce_fatal(CS_BAD_CONFIG, "%s\n%s", cs_error(), config->text);
    CE_ASSERT(strcmp(again->text, config->text) == 0);
    cs_config_close(again);
}

static void look(void *to, const ce_listing *item)
{
    CE_ASSERT(item->value && *item->origin);
    ++*(int *)to;
}

static void finish(cs_config *config)
{
    int listed = 0;
    if (cs_config_finish(config) == CS_OK)
        check_again(config);
    else
        CE_ASSERT(*cs_error());
    ce_listing_each(config, look, &listed);
    CE_ASSERT(listed > 0 || !config->filled);
}

static uint32_t draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* Sets a key to a value, both drawn at random: any key of any section, or of any schedule's parameters. */
static void set_known(cs_config *config, uint32_t *state)
{
    static const char *const values[] = {
        "true",   "false",  "null",     "0",     "1",       "-1",       "2",     "0.5",  "1e12", "\"auto\"",
        "[]",     "{}",     "[1, 2]",   "[3]",   "\"cpu\"", "Infinity", "1e300", "\"\"", "64",   "{\"enabled\": true}",
        "[null]", "-1e300", "\"true\"", "\"3\"", "\"0.5\"", "\"${X}\""
    };
    char assignment[512];
    int sections = 0;
    while (ce_sections_at(sections))
        sections++;
    const ce_section *section = ce_sections_at((int)draw(state, (uint32_t)sections));
    const ce_schedule *shape = ce_schedule_at((int)draw(state, 32));
    const char *folder = section->path, *value = values[draw(state, sizeof values / sizeof *values)];
    const ce_key *key = &section->keys[draw(state, (uint32_t)section->count)];
    if (shape && shape->key_count > 0) { /* the schedule "constant" has no key */
        folder = "scheduler.params";
        key = &shape->keys[draw(state, (uint32_t)shape->key_count)];
    }
    snprintf(assignment, sizeof assignment, "%s%s%s=%s", folder, *folder ? "." : "", key->name, value);
    if (cs_config_set(config, assignment) != CS_OK)
        CE_ASSERT(*cs_error());
    if (shape) {
        snprintf(assignment, sizeof assignment, "scheduler.type=%s", shape->name);
        if (cs_config_set(config, assignment) != CS_OK)
            CE_ASSERT(*cs_error());
    }
}

static void try_structure(const char *text, size_t length, size_t size)
{
    cs_config *config = make(text, length);
    uint32_t state = (uint32_t)size;
    for (size_t i = 0; i < length; i++)
        state = state * 31 + (unsigned char)text[i];
    for (uint32_t changes = 1 + draw(&state, 6); config && changes > 0; changes--)
        set_known(config, &state);
    if (config)
        finish(config);
    cs_config_close(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = calloc(size + 1, 1);
    CE_ASSERT(copy);
    memcpy(copy, data, size);
    json_decref(ce_json_strict(copy, size));
    const char *split = memchr(copy, 0, size);
    size_t length = split ? (size_t)(split - copy) : size;
    cs_config *config = make(copy, length);
    if (config) {
        try_structure(copy, length, size);
        if (split)
            set_all(config, copy + length + 1);
        finish(config);
    }
    cs_config_close(config);
    free(copy);
    return 0;
}
