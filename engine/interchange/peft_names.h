/* peft_names.h - the rules by which PEFT chooses modules by their names, such as "model.layers.0.self_attn.q_proj".
 *
 * `lora` is the object that describes the adapters of a model, as provenance has it (saving/adapter.c). It has the
 * members "r", "alpha", "targets" (PEFT's target_modules) and "peft", an object with those keys of PEFT's LoraConfig
 * that have their own names here, such as "rank_pattern". PCRE2 reads Python's regular expressions. */
#ifndef CE_INTERCHANGE_PEFT_NAMES_H
#define CE_INTERCHANGE_PEFT_NAMES_H

#include "base/status.h"
#include "json/json.h"

/* Checks that PCRE2 accepts all regular expressions of `lora`. */
cs_status ce_peft_check_names(const json_t *lora);
/* Returns true if `names`, a list of names or one regular expression, chooses the module: a name is the module's full
 * name, or the end of it that follows a dot; a regular expression matches the whole name. */
bool ce_peft_matches(const json_t *names, const char *module);
/* Returns true if modules_to_save chooses a module that has this parameter: a module whose name ends with an item. */
bool ce_peft_saves(const json_t *lora, const char *parameter);
/* Returns true if the linear layer has an adapter, whose rank and alpha are then set. */
bool ce_peft_choose(const void *lora, const char *layer, int64_t *r, double *alpha);

#endif
