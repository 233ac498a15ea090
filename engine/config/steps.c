/* steps.c - the order in which the values of a configuration are resolved. */
#include "config/resolve.h"
#include "config/sections.h"

/* ---- steps that belong to no topic ---- */

static json_t *object_at(cs_config *config, const char *path)
{
    json_t *value = ce_json_find(config->doc, path);
    return json_is_object(value) ? value : NULL;
}

static void fill_sections(cs_config *config)
{
    const ce_section *section;
    for (int i = 0; (section = ce_sections_at(i)); i++) {
        const char *path = ce_legacy_spelling(config->doc, section->path);
        ce_keys_fill(config->doc, ce_json_find(config->doc, path), path, &config->settings, section->keys,
                     section->count);
    }
    config->filled = true;
}

static void read_optimizer(cs_config *config)
{
    ce_optim_read(config->doc, object_at(config, "optimizer"), &config->settings.optim);
}

static void read_groups(cs_config *config)
{
    ce_settings *s = &config->settings;
    ce_lora_groups(config);
    ce_groups_read(config->doc, s->param_groups, &s->optim, &s->groups);
}

static void read_schedule(cs_config *config)
{
    ce_settings *s = &config->settings;
    ce_schedule_read(config->doc, object_at(config, "scheduler"), s->optim.rate, s->steps, &s->schedule);
    if (!ce_optim_has_betas(&s->optim))
        ce_schedule_leave_momentum(config->doc, &s->schedule);
}

static void settle_sections(cs_config *config)
{
    const ce_section *section;
    for (int i = 0; (section = ce_sections_at(i)); i++) {
        const char *path = ce_legacy_spelling(config->doc, section->path);
        ce_keys_settle(config->doc, object_at(config, path), path, &config->settings, section->keys, section->count);
    }
}

/* ---- the order ---- */

/* The steps, in their order. A comment says why a step cannot be earlier, or, in the case of the first and of
 * ce_batches_resolve, later. A step without a comment needs only what fill_sections sets. */
/* clang-format off */
static void (*const steps[])(cs_config *config) = {
    ce_auto_resolve,        /* asks which "auto" the file itself has, before any other step replaces one */
    ce_strings_resolve,     /* ce_auto_resolve adds sections with values that may be strings */
    ce_legacy_resolve,      /* replaces booleans, which may be strings before ce_strings_resolve */
    fill_sections,          /* reads the document, which the steps above change */
    ce_mesh_resolve,
    ce_batches_resolve,     /* divides by the number of lanes; computes an elastic batch only if nothing has been refused before */
    ce_sharding_resolve,
    ce_formats_resolve,
    ce_ours_resolve,
    ce_lora_resolve,
    ce_quantization_resolve, /* compares the type of products, which ce_formats_resolve sets */
    ce_data_resolve,        /* names the cache after `output`, which ce_ours_resolve sets */
    ce_sections_resolve,
    ce_monitors_resolve,
    ce_courses_resolve,
    ce_habits_resolve,      /* needs the files of data.valid, which ce_data_resolve reads */
    ce_preference_resolve,  /* refuses data and curricula by what ce_data_resolve and ce_courses_resolve set */
    read_optimizer,
    ce_mesh_check,          /* refuses some optimizers */
    read_groups,            /* a group inherits the values that read_optimizer sets */
    ce_numbers_resolve,     /* the optimizer may refuse state in 16 bits; the stage decides which type is sent */
    read_schedule,          /* takes the rate that read_optimizer sets, and the steps that ce_ours_resolve sets */
    settle_sections,        /* replaces each "auto" in the document by the value that a step above has set */
    ce_idle_note,           /* whether a key has no effect depends on the values that the steps above set */
};
/* clang-format on */

void ce_steps_read_rates(cs_config *config)
{
    read_optimizer(config);
    read_schedule(config);
}

void ce_steps_run(cs_config *config)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        steps[i](config);
}
