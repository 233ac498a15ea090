/* values.h - the values of a recipe, and how a rule sets a key of the configuration. */
#ifndef CL_RECIPE_VALUES_H
#define CL_RECIPE_VALUES_H

#include "recipe/rules.h"

const char *cl_value_text(const json_t *value);          /* the text of a string; "" for other values */
bool cl_value_is(const json_t *value, const char *text); /* true for this text, in capitals or not */
bool cl_value_is_off(const json_t *value);               /* true for null, false, "", "no", "none", [] and {} */
bool cl_value_is_on(
    const json_t *value); /* true for true, "true", "auto", 1 and other values that switch something on */
/* Returns the value, or the number that a text stands for ("2e-5"), as a new reference. */
json_t *cl_value_number(const json_t *value);
double cl_value_double(const json_t *value); /* the same as a double; NaN if the value is no number */
/* Returns the items of a list, or of a text with commas or spaces between them, as a new list of texts or numbers. */
json_t *cl_value_list(const json_t *value);

/* Sets the value at a dotted path of the configuration and takes the reference. */
void cl_rules_set(cl_conversion *c, const char *path, json_t *value);
bool cl_rules_no(cl_conversion *c, const char *reason); /* stores the reason and returns false */

#endif
