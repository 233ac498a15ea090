/* lines.c - the standard output of a small training, for tests of its lines. */
#include "lines.h"
#include "shell.h"

#include <check.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int train(void *argument)
{
    const run_spec *spec = argument;
    if (cs_launched_rank() == 0 && !freopen("lines.txt", "w", stdout))
        return 1;
    cs_engine *engine = run_open(spec, NULL);
    for (int step = 0; step < spec->steps; step++)
        run_step(engine, spec);
    cs_log_summary(engine);
    cs_destroy(engine);
    return 0;
}

char *lines_of(const run_spec *spec)
{
    run_ranks(spec->world, train, (void *)(uintptr_t)spec);
    return shell_read("lines.txt", NULL);
}

int lines_count(const char *lines, const char *pattern)
{
    regex_t expression;
    int count = 0;
    char *copy = strdup(lines), *rest = copy;
    ck_assert_int_eq(regcomp(&expression, pattern, REG_EXTENDED | REG_NOSUB), 0);
    for (char *line; (line = strsep(&rest, "\n"));)
        count += regexec(&expression, line, 0, NULL, 0) == 0;
    regfree(&expression);
    free(copy);
    return count;
}

double lines_number(const char *lines, const char *label)
{
    const char *at = strstr(lines, label);
    ck_assert_msg(at != NULL, "no \"%s\" in:\n%s", label, lines);
    return strtod(at + strlen(label), NULL);
}
