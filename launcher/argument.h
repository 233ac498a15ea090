/* argument.h - Parses the arguments of a command: "--flag value" or "--flag=value"; '-' and '_' in a flag are the
 * same. */
#ifndef CL_ARGUMENT_H
#define CL_ARGUMENT_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if **at is this flag, and moves *at after it. */
bool cl_argument_is(char ***at, const char *flag);

/* The same for a flag with a value: returns the value, "" if it is missing, NULL if **at is not this flag. */
const char *cl_argument_value(char ***at, const char *flag);

/* Parses all arguments of a command: flags by the rows of a table, whose last row has no flag. The other arguments
 * go to places[0], places[1], ..., and all `count` of them are required. Returns 0, or CL_CODE_USAGE with a message. */
typedef struct {
    const char *flag;
    const char **value; /* NULL: the flag takes no value */
    bool *given;
} cl_argument_row;

typedef struct {
    const char *command, *needs; /* for messages: "verify"; "a folder of checkpoints" */
    const cl_argument_row *rows;
    const char **places;
    int count;
} cl_argument_form;
int cl_argument_read(const cl_argument_form *form, char **at);

/* Parses a whole number from `min` to `max`. Returns 0, or CL_CODE_USAGE with a message. */
int cl_argument_number(int64_t *number, const char *flag, const char *value, int64_t min, int64_t max);

#endif
