/* resolve.h - turns the values of the file into settings. Each file of a topic resolves the keys of its own tables, by
 * one or two functions, the steps. A step reports errors in config->doc. */
#ifndef CE_CONFIG_RESOLVE_H
#define CE_CONFIG_RESOLVE_H

#include "config/config.h"

/* Sets config->settings: runs all steps in the order of the table in steps.c. */
void ce_steps_run(cs_config *config);
/* Runs only the two steps that read the optimizer and the schedule, which uses config->settings.steps. */
void ce_steps_read_rates(cs_config *config);
/* True if the key is present, not null and not "auto". */
bool ce_resolve_is_given(cs_config *config, const char *path);
/* Returns true if the configuration sets the key, and to another value than its default. */
bool ce_resolve_is_changed(cs_config *config, const char *path, const ce_key *key);
/* True if the value at the path is from the command line. */
bool ce_resolve_is_of_command_line(cs_config *config, const char *path);
/* Returns the object at a dotted path. Missing objects, and null in place of an object, are replaced by empty objects.
 * Returns NULL if another value is in place of an object. */
json_t *ce_resolve_section(ce_json *doc, const char *path);
/* Writes a value that follows from other values into the resolved file and into its field of the settings. */
void ce_resolve_derive(cs_config *config, const char *section, const char *name, const char *value, const char **field);

/* Reports an error for each placeholder of a template that was not filled in. The caller does not resolve such a
 * configuration. */
void ce_templates_check(cs_config *config);

/* ---- steps that change the document, before the tables read it ---- */

/* Replaces "auto" and adds missing sections as Hugging Face's integration does. */
void ce_auto_resolve(cs_config *config);
/* Converts strings that DeepSpeed reads as booleans or numbers. */
void ce_strings_resolve(cs_config *config);
/* Replaces DeepSpeed's deprecated spellings. */
void ce_legacy_resolve(cs_config *config);
/* Returns the path as it is spelled in the file, such as "bfloat16" for "bf16". */
const char *ce_legacy_spelling(ce_json *doc, const char *path);

/* ---- steps that change config->settings ---- */

/* The words of a message for the number of lanes: "world size 4", or "lanes 2 (world size 4 / tp 2)". */
typedef struct {
    char text[64];
} ce_lanes_name;
ce_lanes_name ce_mesh_name_lanes(const cs_config *config);
/* Returns the number of lanes in a group of hybrid sharding, which divides the number of lanes, and sets *path to the
 * key that says it. Returns 0 if no key does, or after an error. */
int64_t ce_mesh_find_shard(cs_config *config, const char **path);

void ce_mesh_resolve(cs_config *config);    /* sets tp and lanes */
int64_t ce_mesh_find_tp(cs_config *config); /* Returns the value of the keys that give tp; 0 if no key does. */
/* tp.c, not a step: reads the keys that give tp, and no others, and returns tp; 1 if their values are wrong. */
int ce_tp_read(cs_config *config);
void ce_mesh_check(cs_config *config); /* refuses what does not work with tensor parallelism */
void ce_batches_resolve(cs_config *config);
/* Not a step: reads the section "elasticity" into config->settings. `tp` is what ce_tp_read returns. */
cs_status ce_batches_read_elasticity(cs_config *config, int tp);
void ce_sharding_resolve(cs_config *config); /* stage, offload, groups */
void ce_formats_resolve(cs_config *config);  /* checks fp16, bf16 and the loss scale */
void ce_ours_resolve(cs_config *config);     /* model, output, transport, and the length of the training */
void ce_lora_resolve(cs_config *config);
void ce_lora_groups(cs_config *config); /* lora.c: adds the parameter group of LoRA+ */
void ce_quantization_resolve(cs_config *config);
void ce_data_resolve(cs_config *config);
void ce_sections_resolve(cs_config *config); /* the section "checkpoint" */
void ce_monitors_resolve(cs_config *config);
void ce_courses_resolve(cs_config *config);
void ce_preference_resolve(cs_config *config);
void ce_habits_resolve(cs_config *config);  /* needs the files of data.valid */
void ce_numbers_resolve(cs_config *config); /* sets `precision` and prescale_factor */
/* Returns the name of a precision, such as "fp32", "bf16", "amp O1" or "autocast fp16". */
const char *ce_numbers_name(const ce_settings *settings);
/* Adds notes about all keys that the configuration sets and that have no effect beside its other values. */
void ce_idle_note(cs_config *config);
/* Returns why a key that has an effect in general has none in this configuration, or NULL. */
const char *ce_idle_because(const cs_config *config, const char *path);

#endif
