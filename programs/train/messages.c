/* messages.c - messages for the user, printed by rank 0 only, since all ranks would print the same text. */
#include "train.h"

#include "base/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool is_rank_zero(void)
{
    return cs_launched_rank() == 0;
}

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say(const char *format, ...)
{
    if (!is_rank_zero())
        return;
    va_list arguments;
    ce_progress_break();
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void complain(const char *format, ...)
{
    if (!is_rank_zero())
        return;
    va_list arguments;
    va_start(arguments, format);
    ce_progress_break();
    fflush(stdout); /* this flush keeps the order of lines in a file that receives both stdout and stderr */
    fputs("train: ", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}
