/* argument.h - one argument of a command at a time: "--flag value" or "--flag=value"; a dash inside is an underscore.
 */
#ifndef CL_ARGUMENT_H
#define CL_ARGUMENT_H

#include <stdbool.h>
#include <stdint.h>

/* Whether **at is this flag; then *at is moved behind it. */
bool cl_argument_is(char ***at, const char *flag);

/* The same of a flag with a value, "" when that is missing. NULL: **at is something else. */
const char *cl_argument_value(char ***at, const char *flag);

/* The arguments of a command, all of them: flags by their rows, the last of which has no flag; what is no flag goes to
 * places[0], then places[1], ..., of which all `count` are needed. 0, or CL_CODE_USAGE with a sentence. */
typedef struct {
    const char *flag;
    const char **value; /* NULL: the flag has none */
    bool *given;
} cl_argument_row;

typedef struct {
    const char *command, *needs; /* "verify"; "a folder of checkpoints" */
    const cl_argument_row *rows;
    const char **places;
    int count;
} cl_argument_form;
int cl_argument_read(const cl_argument_form *form, char **at);

/* A whole number of `least` or more. 0, or CL_CODE_USAGE with a sentence. */
int cl_argument_number(int64_t *number, const char *flag, const char *value, int64_t min, int64_t max);

#endif
