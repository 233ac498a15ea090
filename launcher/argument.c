/* argument.c - one argument of a command at a time: "--flag value" or "--flag=value"; a dash inside is an underscore.
 */
#include "argument.h"
#include "codes.h"

#include <errno.h>
#include <stdlib.h>

/* What follows the flag's name in the argument; NULL: it is another. */
static const char *behind(const char *given, const char *flag)
{
    for (; *flag; flag++, given++)
        if (*flag != *given && !(*flag == '_' && *given == '-'))
            return NULL;
    return *given == 0 || *given == '=' ? given : NULL;
}

bool cs_argument_is(char ***at, const char *flag)
{
    const char *rest  = behind(**at, flag);
    bool        found = rest && !*rest;
    *at += found;
    return found;
}

const char *cs_argument_value(char ***at, const char *flag)
{
    const char *rest = behind(**at, flag);
    if (!rest)
        return NULL;
    ++*at;
    if (*rest == '=')
        return rest + 1;
    return **at ? *(*at)++ : "";
}

int cs_argument_number(int64_t *number, const char *flag, const char *value, int64_t least, int64_t most)
{
    char *end;
    errno           = 0;
    long long given = strtoll(value, &end, 10);
    if (!*value || *end || errno || given < least || given > most)
        return cs_codes_fail(CS_CODE_USAGE, "%s takes a whole number from %lld to %lld, not \"%s\"", flag,
                             (long long)least, (long long)most, value);
    *number = given;
    return 0;
}
