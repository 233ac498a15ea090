/* argument.c - Parses the arguments of a command: "--flag value" or "--flag=value"; '-' and '_' in a flag are the
 * same. */
#include "argument.h"
#include "base/status.h"
#include "codes.h"

#include <errno.h>
#include <stdlib.h>

/* Returns the rest of the argument after the flag's name, or NULL if it is another flag. */
static const char *value_after(const char *given, const char *flag)
{
    for (; *flag; flag++, given++)
        if (*flag != *given && !(*flag == '_' && *given == '-'))
            return NULL;
    return *given == 0 || *given == '=' ? given : NULL;
}

bool cl_argument_is(char ***at, const char *flag)
{
    const char *rest = value_after(**at, flag);
    bool found = rest && !*rest;
    *at += found;
    return found;
}

const char *cl_argument_value(char ***at, const char *flag)
{
    const char *rest = value_after(**at, flag);
    if (!rest)
        return NULL;
    ++*at;
    if (*rest == '=')
        return rest + 1;
    return **at ? *(*at)++ : "";
}

/* Returns true if **at is one of the flags, and moves *at after it. The value is "" if it is missing. */
static bool take_flag(const cl_argument_row *row, const char **value, char ***at)
{
    for (; row->flag; row++) {
        *value = row->value ? cl_argument_value(at, row->flag) : NULL;
        if (*value)
            *row->value = *value;
        else if (!row->given || !cl_argument_is(at, row->flag))
            continue;
        else
            *row->given = true;
        return true;
    }
    return false;
}

static int refuse(const cl_argument_form *form, const char *flag)
{
    enum { ROWS = 16 };
    const char *names[ROWS + 1] = { NULL };
    for (int i = 0; i < ROWS && form->rows[i].flag; i++)
        names[i] = form->rows[i].flag;
    const char *meant = cs_nearest(flag, names);
    if (meant)
        return cl_codes_fail(CL_CODE_USAGE, "%s: unknown flag %s; did you mean %s?", form->command, flag, meant);
    return cl_codes_fail(CL_CODE_USAGE, "%s: unknown flag %s; see cspeed %s --help", form->command, flag,
                         form->command);
}

int cl_argument_read(const cl_argument_form *form, char **at)
{
    int taken = 0;
    while (*at) {
        const char *flag = *at, *value;
        if (take_flag(form->rows, &value, &at)) {
            if (value && !*value)
                return cl_codes_fail(CL_CODE_USAGE, "%s: %s needs a value", form->command, flag);
            continue;
        }
        if (*flag == '-')
            return refuse(form, flag);
        if (taken == form->count)
            return cl_codes_fail(CL_CODE_USAGE, "%s: unknown argument %s; see cspeed %s --help", form->command, flag,
                                 form->command);
        form->places[taken++] = *at++;
    }
    if (taken == form->count)
        return 0;
    return cl_codes_fail(CL_CODE_USAGE, "%s: name %s", form->command, form->needs);
}

int cl_argument_number(int64_t *number, const char *flag, const char *value, int64_t min, int64_t max)
{
    char *end;
    errno = 0;
    long long given = strtoll(value, &end, 10);
    if (!*value || *end || errno || given < min || given > max)
        return cl_codes_fail(CL_CODE_USAGE, "%s takes a whole number from %lld to %lld, not \"%s\"", flag,
                             (long long)min, (long long)max, value);
    *number = given;
    return 0;
}
