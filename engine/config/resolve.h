/* resolve.h - turns the values of the file into settings: batch sizes, "auto", precision, offload, lists of files. */
#ifndef CS_CONFIG_RESOLVE_H
#define CS_CONFIG_RESOLVE_H

#include "config/config.h"

/* The first step: reports an error for each placeholder of a template that was not filled in. */
void ce_resolve_templates(cs_config *config);

/* Steps before the tables read the file, in this order. _auto replaces "auto" and adds missing sections as Hugging
 * Face's integration does. _strings replaces strings by the booleans and numbers as which DeepSpeed reads them. _legacy
 * replaces DeepSpeed's deprecated spellings. */
void ce_resolve_auto(cs_config *config);
void ce_resolve_strings(cs_config *config);
void ce_resolve_legacy(cs_config *config);

const char *ce_resolve_spelling(ce_json *doc, const char *path); /* the path as the file spells it: "bfloat16" for
                                                                  * "bf16" */

bool ce_resolve_is_given(cs_config *config, const char *path); /* present, not null and not "auto" */

/* Reads the section "elasticity", and no other section, into config->settings. */
cs_status ce_resolve_elasticity(cs_config *config);

/* Steps after the tables have set config->settings. They add errors to config->doc. */
void ce_resolve_batch(cs_config *config);
void ce_resolve_precision(cs_config *config);
void ce_numbers_resolve(cs_config *config);               /* numbers.c; call it after ce_optim_read */
const char *ce_numbers_name(const ce_settings *settings); /* "fp32", "bf16", "amp O1", "autocast fp16" */
void ce_resolve_offload(cs_config *config);
/* sharding.c. _name_stage is a step before the tables read the file, after ce_resolve_legacy: it writes the stage that
 * cspeed.fsdp.sharding_strategy names. _resolve sets shard_size; call it after ce_resolve_run. */
void ce_sharding_name_stage(cs_config *config);
void ce_sharding_resolve(cs_config *config);
void ce_monitors_resolve(cs_config *config);
void ce_courses_resolve(cs_config *config);    /* after ce_resolve_run */
void ce_resolve_data(cs_config *config);       /* data_names.c: the names of data.train and data.valid */
void ce_preference_resolve(cs_config *config); /* preference.c: checks the section "dpo"; after ce_courses_resolve */
/* modes.c: sets settings.lanes, which ce_resolve_batch needs; checks what a mode does not combine with, at the end. */
void ce_modes_count_lanes(cs_config *config);
void ce_modes_resolve(cs_config *config);
void ce_resolve_run(cs_config *config); /* the section "cspeed": model, data, sequence length, transport */

#endif
