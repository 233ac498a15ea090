/* bench.c - reads the command line of a benchmark: translates the benchmark's table of options to a table for
 * cspeed/options.h. */
#include "bench.h"

#include "base/status.h"
#include "cspeed/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 32, TEXT_BYTES = 64 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
}

static bool is_positional(const bench_option *option)
{
    return option->name[0] != '-';
}

/* Stores the value of the option to which `field` points. */
static int take(void *field, const char *word, const char *value)
{
    const bench_option *option = field;
    int64_t number;
    if (option->given)
        return *option->given = true, 0;
    if (option->word) {
        *option->word = value;
        if (!option->choices || cs_options_choice(option->choices, value) >= 0)
            return 0;
        ce_fail(CS_BAD_CONFIG, "%s is one of %s, not \"%s\"", word, option->choices, value);
        return CS_OPTIONS_WRONG;
    }
    int code = cs_options_whole(&number, word, value, option->min, option->max);
    *option->number = (int)number;
    return code;
}

/* Translates one option for cspeed/options.h. The result points to `name` and `text`, which the caller keeps. `offset`
 * is the position of the option in the benchmark's table, in bytes. */
static cs_option row_of(const bench_option *option, size_t offset, char name[CS_OPTION_BYTES], char text[TEXT_BYTES])
{
    snprintf(name, CS_OPTION_BYTES, "%s", option->name + 2);
    for (char *dash = name; (dash = strchr(dash, '-'));)
        *dash = '_';
    snprintf(text, TEXT_BYTES, "%d to %d", option->min, option->max);
    return (cs_option){ .names = name,
                        .kind = CS_OPTION_TAKE,
                        .offset = offset,
                        .value = option->given  ? NULL
                                 : option->word ? (option->choices ? option->choices : "TEXT")
                                                : "N",
                        .text = option->number ? text : "",
                        .take = take };
}

void bench_arguments(int argc, char **argv, const bench_option *options)
{
    static char names[MAX_OPTIONS][CS_OPTION_BYTES], texts[MAX_OPTIONS][TEXT_BYTES];
    cs_option rows[MAX_OPTIONS + 1] = { { .names = "help h", .kind = CS_OPTION_HELP, .text = "this text" } };
    const bench_option *positional[MAX_OPTIONS];
    char usage[256];
    setvbuf(stdout, NULL, _IOLBF, 0); /* a benchmark that a time limit ends has printed its finished lines */
    int used = snprintf(usage, sizeof usage, "usage: %s [options]", program_invocation_short_name);
    cs_options_form form = { .usage = usage, .what = "option", .hint = "see --help", .options = rows, .count = 1 };
    (void)argc;
    for (const bench_option *option = options; option->name && option < options + MAX_OPTIONS; option++) {
        if (is_positional(option)) {
            used += snprintf(usage + used, sizeof usage - (size_t)used, " [%s]", option->name);
            positional[form.max++] = option;
        } else {
            rows[form.count] = row_of(option, (size_t)((const char *)option - (const char *)options),
                                      names[form.count - 1], texts[form.count - 1]);
            form.count++;
        }
    }
    snprintf(usage + used, sizeof usage - (size_t)used, "\n");
    char **places = cs_options_main(&form, (void *)(uintptr_t)options, argv);
    for (int i = 0; places[i]; i++)
        if (take((void *)(uintptr_t)positional[i], positional[i]->name, places[i])) {
            fprintf(stderr, "%s: %s\n", program_invocation_short_name, cs_error());
            exit(CS_OPTIONS_WRONG);
        }
}

void bench_must_measure(bool any, const char *what)
{
    if (any)
        return;
    fprintf(stderr, "%s: nothing was measured, because these options match none of %s\n", program_invocation_short_name,
            what);
    exit(CS_OPTIONS_WRONG);
}
