/* bench.c - reads the command line of a benchmark by its table of options. */
#include "bench.h"
#include "cspeed/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *program_of(char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    return slash ? slash + 1 : argv[0];
}

static bool is_positional(const bench_option *option)
{
    return option->name[0] != '-';
}

static void print_usage(FILE *out, char **argv, const bench_option *options)
{
    fprintf(out, "usage: %s", program_of(argv));
    for (const bench_option *option = options; option->name; option++) {
        fprintf(out, " [%s", option->name);
        if (option->word)
            fprintf(out, " %s", option->choices);
        if (option->number)
            fprintf(out, "%s%d..%d", is_positional(option) ? ": " : " ", option->min, option->max);
        fputs("]", out);
    }
    fputs("\n", out);
}

static void __attribute__((noreturn))
refuse(char **argv, const bench_option *options, const char *argument, const char *reason)
{
    fprintf(stderr, "%s: %s: %s\n", program_of(argv), argument, reason);
    print_usage(stderr, argv, options);
    exit(64);
}

/* Returns the option that an argument names, or the next positional number; NULL if there is none. */
static const bench_option *find(const bench_option *options, const char *argument, int positional)
{
    for (; options->name; options++)
        if (is_positional(options) ? argument[0] != '-' && positional-- == 0 : strcmp(options->name, argument) == 0)
            return options;
    return NULL;
}

/* Returns false if the option does not accept the value `text`. */
static bool store(const bench_option *option, const char *text)
{
    char *end;
    if (option->word) {
        *option->word = text;
        return cs_options_choice(option->choices, text) >= 0;
    }
    errno = 0;
    long long at = strtoll(text, &end, 10);
    if (errno || end == text || *end || at < option->min || at > option->max)
        return false;
    *option->number = (int)at;
    return true;
}

void bench_arguments(int argc, char **argv, const bench_option *options)
{
    int positional = 0;
    for (char **at = argv + 1; at < argv + argc; at++) {
        if (strcmp(*at, "--help") == 0) {
            print_usage(stdout, argv, options);
            exit(0);
        }
        const bench_option *option = find(options, *at, positional);
        if (!option)
            refuse(argv, options, *at, "unknown argument");
        if (option->given) {
            *option->given = true;
            continue;
        }
        if (is_positional(option))
            positional++;
        else if (++at == argv + argc)
            refuse(argv, options, option->name, "needs a value");
        if (!store(option, *at))
            refuse(argv, options, *at, "not a value that this option takes");
    }
}
