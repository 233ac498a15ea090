/* idle.c - keys that have an effect in general, but none beside the other values of this configuration. */
#include "config/resolve.h"
#include "json/value.h"
#include "config/sections.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const char *path;
    bool is_idle;
    const char *why;
} row;
enum { ROWS = 29 };

/* Sets the rows of the keys that may have no effect. */
static void judge(const ce_settings *s, row rows[ROWS])
{
    static const char static_scale[] = "fp16.loss_scale is static", no_data[] = "cspeed.data.valid names no data",
                      no_folder[] = "cspeed.export names no folder", no_file[] = "cspeed.trace.file names no file";
    bool by_units = s->stage == 1 || (s->stage > 1 && s->mics_shard_size < 0), is_static = s->scaler.loss_scale > 0;
    bool on_cpu = s->device == CE_CHOOSE_CPU,
         on_host = strcmp(s->transport, "shm") == 0 || strcmp(s->transport, "self") == 0;
    row all[] = {
        { "zero_optimization.reduce_bucket_size", by_units,
          "each unit is reduced by itself at stage 1, and at stages 2 and 3 without mics_shard_size" },
        { "gradient_predivide_factor", s->prescale_gradients, "prescale_gradients divides by the world size instead" },
        { "fp16.initial_scale_power", is_static, static_scale },
        { "fp16.loss_scale_window", is_static, static_scale },
        { "fp16.hysteresis", is_static, static_scale },
        { "fp16.consecutive_hysteresis", is_static, static_scale },
        { "fp16.min_loss_scale", is_static, static_scale },
        { "comms_logger.prof_ops", s->prof_all, "comms_logger.prof_all is true" },
        { "cspeed.prefetch", s->stage < 3, "only stage 3 gathers parameters" },
        { "cspeed.prefetch", s->stage == 3 && on_cpu && on_host,
          "CPU ranks of one host compute with each other's parameters in place" },
        { "cspeed.data.turns", !s->template, "cspeed.data.template is not set, so no conversations are read" },
        { "cspeed.tf32", on_cpu, "cspeed.device is \"cpu\"" },
        { "cspeed.cuda_graphs", on_cpu, "cspeed.device is \"cpu\"" },
        { "cspeed.products", s->device == CE_CHOOSE_CUDA, "cspeed.device is \"cuda\"" },
        { "cspeed.eval_interval", s->valid_count == 0, no_data },
        { "cspeed.evals_per_epoch", s->valid_count == 0, no_data },
        { "cspeed.eval_batches", s->valid_count == 0, no_data },
        { "cspeed.eval_on", s->valid_count == 0, no_data },
        { "cspeed.export_dtype", !s->export_folder, no_folder },
        { "cspeed.lora.merge", !s->export_folder, no_folder },
        { "cspeed.keep_every", s->keep_last == 0, "cspeed.keep_last is 0, so all checkpoints are kept" },
        { "cspeed.best_metric", !s->keep_best && s->early_stopping_patience == 0,
          "neither cspeed.keep_best nor cspeed.early_stopping_patience is set" },
        { "cspeed.early_stopping_threshold", s->early_stopping_patience == 0, "cspeed.early_stopping_patience is 0" },
        { "cspeed.loss_watchdog_patience", s->loss_watchdog_threshold <= 0, "cspeed.loss_watchdog_threshold is 0" },
        { "cspeed.dpo.f_alpha_divergence_coef", s->preference.divergence != CE_ALPHA_DIVERGENCE,
          "cspeed.dpo.f_divergence_type is not alpha_divergence" },
        { "cspeed.dpo.discopop_tau", s->preference.weights[CE_PREFERENCE_DISCOPOP] <= 0,
          "cspeed.dpo.loss_type does not name discopop" },
        { "cspeed.dpo.simpo_gamma", s->preference.weights[CE_PREFERENCE_SIMPO] <= 0,
          "cspeed.dpo.loss_type is not simpo" },
        { "cspeed.trace.first_step", !s->trace.file, no_file },
        { "cspeed.trace.steps", !s->trace.file, no_file },
    };
    _Static_assert(sizeof all / sizeof *all == ROWS, "the rows are counted");
    memcpy(rows, all, sizeof all);
}

/* Returns true if the section has a key "enabled" that is false. The loss scale of the section fp16 is also that of
 * torch_autocast. */
static bool is_off(const ce_settings *s, const ce_section *section)
{
    const ce_key *key = ce_keys_find(section->keys, section->count, "enabled");
    if (!key || key->type != CE_KEY_BOOL || *(const bool *)((const char *)s + key->offset))
        return false;
    return strcmp(section->path, "fp16") != 0 || !s->autocast.enabled;
}

const char *ce_idle_because(const cs_config *config, const char *path)
{
    const ce_section *section;
    const ce_key *key = ce_sections_key(path, &section);
    row rows[ROWS];
    if (key && strcmp(key->name, "enabled") != 0 && is_off(&config->settings, section))
        return "\"enabled\" of this section is false";
    judge(&config->settings, rows);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].is_idle && strcmp(rows[i].path, path) == 0)
            return rows[i].why;
    return NULL;
}

/* Adds one note for the keys of a section that is not enabled. */
static void note_section(cs_config *config, const ce_section *section)
{
    const char *spelling = ce_legacy_spelling(config->doc, section->path);
    char path[128], names[512] = "";
    size_t used = 0;
    if (!is_off(&config->settings, section))
        return;
    for (int i = 0; i < section->count; i++) {
        snprintf(path, sizeof path, "%s.%s", spelling, section->keys[i].name);
        bool counts = section->keys[i].type < CE_KEY_INERT && strcmp(section->keys[i].name, "enabled") != 0;
        if (counts && ce_resolve_is_changed(config, path, &section->keys[i]) && used < sizeof names)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", section->keys[i].name);
    }
    if (used)
        ce_json_note(config->doc, spelling, "no effect, because \"enabled\" is false: %s", names);
}

void ce_idle_note(cs_config *config)
{
    const ce_section *section;
    row rows[ROWS];
    if (config->reads)
        return;
    for (int i = 0; (section = ce_sections_at(i)); i++)
        note_section(config, section);
    judge(&config->settings, rows);
    for (int i = 0; i < ROWS; i++) {
        const ce_key *key = ce_sections_key(rows[i].path, &section);
        if (rows[i].is_idle && !is_off(&config->settings, section) && ce_resolve_is_changed(config, rows[i].path, key))
            ce_json_note(config->doc, rows[i].path, "no effect here, because %s", rows[i].why);
    }
}
