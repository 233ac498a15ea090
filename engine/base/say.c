/* say.c - progress lines of rank 0 on standard output, and numbers as Python prints them. */
#include "base/say.h"
#include "base/catch.h"
#include "base/log.h"
#include "base/must.h"
#include "base/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Prints `before` and a line, or gives them to the program's hook. */
static void put(const char *before, const char *format, va_list arguments)
{
    char *text;
    if (vasprintf(&text, format, arguments) < 0)
        ce_fatal(CS_NO_MEMORY, "out of memory for a line of output");
    CE_FREED char *line = text, *whole = ce_must_print("%s%s", before, line);
    if (ce_catch_line(CS_LOG_OUTPUT, whole))
        return;
    ce_progress_break();
    puts(whole);
    fflush(stdout);
}

void ce_say(const char *format, ...)
{
    va_list arguments;
    if (ce_log_rank() != 0)
        return;
    va_start(arguments, format);
    put("", format, arguments);
    va_end(arguments);
}

void ce_say_logged(const char *file, int line, const char *function, const char *format, ...)
{
    struct timespec now;
    struct tm local;
    char when[32], before[256];
    va_list arguments;
    if (ce_log_rank() != 0)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    snprintf(before, sizeof before, "[%s,%03ld] [INFO] [%s:%d:%s] [Rank 0] ", when, now.tv_nsec / 1000000,
             basename(file), line, function);
    va_start(arguments, format);
    put(before, format, arguments);
    va_end(arguments);
}

ce_number ce_say_number(double value)
{
    ce_number number;
    int digits = 1;
    if (!isfinite(value)) {
        snprintf(number.text, sizeof number.text, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return number;
    }
    do
        snprintf(number.text, sizeof number.text, "%.*e", digits - 1, value);
    while (strtod(number.text, NULL) != value && ++digits <= 17);
    int exponent = atoi(strchr(number.text, 'e') + 1);
    if (exponent < -4 || exponent >= 16) /* Python writes numbers below 1e-4, and from 1e16 on, with an exponent */
        return number;
    int places = digits - 1 - exponent;
    snprintf(number.text, sizeof number.text, "%.*f", places > 1 ? places : 1, value);
    return number;
}
