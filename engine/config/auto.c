/* auto.c - replaces "auto" and adds missing sections as Hugging Face's DeepSpeed integration does.
 *
 * Hugging Face's Trainer changes the configuration before DeepSpeed reads it. If the file has no optimizer or no
 * schedule, Trainer adds one. It replaces "auto" by the learning rate, the stage, and sizes that follow from the width
 * of the model. This file makes the same changes, but only to keys for which the result is not the key's default. */
#include "config/resolve.h"

#include <stdio.h>
#include <string.h>

#define TRAINER_RATE 5e-5
#define TRAINER_ORIGIN "Hugging Face's default"

/* Replaces the value of the key `name` of the section `path` if it is "auto". */
static void put(ce_json *doc, const char *path, const char *name, json_t *value, const char *origin)
{
    char full[96], shown[48];
    json_t *object = ce_json_find(doc, path);
    if (ce_keys_is_auto(object, name)) {
        snprintf(full, sizeof full, "%s.%s", path, name);
        ce_json_note(doc, full, "\"auto\" became %s, %s", ce_json_show(value, shown, sizeof shown), origin);
        json_object_set(object, name, value);
        snprintf(shown, sizeof shown, "auto: %s", origin);
        ce_json_mark(doc, full, shown);
    }
    json_decref(value);
}

/* ---- missing sections ---- */

static bool holds_auto(const json_t *value)
{
    const char *name;
    const json_t *member;
    json_object_foreach ((json_t *)(uintptr_t)value, name, member) {
        if (*name != '_' && (ce_keys_is_auto(value, name) || holds_auto(member)))
            return true;
    }
    return false;
}

/* True if the file is written for Hugging Face's Trainer, that is, if it contains an "auto" that DeepSpeed itself does
 * not accept. An "auto" in a section of the list `others` does not count, because "auto" is a regular value there. An
 * "auto" in a section whose name begins with "_" does not count either. */
static bool is_for_trainer(ce_json *doc)
{
    static const char *const others[] = { "cspeed", "pipeline", "expert_parallel", "autotuning" };
    const char *name;
    json_t *value;
    json_object_foreach (ce_json_root(doc), name, value) {
        bool other = *name == '_';
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            other |= strcmp(name, others[i]) == 0;
        if (!other && (ce_keys_is_auto(ce_json_root(doc), name) || holds_auto(value)))
            return true;
    }
    return false;
}

/* True if the file does not have this section. A section that only exists because of --set does not count. */
static bool is_left_out(ce_json *doc, const char *section)
{
    char origin[64];
    return !ce_json_is_set(doc, section) || strcmp(ce_json_origin(doc, section, origin, sizeof origin), "default") == 0;
}

/* Sets a key of the section `path` if the section does not have it. */
static void supply(ce_json *doc, const char *path, const char *name, json_t *value)
{
    char full[96];
    json_t *section = ce_resolve_section(doc, path);
    snprintf(full, sizeof full, "%s.%s", path, name);
    if (!json_object_get(section, name)) {
        json_object_set(section, name, value);
        ce_json_mark(doc, full, TRAINER_ORIGIN);
    }
    json_decref(value);
}

static void note_optimizer(ce_json *doc, bool for_trainer, bool set)
{
    const char *why = for_trainer ? "whose \"auto\" says that Hugging Face's Trainer supplies it"
                                  : "as where a program supplies one of its own";
    const char *whose = for_trainer ? "that Trainer's" : "DeepSpeed's";
    if (set) /* true if --set gave keys of optimizer.params */
        ce_json_note(doc, "optimizer", "not in the file, %s: AdamW with %s defaults, except what --set gives", why,
                     whose);
    else
        ce_json_note(doc, "optimizer",
                     "not in the file, %s: AdamW with %s defaults (lr %s, betas 0.9 and 0.999, eps 1e-8, "
                     "weight_decay 0)%s; --set optimizer.params.lr=X sets another rate",
                     why, whose, for_trainer ? "5e-5" : "1e-3",
                     for_trainer || ce_json_is_set(doc, "scheduler") ? "" : ", at a constant rate");
}

static void supply_optimizer(ce_json *doc, bool for_trainer)
{
    json_t *section = ce_json_find(doc, "optimizer");
    if (!is_left_out(doc, "optimizer") || ce_json_is_set(doc, "optimizer.type"))
        return;
    note_optimizer(doc, for_trainer, json_is_object(section));
    if (!for_trainer && !json_is_object(section))
        return; /* Without a section "optimizer", the defaults in the optimizers' key tables apply. */
    json_object_set_new(ce_resolve_section(doc, "optimizer"), "type", json_string("AdamW"));
    if (for_trainer)
        supply(doc, "optimizer.params", "lr", json_real(TRAINER_RATE));
}

/* Adds Trainer's schedule if the file has none. "scheduler": null means that no schedule is wanted. If --set gives
 * parameters without a type, these parameters are set in the added schedule. */
static void supply_schedule(ce_json *doc)
{
    json_t *section = ce_json_find(doc, "scheduler");
    bool set = section != NULL;
    if (set && (!json_is_object(section) || !is_left_out(doc, "scheduler") || ce_json_is_set(doc, "scheduler.type")))
        return;
    supply(doc, "scheduler", "type", json_string("linear"));
    supply(doc, "scheduler.params", "total_num_steps", json_string("auto"));
    ce_json_note(
        doc, "scheduler",
        "not in the file, whose \"auto\" says that Hugging Face's Trainer supplies it: the rate falls linearly to 0 "
        "at the last step, the default of that Trainer%s; --set scheduler=null keeps it constant, --set "
        "scheduler.params.warmup_ratio=0.03 adds a warm-up",
        set ? ", except what --set gives" : "");
}

/* ---- "auto" ---- */

static int64_t width_in(const json_t *model)
{
    static const char *const names[] = { "hidden_size", "n_embd", "d_model" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_is_integer(json_object_get(model, names[i])))
            return json_integer_value(json_object_get(model, names[i]));
    return 0;
}

/* Returns the width of the model. Returns 0 if the width is not known, because the program makes the model itself or
 * the model's folder gives no width. */
static int64_t find_width(ce_json *doc)
{
    const json_t *model = ce_json_find(doc, "cspeed.model");
    char path[4096];
    ce_json *file;
    if (!json_is_string(model))
        return width_in(model);
    snprintf(path, sizeof path, "%s/config.json", json_string_value(model));
    if (ce_json_open(&file, path) != CS_OK)
        return 0; /* If config.json cannot be read, the error is reported later, when the model is opened. */
    int64_t width = width_in(ce_json_root(file));
    ce_json_close(file);
    return width;
}

void ce_auto_resolve(cs_config *config)
{
    static const char zero[] = "zero_optimization";
    ce_json *doc = config->doc;
    double width = (double)find_width(doc);
    bool for_trainer = is_for_trainer(doc);
    if (!config->reads) {
        supply_optimizer(doc, for_trainer);
        if (for_trainer)
            supply_schedule(doc);
    }
    put(doc, "optimizer.params", "lr", json_real(TRAINER_RATE), TRAINER_ORIGIN);
    if (!ce_resolve_is_given(config, "optimizer.params.lr"))
        put(doc, "scheduler.params", "warmup_max_lr", json_real(TRAINER_RATE), TRAINER_ORIGIN);
    put(doc, zero, "stage", json_integer(2), "Accelerate's default");
    if (!(width >= 1 && width < 0x1p30))
        return;
    put(doc, zero, "reduce_bucket_size", json_integer((int64_t)(width * width)), "hidden size squared");
    put(doc, zero, "stage3_prefetch_bucket_size", json_integer((int64_t)(0.9 * width * width)),
        "0.9 of hidden size squared");
    put(doc, zero, "stage3_param_persistence_threshold", json_integer((int64_t)(10 * width)),
        "10 times the hidden size");
}
