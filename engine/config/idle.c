/* idle.c - keys that have an effect in general, but none beside the other values of this configuration. */
#include "config/resolve.h"
#include "json/value.h"
#include "config/sections.h"

#include <stdio.h>
#include <string.h>

static bool reduces_units(const ce_settings *s)
{
    return s->stage == 1 || (s->stage > 1 && s->written.shard_size < 0);
}

static bool is_prescaled(const ce_settings *s)
{
    return s->written.prescale;
}

static bool gathers_nothing(const ce_settings *s)
{
    return s->stage < 3;
}

static bool shares_rows(const ce_settings *s)
{
    return s->stage == 3 && s->device == CE_CHOOSE_CPU && (strcmp(s->comm, "shm") == 0 || strcmp(s->comm, "self") == 0);
}

static bool writes_no_chats(const ce_settings *s)
{
    return !s->template;
}

static bool is_on_cpu(const ce_settings *s)
{
    return s->device == CE_CHOOSE_CPU;
}

static bool is_on_gpu(const ce_settings *s)
{
    return s->device == CE_CHOOSE_CUDA;
}

static bool validates_nothing(const ce_settings *s)
{
    return s->valid_count == 0;
}

static bool exports_nothing(const ce_settings *s)
{
    return !s->export_folder;
}

static bool keeps_all(const ce_settings *s)
{
    return s->keep_last == 0;
}

static bool traces_nothing(const ce_settings *s)
{
    return !s->trace.file;
}

static bool scales_by_constant(const ce_settings *s)
{
    return s->scaler.loss_scale > 0;
}

static bool logs_all_operations(const ce_settings *s)
{
    return s->written.prof_all;
}

#define STATIC_SCALE "fp16.loss_scale is static"
static const struct {
    const char *path;
    bool (*is_idle)(const ce_settings *s);
    const char *why;
} rows[] = {
    { "zero_optimization.reduce_bucket_size", reduces_units,
      "each unit is reduced by itself at stage 1, and at stages 2 and 3 without mics_shard_size" },
    { "gradient_predivide_factor", is_prescaled, "prescale_gradients divides by the world size instead" },
    { "fp16.initial_scale_power", scales_by_constant, STATIC_SCALE },
    { "fp16.loss_scale_window", scales_by_constant, STATIC_SCALE },
    { "fp16.hysteresis", scales_by_constant, STATIC_SCALE },
    { "fp16.consecutive_hysteresis", scales_by_constant, STATIC_SCALE },
    { "fp16.min_loss_scale", scales_by_constant, STATIC_SCALE },
    { "comms_logger.prof_ops", logs_all_operations, "comms_logger.prof_all is true" },
    { "cspeed.prefetch", gathers_nothing, "only stage 3 gathers parameters" },
    { "cspeed.prefetch", shares_rows, "CPU ranks of one host compute with each other's parameters in place" },
    { "cspeed.data.turns", writes_no_chats, "cspeed.data.template is not set, so no conversations are read" },
    { "cspeed.tf32", is_on_cpu, "cspeed.device is \"cpu\"" },
    { "cspeed.cuda_graphs", is_on_cpu, "cspeed.device is \"cpu\"" },
    { "cspeed.products", is_on_gpu, "cspeed.device is \"cuda\"" },
    { "cspeed.eval_interval", validates_nothing, "cspeed.data.valid names no data" },
    { "cspeed.evals_per_epoch", validates_nothing, "cspeed.data.valid names no data" },
    { "cspeed.eval_batches", validates_nothing, "cspeed.data.valid names no data" },
    { "cspeed.eval_on", validates_nothing, "cspeed.data.valid names no data" },
    { "cspeed.export_dtype", exports_nothing, "cspeed.export names no folder" },
    { "cspeed.lora.merge", exports_nothing, "cspeed.export names no folder" },
    { "cspeed.keep_every", keeps_all, "cspeed.keep_last is 0, so all checkpoints are kept" },
    { "cspeed.trace.first_step", traces_nothing, "cspeed.trace.file names no file" },
    { "cspeed.trace.steps", traces_nothing, "cspeed.trace.file names no file" },
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Returns true if the section has a key "enabled" that is false. The loss scale of the section fp16 is also that of
 * torch_autocast. */
static bool is_off(const ce_settings *s, const ce_section *section)
{
    const ce_key *key = ce_keys_find(section->keys, section->count, "enabled");
    if (!key || key->type != CE_KEY_BOOL || *(const bool *)((const char *)s + key->offset))
        return false;
    return strcmp(section->path, "fp16") != 0 || !s->written.autocast.enabled;
}

const char *ce_idle_because(const cs_config *config, const char *path)
{
    const char *dot = strrchr(path, '.');
    const ce_section *section = dot ? ce_sections_find(path, (size_t)(dot - path)) : NULL;
    if (section && strcmp(dot + 1, "enabled") != 0 && is_off(&config->settings, section))
        return "\"enabled\" of this section is false";
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].path, path) == 0 && rows[i].is_idle(&config->settings))
            return rows[i].why;
    return NULL;
}

/* Returns true if the configuration sets the key, and to another value than its default. */
static bool is_changed(cs_config *config, const char *path, const ce_key *key)
{
    bool text = key->type == CE_KEY_STRING && strcmp(key->fallback, "null") != 0; /* the table has it without quotes */
    json_t *usual = text ? json_string(key->fallback) : ce_value_fallback(key),
           *value = ce_value_any(key, (const char *)&config->settings + key->offset);
    bool same = json_is_number(usual) ? json_number_value(usual) == json_number_value(value) : json_equal(usual, value);
    json_decref(usual);
    json_decref(value);
    return !same && ce_resolve_is_given(config, path);
}

/* Adds one note for the keys of a section that is not enabled. */
static void note_section(cs_config *config, const ce_section *section)
{
    const char *spelling = ce_resolve_spelling(config->doc, section->path);
    char path[128], names[512] = "";
    size_t used = 0;
    if (!is_off(&config->settings, section))
        return;
    for (int i = 0; i < section->count; i++) {
        snprintf(path, sizeof path, "%s.%s", spelling, section->keys[i].name);
        bool counts = section->keys[i].type < CE_KEY_INERT && strcmp(section->keys[i].name, "enabled") != 0;
        if (counts && is_changed(config, path, &section->keys[i]) && used < sizeof names)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", section->keys[i].name);
    }
    if (used)
        ce_json_note(config->doc, spelling, "no effect, because \"enabled\" is false: %s", names);
}

void ce_idle_note(cs_config *config)
{
    const ce_section *section;
    for (int i = 0; (section = ce_sections_at(i)); i++)
        note_section(config, section);
    for (int i = 0; i < ROWS; i++) {
        const char *dot = strrchr(rows[i].path, '.');
        section = ce_sections_find(rows[i].path, dot ? (size_t)(dot - rows[i].path) : 0);
        const ce_key *key = ce_keys_find(section->keys, section->count, dot ? dot + 1 : rows[i].path);
        if (!is_off(&config->settings, section) && rows[i].is_idle(&config->settings) &&
            is_changed(config, rows[i].path, key))
            ce_json_note(config->doc, rows[i].path, "no effect here, because %s", rows[i].why);
    }
}
