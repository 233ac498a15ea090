/* argument.h - one argument of a command at a time: "--flag value" or "--flag=value"; a dash inside is an underscore.
 */
#ifndef CS_LAUNCHER_ARGUMENT_H
#define CS_LAUNCHER_ARGUMENT_H

#include <stdbool.h>
#include <stdint.h>

/* Whether **at is this flag; then *at is moved behind it. */
bool cs_argument_is(char ***at, const char *flag);

/* The same of a flag with a value, "" when that is missing. NULL: **at is something else. */
const char *cs_argument_value(char ***at, const char *flag);

/* A whole number of `least` or more. 0, or CS_CODE_USAGE with a sentence. */
int cs_argument_number(int64_t *number, const char *flag, const char *value, int64_t least, int64_t most);

#endif
