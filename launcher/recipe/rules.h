/* rules.h - how the keys of other trainers become keys of the configuration. */
#ifndef CL_RECIPE_RULES_H
#define CL_RECIPE_RULES_H

#include "recipe/recipe.h"

#include <stdbool.h>

/* A recipe that is being converted. */
typedef struct {
    cl_recipe *to;
    const json_t *from;
    const char *folder;
    FILE *flags, *train_flags; /* of the launcher, and of train */
    FILE *tokens;              /* flags of add-tokens */
    char reason[1024];         /* why the last value was not taken */
} cl_conversion;

/* Takes the value of a key. Returns false, with a reason, if the configuration cannot have it. `path` is the rule's. */
typedef bool cl_rule_function(cl_conversion *c, const char *path, const json_t *value);

typedef struct {
    const char *names; /* separated by spaces */
    cl_rule_function *take;
    const char *path; /* of a key of the configuration, or what `take` expects */
} cl_rule;

/* Returns the rule for a key, with underscores, or NULL. */
const cl_rule *cl_rules_find(const char *name);
bool cl_rules_takes_off(const cl_rule *rule); /* true if "no" and false are values that the rule converts */

/* Sets what depends on several keys, after all keys were converted. */
void cl_rules_finish(cl_conversion *c);

/* ---- tokens.c: rules for new tokens ---- */

/* `path` is a flag of add-tokens: --token and --special_token take a list, or a text with commas. */
cl_rule_function cl_tokens_take;
cl_rule_function cl_tokens_multiple; /* `path` is the flag with its number */
/* Turns the flags of c->to->tokens into the command, and sets cspeed.model to the folder that the command writes. */
void cl_tokens_finish(cl_conversion *c);

/* The rules of lora_rules.c and data_rules.c. */
cl_rule_function cl_rule_adapter, cl_rule_bits, cl_rule_targets, cl_rule_packing, cl_rule_packing_strategy,
    cl_rule_data, cl_rule_chat_template, cl_rule_deepspeed;

#endif
