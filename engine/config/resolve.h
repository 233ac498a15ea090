/* resolve.h - turns the values of the file into settings: batch sizes, "auto", precision, offload, lists of files. */
#ifndef CE_CONFIG_RESOLVE_H
#define CE_CONFIG_RESOLVE_H

#include "config/config.h"

/* Reports an error for each placeholder of a template that was not filled in. This is the first step of resolving. */
void ce_resolve_templates(cs_config *config);

/* The next three functions are called in this order, before the tables read the file. ce_resolve_auto replaces "auto"
 * and adds missing sections as Hugging Face's integration does. ce_resolve_strings converts strings that DeepSpeed
 * reads as booleans or numbers. ce_resolve_legacy replaces DeepSpeed's deprecated spellings. */
void ce_resolve_auto(cs_config *config);
void ce_resolve_strings(cs_config *config);
void ce_resolve_legacy(cs_config *config);

/* Returns the path as it is spelled in the file, such as "bfloat16" for "bf16". */
const char *ce_resolve_spelling(ce_json *doc, const char *path);

/* True if the key is present, not null and not "auto". */
bool ce_resolve_is_given(cs_config *config, const char *path);

/* Reads the section "elasticity", and no other section, into config->settings. */
cs_status ce_resolve_elasticity(cs_config *config);

/* The functions below are called after the tables have set config->settings. They report errors in config->doc. */
void ce_resolve_batch(cs_config *config);
void ce_resolve_precision(cs_config *config);
void ce_numbers_resolve(cs_config *config); /* Defined in numbers.c; called after ce_optim_read. */
/* Returns the name of a precision, such as "fp32", "bf16", "amp O1" or "autocast fp16". */
const char *ce_numbers_name(const ce_settings *settings);
void ce_resolve_offload(cs_config *config);
/* The next two functions are defined in sharding.c. ce_sharding_name_stage sets zero_optimization.stage to the stage of
 * cspeed.fsdp.sharding_strategy; it is called after ce_resolve_legacy and before the tables read the file.
 * ce_sharding_resolve sets shard_size; it is called after ce_resolve_run. */
void ce_sharding_name_stage(cs_config *config);
void ce_sharding_resolve(cs_config *config);
void ce_monitors_resolve(cs_config *config);
/* This function is called after ce_resolve_run. */
void ce_courses_resolve(cs_config *config);
/* Resolves the file names of data.train and data.valid. Defined in data_names.c. */
void ce_resolve_data(cs_config *config);
/* Checks the section "dpo". Defined in preference.c; called after ce_courses_resolve. */
void ce_preference_resolve(cs_config *config);
/* The next two functions are defined in idle.c. ce_idle_because returns why a key that has an effect in general has none
 * in this configuration, or NULL. ce_idle_note adds notes about all such keys that the configuration sets. */
const char *ce_idle_because(const cs_config *config, const char *path);
void ce_idle_note(cs_config *config);
void ce_resolve_run(cs_config *config); /* Resolves the section "cspeed": model, data, sequence length, transport. */

#endif
