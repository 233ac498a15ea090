/* argv.c - builds a command line word by word. */
#include "wire/argv.h"

#include "plan/env.h"

#include "base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cl_argv_add(cl_argv *words, const char *format, ...)
{
    va_list arguments;
    if (words->count + 2 > words->capacity) {
        words->capacity = words->capacity ? 2 * words->capacity : 64;
        words->list = realloc(words->list, (size_t)words->capacity * sizeof *words->list);
    }
    va_start(arguments, format);
    if (!words->list || vasprintf(&words->list[words->count], format, arguments) < 0)
        ce_fatal(CS_NO_MEMORY, "no memory for a command line");
    va_end(arguments);
    words->list[++words->count] = NULL;
}

void cl_argv_add_all(cl_argv *words, const char *const *list)
{
    for (; *list; list++)
        cl_argv_add(words, "%s", *list);
}

void cl_argv_print(const cl_argv *words)
{
    char masked[4096];
    bool hide = false;
    for (int i = 0; i < words->count; i++) {
        fprintf(stderr, "%s%s", cl_env_masked(words->list[i], &hide, masked, sizeof masked),
                i + 1 < words->count ? " " : "\n");
        if (i > 0 && strcmp(words->list[i - 1], "-env") == 0) /* MPICH's -env NAME VALUE: the next word is the value */
            hide = cl_env_is_secret(words->list[i]);
    }
}

void cl_argv_free(cl_argv *words)
{
    for (int i = 0; i < words->count; i++)
        free(words->list[i]);
    free(words->list);
    *words = (cl_argv){ 0 };
}
