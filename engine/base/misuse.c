/* misuse.c - the end of the process after a mistake of the calling program. */
#include "base/misuse.h"
#include "base/must.h"

#include <stdarg.h>
#include <string.h>

static _Thread_local const char *unit_name, *pass_name;

void ce_misuse_enter(const char *unit, const char *pass)
{
    unit_name = unit;
    pass_name = pass;
}

void ce_misuse(const char *function, const char *format, ...)
{
    char sentence[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    ce_fatal(CS_MISUSE, "%s%s%s%s%s%s%s%s", unit_name ? "unit " : "", unit_name ? unit_name : "", unit_name ? ", " : "",
             unit_name ? pass_name : "", unit_name ? ": " : "", function ? function : "", function ? ": " : "",
             sentence);
}

void ce_misuse_given(const char *function, const char *names, const void *const *pointers, int count)
{
    for (int i = 0; i < count; i++) {
        size_t length = strcspn(names, ",");
        if (!pointers[i])
            ce_misuse(function, "%.*s is NULL", (int)length, names);
        names += length + strspn(names + length, ", ");
    }
}
