/* recipe.h - recipes of other trainers: files and command lines with the settings of a training. */
#ifndef CL_RECIPE_H
#define CL_RECIPE_H

#include "json/json.h"

#include <stdio.h>

/* Reads a recipe into an object of its keys: YAML (axolotl, TRL, LLaMA-Factory, Accelerate), JSON (TrainingArguments), or
 * a command line or shell script, whose flags become keys with underscores. The words of a command line in front of the
 * program, which belong to a launcher, become keys too. The caller decrements the reference. */
cs_status cl_recipe_read(json_t **recipe, const char *path);
/* The same from text. `name` is the name of the file, for messages. */
cs_status cl_recipe_read_yaml(json_t **recipe, const char *text, size_t length, const char *name);
cs_status cl_recipe_read_line(json_t **recipe, const char *text, const char *name);

/* What became of a recipe. */
typedef struct {
    json_t *config; /* the configuration, an object */
    /* flags of the launcher, such as " --num_gpus 8", and of train, such as " --fresh"; "" if there are none */
    char *flags, *train_flags;
    char *tokens; /* the command that writes cspeed.model with the recipe's new tokens; "" if there are none */
    /* Lines for the user, each "KEY: value: reason" without a newline, one list for each fate of a key. */
    json_t *lost;     /* keys that the configuration could not take */
    json_t *unneeded; /* keys that cspeed does not need */
    int carried;      /* number of keys that the configuration has taken, or whose value switches something off */
} cl_recipe;

/* Converts an object of keys. `folder` is the folder of the recipe, in which the files that it names are looked for too. */
void cl_recipe_convert(cl_recipe *to, const json_t *from, const char *folder);
void cl_recipe_free(cl_recipe *recipe);

#endif
