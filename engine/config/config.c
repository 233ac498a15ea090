/* config.c - open, override, resolve and ask a configuration. */
#include "config/config.h"
#include "base/must.h"
#include "config/resolve.h"
#include "config/sections.h"
#include "models/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cs_status cs_config_open(cs_config **config, const char *path)
{
    cs_json *doc;
    *config = NULL;
    CS_TRY(cs_json_open(&doc, path));
    *config = calloc(1, sizeof **config);
    CS_ASSERT(*config);
    (*config)->doc = doc;
    return CS_OK;
}

cs_status cs_config_set(cs_config *config, const char *assignment)
{
    char        path[256];
    const char *equals = strchr(assignment, '=');
    CS_ASSERT(!config->finished);
    if (!equals || equals == assignment || (size_t)(equals - assignment) >= sizeof path)
        return cs_fail(CS_BAD_CONFIG, "command line: \"%.80s\" is not KEY.PATH=VALUE", assignment);
    memcpy(path, assignment, (size_t)(equals - assignment));
    path[equals - assignment] = 0;
    return cs_json_set(config->doc, path, equals + 1);
}

void cs_config_lenient(cs_config *config)
{
    cs_json_lenient(config->doc);
}

void cs_config_close(cs_config *config)
{
    if (!config)
        return;
    cs_json_close(config->doc);
    free(config->text);
    free(config);
}

/* ---- resolving ---- */

/* DeepSpeed's older spellings become today's before the tables see them. */
static void modernize(cs_json *doc)
{
    const json_t *zero = cs_json_find(doc, "zero_optimization");
    if (json_is_boolean(zero)) {
        int stage = json_is_true(zero);
        cs_json_note(doc, "zero_optimization", "%s is the old spelling of {\"stage\": %d}", stage ? "true" : "false",
                     stage);
        json_object_set_new(cs_json_root(doc), "zero_optimization", json_pack("{si}", "stage", stage));
    }
    if (cs_json_is_set(doc, "bfloat16"))
        cs_json_note(doc, "bfloat16",
                     cs_json_is_set(doc, "bf16") ? "ignored, because \"bf16\" is there too"
                                                 : "the old spelling of \"bf16\"");
}

static const char *spelling(cs_json *doc, const char *path)
{
    return strcmp(path, "bf16") == 0 && !cs_json_is_set(doc, "bf16") ? "bfloat16" : path;
}

static void fill_sections(cs_config *config)
{
    for (int i = 0; i < cs_section_count; i++) {
        const cs_section *section = &cs_sections[i];
        const char       *path    = spelling(config->doc, section->path);
        cs_keys_fill(config->doc, cs_json_find(config->doc, path), path, &config->settings, section->keys,
                     section->count);
    }
}

static json_t *object_at(cs_config *config, const char *path)
{
    json_t *value = cs_json_find(config->doc, path);
    return json_is_object(value) ? value : NULL;
}

static void settle_sections(cs_config *config)
{
    for (int i = 0; i < cs_section_count; i++) {
        const cs_section *section = &cs_sections[i];
        const char       *path    = spelling(config->doc, section->path);
        cs_keys_settle(config->doc, object_at(config, path), path, &config->settings, section->keys, section->count);
    }
}

/* With 15 digits, which is how people write numbers, if nothing is lost by it. */
static char *print(const json_t *root)
{
    char   *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_t *back = text ? json_loads(text, 0, NULL) : NULL;
    if (!json_equal(root, back)) {
        free(text);
        text = json_dumps(root, JSON_INDENT(2));
    }
    json_decref(back);
    CS_ASSERT(text);
    return text;
}

static void write_text(cs_config *config)
{
    json_t *root = cs_json_root(config->doc);
    json_object_set_new(root, "train_batch_size", json_integer(config->settings.train_batch_size));
    json_object_set_new(root, "train_micro_batch_size_per_gpu", json_integer(config->settings.micro_batch));
    json_object_set_new(root, "gradient_accumulation_steps", json_integer(config->settings.accumulation));
    config->text = print(root);
}

cs_status cs_config_finish(cs_config *config)
{
    cs_settings *s = &config->settings;
    if (config->finished)
        return CS_OK;
    CS_TRY(cs_json_verdict(config->doc)); /* a second try finds what the first found */
    CS_TRY(cs_world_read(&config->world));
    memset(s, 0, sizeof *s);
    modernize(config->doc);
    fill_sections(config);
    cs_resolve_batch(config);
    cs_resolve_precision(config);
    cs_resolve_run(config);
    cs_optim_read(config->doc, object_at(config, "optimizer"), &s->optim);
    cs_schedule_read(config->doc, object_at(config, "scheduler"), s->optim.rate, s->steps, &s->schedule);
    settle_sections(config);
    CS_TRY(cs_json_verdict(config->doc));
    write_text(config);
    config->finished = true;
    return CS_OK;
}

/* ---- asking ---- */

/* The row of a dotted path, and its field. */
static const cs_key *find(const cs_config *config, const char *path, const char **field)
{
    const char       *dot = strrchr(path, '.'), *name = dot ? dot + 1 : path, *base = (const char *)&config->settings;
    const cs_section *section = cs_sections_find(path, dot ? (size_t)(dot - path) : 0);
    const cs_key     *keys    = section ? section->keys : NULL;
    int               count   = section ? section->count : 0;
    CS_ASSERT(config->finished);
    if (strncmp(path, "optimizer.params.", 17) == 0) {
        keys = cs_optim_keys(&config->settings.optim, &count);
        base = (const char *)&config->settings.optim;
    } else if (strncmp(path, "scheduler.params.", 17) == 0 && config->settings.schedule.shape) {
        keys  = config->settings.schedule.shape->keys;
        count = config->settings.schedule.shape->key_count;
        base  = (const char *)&config->settings.schedule;
    }
    const cs_key *key = cs_keys_find(keys, count, name);
    CS_ASSERT(key && "no key of this path has a value");
    CS_ASSERT(key->type < CS_KEY_INERT);
    *field = base + key->offset;
    return key;
}

int64_t cs_config_get_int(const cs_config *config, const char *path)
{
    const char   *field;
    const cs_key *key = find(config, path, &field);
    CS_ASSERT(key->type == CS_KEY_INT || key->type == CS_KEY_CHOICE);
    return key->type == CS_KEY_CHOICE ? *(const int *)(const void *)field : *(const int64_t *)(const void *)field;
}

double cs_config_get_number(const cs_config *config, const char *path)
{
    const char   *field;
    const cs_key *key = find(config, path, &field);
    CS_ASSERT(key->type == CS_KEY_NUMBER || key->type == CS_KEY_INT);
    return key->type == CS_KEY_INT ? (double)*(const int64_t *)(const void *)field
                                   : *(const double *)(const void *)field;
}

/* A list answers with its first string. "precision" is no key, but what fp16 and bf16 come to. */
const char *cs_config_get_string(const cs_config *config, const char *path)
{
    const char *field;
    if (strcmp(path, "precision") == 0)
        return config->settings.dtype == CS_F16 ? "fp16" : config->settings.dtype == CS_BF16 ? "bf16" : "fp32";
    const cs_key *key = find(config, path, &field);
    CS_ASSERT(key->type == CS_KEY_STRING || key->type == CS_KEY_JSON);
    if (key->type == CS_KEY_STRING)
        return *(const char *const *)(const void *)field;
    const json_t *value = *(json_t *const *)(const void *)field;
    return json_string_value(json_is_array(value) ? json_array_get(value, 0) : value);
}

bool cs_config_get_bool(const cs_config *config, const char *path)
{
    const char   *field;
    const cs_key *key = find(config, path, &field);
    CS_ASSERT(key->type == CS_KEY_BOOL);
    return *(const bool *)field;
}

void cs_config_help(void)
{
    printf("Every key of the configuration: type, default, what it does, or why it is refused. \"accepted\": no effect "
           "here, and why.\n"
           "Any key can be set from the command line, --set KEY.PATH=VALUE, which overrides the file, which overrides "
           "the default.\n"
           "No environment variable sets a key.\n");
    for (int i = 0; i < cs_section_count; i++) {
        cs_keys_help(*cs_sections[i].path ? cs_sections[i].path : "top level", cs_sections[i].keys,
                     cs_sections[i].count);
        if (i == 0) {
            cs_optim_help();
            cs_schedule_help();
        }
    }
    cs_models_help();
}
