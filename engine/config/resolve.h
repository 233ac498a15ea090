/* resolve.h - from what the file says to what the run does: the batch triangle, "auto", precision, lists of files. */
#ifndef CS_CONFIG_RESOLVE_H
#define CS_CONFIG_RESOLVE_H

#include "config/config.h"

/* Before all else: a fault for each string that a template left behind. */
void cs_resolve_templates(cs_config *config);

/* Before the tables, in this order: what Hugging Face's integration supplies and fills in for "auto" is filled in;
 * strings become the booleans and numbers that DeepSpeed takes them for; its older spellings become today's. */
void cs_resolve_auto(cs_config *config);
void cs_resolve_strings(cs_config *config);
void cs_resolve_legacy(cs_config *config);

const char *cs_resolve_spelling(cs_json *doc, const char *path); /* "bf16" may stand in the file as "bfloat16" */

bool cs_resolve_is_given(cs_config *config, const char *path); /* there, not null, not "auto" */

/* The "elasticity" section alone, without the rest of the file, into config->settings. */
cs_status cs_resolve_elasticity(cs_config *config);

/* The tables have filled config->settings; faults go to config->doc. */
void cs_resolve_batch(cs_config *config);
void cs_resolve_precision(cs_config *config);
void cs_numbers_resolve(cs_config *config);               /* numbers.c; then the optimizer is known */
const char *cs_numbers_name(const cs_settings *settings); /* "fp32", "bf16", "amp O1", "autocast fp16" */
void cs_resolve_offload(cs_config *config);
void cs_monitors_resolve(cs_config *config);
void cs_courses_resolve(cs_config *config); /* after cs_resolve_run */
void cs_resolve_run(cs_config *config);     /* the "cspeed" section: model, data, length, transport */

#endif
