/* use.h - code shared by the programs that use a trained model: reading the command line and opening the model. */
#ifndef EXAMPLES_USE_H
#define EXAMPLES_USE_H

#include "cspeed/cspeed.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WRONG_USAGE = 64, WRONG_CONTENT = 65, MISSING = 66, ITEMS = 16 };

/* ---- messages ---- */

static bool is_rank_zero(void)
{
    return cs_launched_rank() == 0;
}

_Noreturn static void leave(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn static void leave(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout); /* keeps the order of lines in a file that receives both stdout and stderr */
    if (is_rank_zero()) {
        fprintf(stderr, "%s: ", program_invocation_short_name);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
    }
    va_end(arguments);
    exit(code);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- the command line ---- */

/* One flag of the command line: "top_k" is --top_k or --top-k. The last row has no name. */
typedef struct {
    const char *flag;
    /* NULL: the flag has no value, and `to` points to a bool */
    void (*take)(void *to, const char *flag, const char *value);
    void *to;
} flag_row;

typedef struct {
    const char *item[ITEMS];
    int count;
} flag_list;

static void take_text(void *to, const char *flag, const char *value)
{
    (void)flag;
    *(const char **)to = value;
}

static void take_whole(void *to, const char *flag, const char *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    *(int64_t *)to = number;
    if (!*value || *end || errno || number < 0)
        leave(WRONG_USAGE, "--%s: \"%s\" is not a whole number", flag, value);
}

static void take_item(void *to, const char *flag, const char *value)
{
    flag_list *list = to;
    if (list->count == ITEMS)
        leave(WRONG_USAGE, "--%s: at most %d of them", flag, ITEMS);
    if (!*value)
        leave(WRONG_USAGE, "--%s: a text is needed", flag);
    list->item[list->count++] = value;
}

/* Adds cspeed.device=VALUE to the assignments of --set. */
static void take_device(void *to, const char *flag, const char *value)
{
    char *assignment;
    if (asprintf(&assignment, "cspeed.device=%s", value) < 0)
        leave(1, "out of memory for --%s", flag);
    take_item(to, flag, assignment);
}

static const flag_row *find_flag(const flag_row *row, const char *name, size_t length)
{
    for (; row->flag; row++) {
        size_t at = 0;
        while (at < length && (row->flag[at] == name[at] || (row->flag[at] == '_' && name[at] == '-')))
            at++;
        if (at == length && !row->flag[at])
            return row;
    }
    return NULL;
}

_Noreturn static void refuse_flag(const flag_row *row, const char *name, size_t length)
{
    enum { ROWS = 32 };
    const char *names[ROWS + 1] = { NULL };
    for (int i = 0; i < ROWS && row[i].flag; i++)
        names[i] = row[i].flag;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%.*s", (int)length, name);
    const char *meant = cs_nearest(wanted, names);
    if (meant)
        leave(WRONG_USAGE, "unknown flag --%.*s; did you mean --%s?", (int)length, name, meant);
    leave(WRONG_USAGE, "unknown flag --%.*s; --help lists those of %s, and launch flags stand before it", (int)length,
          name, program_invocation_short_name);
}

/* Reads "--flag value" or "--flag=value". */
static void read_flag(const flag_row *rows, char **argument, int *i)
{
    const char *name = argument[*i] + 2, *end = strchrnul(name, '=');
    const flag_row *row = find_flag(rows, name, (size_t)(end - name));
    if (!row)
        refuse_flag(rows, name, (size_t)(end - name));
    const char *value = !row->take ? NULL : *end ? end + 1 : argument[++*i];
    if (!row->take && *end)
        leave(WRONG_USAGE, "--%s takes no value", row->flag);
    if (row->take && !value)
        leave(WRONG_USAGE, "--%s needs a value", row->flag);
    if (row->take)
        row->take(row->to, row->flag, value);
    else
        *(bool *)row->to = true;
}

/* Returns the path of the model; the values of the flags are stored where their rows say. */
static const char *read_command_line(const flag_row *rows, const char *help, char **argument)
{
    const char *source = NULL;
    for (int i = 1; argument[i]; i++) {
        if (strcmp(argument[i], "-h") == 0 || strcmp(argument[i], "--help") == 0) {
            if (is_rank_zero())
                puts(help);
            exit(0);
        }
        if (strncmp(argument[i], "--", 2) == 0)
            read_flag(rows, argument, &i);
        else if (source)
            leave(WRONG_USAGE, "%s and %s: one model at a time", source, argument[i]);
        else
            source = argument[i];
    }
    if (!source)
        leave(WRONG_USAGE, "a folder of checkpoints or a Hugging Face folder is needed; try --help");
    return source;
}

/* ---- the model ---- */

static void set_items(cs_config *config, const flag_list *list)
{
    for (int i = 0; i < list->count; i++)
        CS_MUST(cs_config_set(config, list->item[i]));
}

/* Opens the model with the parameters of its checkpoint. Takes ownership of the configuration. */
static cs_engine *open_trained(cs_config *config)
{
    cs_engine *engine;
    CS_MUST(cs_initialize(&engine, config, NULL));
    const char *checkpoints = cs_config_get_string(config, "cspeed.load");
    if (checkpoints)
        CS_MUST(cs_load_checkpoint(engine, checkpoints, cs_config_get_string(config, "cspeed.tag"),
                                   &(cs_load_options){ .module_only = true }, NULL));
    return engine;
}

#endif
