/* config.c - opens a configuration, applies overrides, resolves it, and returns its values. */
#include "config/config.h"
#include "base/base64.h"
#include "base/files.h"
#include "hub/hub.h"
#include "base/misuse.h"
#include "base/must.h"
#include "config/listing.h"
#include "config/resolve.h"
#include "config/sections.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_object(const char *text)
{
    return text && text[strspn(text, " \t\r\n")] == '{';
}

/* Opens the file `path`. If there is no such file, a `path` that begins with "{" is the JSON text itself, and, as with
 * DeepSpeed, one that decodes to such a text is its base64. */
static cs_status open_document(ce_json **doc, const char *path)
{
    size_t length = strlen(path);
    bool file = access(path, F_OK) == 0;
    if (!file && is_object(path))
        return ce_json_parse(doc, path, length, "text");
    CE_FREED char *decoded = file ? NULL : ce_base64_decode(path, &length);
    return is_object(decoded) ? ce_json_parse(doc, decoded, length, "base64") : ce_json_open(doc, path);
}

cs_status cs_config_open(cs_config **config, const char *path)
{
    ce_json *doc;
    CE_GIVEN(config, path);
    *config = NULL;
    CE_TRY(open_document(&doc, path));
    *config = ce_must_alloc(sizeof **config);
    (*config)->doc = doc;
    ce_json_advise(doc, ce_listing_advise);
    return CS_OK;
}

/* Splits KEY.PATH=VALUE: copies the path and returns the value. If the text has another form, returns NULL and sets
 * cs_error(). */
static const char *split(const cs_config *config, const char *assignment, char path[256])
{
    const char *equals = strchr(assignment, '=');
    if (config->finished)
        ce_misuse(NULL, "\"%.80s\" is set after cs_config_finish, which has resolved all values", assignment);
    if (!equals || equals == assignment || equals - assignment >= 256) {
        (void)ce_fail(CS_BAD_CONFIG, "command line: \"%.80s\" is not KEY.PATH=VALUE", assignment);
        return NULL;
    }
    memcpy(path, assignment, (size_t)(equals - assignment));
    path[equals - assignment] = 0;
    return equals + 1;
}

cs_status cs_config_set(cs_config *config, const char *assignment)
{
    CE_GIVEN(config, assignment);
    char path[256];
    const char *value = split(config, assignment, path);
    return value ? ce_json_set(config->doc, path, value) : CS_BAD_CONFIG;
}

cs_status cs_config_default(cs_config *config, const char *assignment)
{
    CE_GIVEN(config, assignment);
    char path[256];
    const char *value = split(config, assignment, path);
    if (!value || ce_json_is_set(config->doc, path))
        return value ? CS_OK : CS_BAD_CONFIG;
    CE_TRY(ce_json_set(config->doc, path, value));
    ce_json_mark(config->doc, path, "program");
    return CS_OK;
}

void cs_config_lenient(cs_config *config)
{
    CE_GIVEN(config);
    ce_json_lenient(config->doc);
}

void cs_config_for_world(cs_config *config, int size, int local_size)
{
    CE_GIVEN(config);
    config->world = (cs_world){ .size = size, .local_size = local_size };
}

void cs_config_close(cs_config *config)
{
    if (!config)
        return;
    if (config->attached)
        config->detach(config->attached);
    ce_json_close(config->doc);
    free(config->text);
    free(config);
}

/* ---- resolving ---- */

/* Writes JSON. Numbers have 15 digits, so that 0.1 stays "0.1". If 15 digits do not give every number exactly, all
 * numbers of the text have 17 digits. */
static char *print(const json_t *root)
{
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_t *back = text ? json_loads(text, 0, NULL) : NULL;
    if (!json_equal(root, back)) {
        free(text);
        text = json_dumps(root, JSON_INDENT(2));
    }
    json_decref(back);
    CE_ASSERT(text);
    return text;
}

/* Writes a resolved batch size into the document. An elastic configuration is written without batch sizes, because they
 * are different for another world size. */
static void write_number(cs_config *config, const char *name, int64_t number)
{
    const ce_elasticity *elastic = &config->settings.elasticity;
    json_t *root = ce_json_root(config->doc);
    if (!ce_json_is_set(config->doc, name) && !elastic->enabled)
        ce_json_mark(config->doc, name, "derived");
    if (elastic->enabled && !elastic->ignore_non_elastic_batch_info)
        json_object_del(root, name);
    else
        json_object_set_new(root, name, json_integer(number));
}

static void write_text(cs_config *config)
{
    write_number(config, "train_batch_size", config->settings.train_batch_size);
    write_number(config, "train_micro_batch_size_per_gpu", config->settings.micro_batch);
    write_number(config, "gradient_accumulation_steps", config->settings.accumulation);
    config->text = print(ce_json_root(config->doc));
}

cs_status cs_config_finish(cs_config *config)
{
    CE_GIVEN(config);
    if (config->finished)
        return CS_OK;
    CE_TRY(ce_json_verdict(config->doc)); /* A second call of cs_config_finish reports the same errors again. */
    ce_templates_check(config);
    CE_TRY(ce_json_verdict(config->doc));
    if (config->world.size == 0)
        CE_TRY(cs_world_read(&config->world));
    memset(&config->settings, 0, sizeof config->settings);
    ce_steps_run(config);
    CE_TRY(ce_json_verdict(config->doc));
    write_text(config);
    config->finished = true;
    return CS_OK;
}

cs_status ce_config_need_model(const cs_config *config)
{
    const char *folder = config->settings.model_path;
    char hint[CE_HUB_HINT];
    if (folder ? ce_files_exists(folder) : config->settings.model != NULL)
        return CS_OK;
    if (!folder)
        return ce_fail(CS_BAD_CONFIG,
                       "no model: name a Hugging Face folder (train --model DIR, or the key cspeed.model), or "
                       "describe one (cspeed.model as an object with the keys of a config.json); a C program can "
                       "pass its own to cs_initialize");
    ce_hub_hint(hint, folder);
    return ce_fail(
        CS_NOT_FOUND,
        "cspeed.model: %s: no such folder; name a Hugging Face folder, or describe the model in place of its "
        "name%s",
        folder, hint);
}

/* Sets the number `name` in a section of config->doc, and makes config->text from config->doc again. config->doc must
 * have the section. */
static void change_number(cs_config *config, const char *section, const char *name, int64_t number)
{
    json_object_set_new(ce_json_find(config->doc, section), name, json_integer(number));
    free(config->text);
    config->text = print(ce_json_root(config->doc));
}

void ce_config_cut_windows(cs_config *config, int64_t seq_len)
{
    config->settings.seq_len = seq_len;
    change_number(config, "cspeed.data", "seq_len", seq_len);
    ce_json_mark(config->doc, "cspeed.data.seq_len", "derived: the model's positions");
}

void ce_config_set_total(cs_config *config, int64_t steps)
{
    const char *total = ce_schedule_total(&config->settings.schedule);
    config->settings.schedule.total_num_steps = steps;
    if (total) /* NULL: only the schedule's warm-up is a share of all steps */
        change_number(config, "scheduler.params", total, steps);
}

const char *const ce_config_biases[] = { "none", "all", "lora_only", NULL };

void ce_config_set_lora(cs_config *config, const ce_lora_settings *lora)
{
    json_t *section = ce_json_find(config->doc, "cspeed.lora");
    json_object_set_new(section, "r", json_integer(lora->r));
    json_object_set_new(section, "alpha", json_real(lora->alpha));
    json_object_set_new(section, "dropout", json_real(lora->dropout));
    json_object_set_new(section, "rslora", json_boolean(lora->rslora));
    json_object_set_new(section, "dora", json_boolean(lora->dora));
    json_object_set_new(section, "bias", json_string(ce_config_biases[lora->bias]));
    json_object_set(section, "targets", lora->targets);
    for (int i = 0; i < CE_PEFT_KEYS; i++)
        if (lora->peft[i])
            json_object_set(section, ce_config_peft_keys[i], lora->peft[i]);
    config->settings.lora = *lora;
    free(config->text);
    config->text = print(ce_json_root(config->doc));
}

const char *const ce_config_four_bits[] = { "nf4", "fp4", NULL };

void ce_config_set_quantization(cs_config *config, const ce_quantization_settings *settings)
{
    json_t *section = ce_json_find(config->doc, "cspeed.quantization_config");
    json_object_set_new(section, "load_in_4bit", json_boolean(settings->on));
    json_object_set_new(section, "bnb_4bit_quant_type", json_string(ce_config_four_bits[settings->type]));
    json_object_set_new(section, "bnb_4bit_use_double_quant", json_boolean(settings->twice));
    json_object_set(section, "llm_int8_skip_modules", settings->skip ? settings->skip : json_null());
    config->settings.quantization = *settings;
    free(config->text);
    config->text = print(ce_json_root(config->doc));
}

/* ---- getters ---- */

/* Returns the row of the key with this dotted path in the key tables, and sets *field to the address of the key's value
 * in config->settings. */
static const ce_key *find(const cs_config *config, const char *path, const char **field)
{
    const ce_settings *s = &config->settings;
    const void *base = s;
    const ce_section *section;
    const ce_key *key = ce_sections_key(path, &section);
    int count;
    if (!config->finished)
        ce_misuse(NULL, "the value of %s is asked for before cs_config_finish, which resolves it", path);
    if (strncmp(path, "optimizer.params.", 17) == 0) {
        const ce_key *keys = ce_optim_keys(&s->optim, &count);
        base = &s->optim;
        key = ce_keys_find(keys, count, path + 17);
    } else if (strncmp(path, "scheduler.params.", 17) == 0 && s->schedule.shape) {
        base = &s->schedule;
        key = ce_keys_find(s->schedule.shape->keys, s->schedule.shape->key_count, path + 17);
    }
    if (!key || key->type >= CE_KEY_INERT)
        ce_misuse(NULL, "there is no key \"%s\" that has a value (docs/keys.md lists the keys)", path);
    *field = (const char *)base + key->offset;
    return key;
}

/* Ends the process unless the getter `function` returns values of the key's type. */
static void check_type(const char *function, const char *path, bool right)
{
    if (!right)
        ce_misuse(function, "the value of \"%s\" has another type (docs/keys.md has the types)", path);
}

int64_t cs_config_get_int(const cs_config *config, const char *path)
{
    CE_GIVEN(config, path);
    const char *field;
    const ce_key *key = find(config, path, &field);
    check_type(__func__, path, key->type == CE_KEY_INT || key->type == CE_KEY_CHOICE);
    return key->type == CE_KEY_CHOICE ? *(const int *)(const void *)field : *(const int64_t *)(const void *)field;
}

double cs_config_get_number(const cs_config *config, const char *path)
{
    CE_GIVEN(config, path);
    const char *field;
    const ce_key *key = find(config, path, &field);
    check_type(__func__, path, key->type == CE_KEY_NUMBER || key->type == CE_KEY_INT);
    return key->type == CE_KEY_INT ? (double)*(const int64_t *)(const void *)field
                                   : *(const double *)(const void *)field;
}

/* Returns the value of a key. If the value is a list, returns the first string of the list. The path "precision" is not
 * a key: for this path, returns the name of the precision that follows from fp16, bf16, amp and torch_autocast. */
const char *cs_config_get_string(const cs_config *config, const char *path)
{
    CE_GIVEN(config, path);
    const char *field;
    if (strcmp(path, "precision") == 0)
        return ce_numbers_name(&config->settings);
    const ce_key *key = find(config, path, &field);
    check_type(__func__, path, key->type == CE_KEY_STRING || key->type == CE_KEY_JSON);
    if (key->type == CE_KEY_STRING)
        return *(const char *const *)(const void *)field;
    const json_t *value = *(json_t *const *)(const void *)field;
    return json_string_value(json_is_array(value) ? json_array_get(value, 0) : value);
}

bool cs_config_get_bool(const cs_config *config, const char *path)
{
    CE_GIVEN(config, path);
    const char *field;
    const ce_key *key = find(config, path, &field);
    check_type(__func__, path, key->type == CE_KEY_BOOL);
    return *(const bool *)field;
}
