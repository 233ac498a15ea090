/* options.c - reads the command line of a program by a table with one row for each option. */
#include "base/must.h"
#include "cspeed/options.h"
#include "base/status.h"
#include "base/terminal.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* HELP_COLUMNS is the maximum width of a help text. The text is indented by 8 columns, so a line has at most 80. */
enum { MAX_NAMES = 320, HELP_COLUMNS = 72 };

/* Sets the message of cs_error() and gives the value CS_OPTIONS_WRONG. */
#define WRONG(...) (ce_fail(CS_BAD_CONFIG, __VA_ARGS__), (int)CS_OPTIONS_WRONG)

/* ---- the table ---- */

bool cs_options_name(const char **place, char name[CS_OPTION_BYTES])
{
    int length = (int)strcspn(*place, " ");
    if (length == 0)
        return false;
    snprintf(name, CS_OPTION_BYTES, "%.*s", length, *place);
    *place += length;
    *place += **place == ' ';
    return true;
}

const cs_option *cs_options_find(const cs_option *options, int count, const char *name)
{
    char spelling[CS_OPTION_BYTES];
    for (int i = 0; i < count; i++)
        for (const char *place = options[i].names; cs_options_name(&place, spelling);)
            if (strcmp(spelling, name) == 0)
                return &options[i];
    return NULL;
}

bool cs_options_takes_value(const cs_option *option)
{
    return option->value && option->kind != CS_OPTION_OPTIONAL;
}

int cs_options_choice(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (int index = 0;; index++) {
        size_t word = strcspn(choices, "|");
        if (word == length && strncmp(choices, value, word) == 0)
            return index;
        if (choices[word] == '\0')
            return -1;
        choices += word + 1;
    }
}

/* ---- help ---- */

/* Prints a paragraph that is indented by 8 columns. */
static void print_wrapped(const char *text)
{
    int terminal = ce_terminal_is(STDOUT_FILENO) ? ce_terminal_columns(STDOUT_FILENO) : 0, column = 0;
    int columns = terminal > 0 && terminal - 8 < HELP_COLUMNS ? terminal - 8 : HELP_COLUMNS;
    for (const char *word = text; *word; word += strspn(word, " ")) {
        int length = (int)strcspn(word, " ");
        if (column + length > columns)
            column = 0;
        printf(column ? " %.*s" : "\n        %.*s", length, word);
        column += length + 1;
        word += length;
    }
    putchar('\n');
}

static void print_row(const cs_option *option)
{
    const char *before = "  ";
    char name[CS_OPTION_BYTES];
    for (const char *place = option->names; cs_options_name(&place, name); before = ", ")
        printf("%s%s%s", before, name[1] ? "--" : "-", name);
    if (option->kind == CS_OPTION_OPTIONAL)
        printf("[=%s]", option->value);
    else if (option->value && strcmp(option->value, "*") != 0)
        printf(" %s", option->value);
    print_wrapped(option->text);
}

void cs_options_help(const cs_option *options, int count)
{
    for (int i = 0; i < count; i++)
        if (options[i].kind != CS_OPTION_GROUP)
            print_row(&options[i]);
        else
            printf("%s%s\n", i ? "\n" : "", options[i].text);
}

_Noreturn static void help(const cs_options_form *form)
{
    if (cs_launched_rank() == 0) {
        const char *usage = form->usage ? form->usage : "";
        /* with CSPEED_HELP=options the first line is left out, because `cspeed PROGRAM --help` has printed its own */
        fputs(getenv("CSPEED_HELP") ? usage + strcspn(usage, "\n") : usage, stdout);
        cs_options_help(form->options, form->count);
    }
    exit(0);
}

/* ---- storing one value ---- */

int cs_options_whole(int64_t *number, const char *word, const char *value, double min, double max)
{
    char *end;
    errno = 0;
    *number = strtoll(value, &end, 10);
    if (*end == '.' || *end == 'e' || *end == 'E') {
        double real = strtod(value, &end);
        bool whole = real == rint(real) && fabs(real) < 0x1p63;
        *number = whole ? (int64_t)real : 0;
        errno = whole ? 0 : ERANGE;
    }
    if (isdigit((unsigned char)value[*value == '-']) && !*end && !errno && (double)*number >= min &&
        (max == 0 || (double)*number <= max))
        return 0;
    if (max == 0)
        return WRONG("%s takes a whole number, %.0f or more, not \"%s\"", word, min, value);
    return WRONG("%s takes a whole number from %.0f to %.0f, not \"%s\"", word, min, max, value);
}

static int store_number(const cs_option *option, double *number, const char *word, const char *value)
{
    char *end;
    *number = strtod(value, &end);
    if (end != value && !*end && *number >= option->min && (option->max == 0 || *number <= option->max))
        return 0;
    if (option->max == 0)
        return WRONG("%s takes a number, %g or more, not \"%s\"", word, option->min, value);
    return WRONG("%s takes a number from %g to %g, not \"%s\"", word, option->min, option->max, value);
}

static int store_item(cs_option_list *list, const char *word, const char *value)
{
    if (list->count == CS_OPTION_REPEATS)
        return WRONG("%s may be given at most %d times", word, CS_OPTION_REPEATS);
    list->list[list->count++] = value;
    return 0;
}

static int refuse(const cs_option *option, const char *word, const char *value)
{
    if (value && (!*value || cs_options_choice(option->value, value) >= 0))
        return 0;
    return WRONG("not supported: %s%s%s, because %s", word, value ? " " : "", value ? value : "", option->text);
}

int cs_options_store(const cs_option *option, void *settings, const char *word, const char *value)
{
    void *field = (char *)settings + option->offset;
    if ((option->kind == CS_OPTION_TEXT || option->kind == CS_OPTION_LIST) && !*value)
        return WRONG("%s has an empty value", word);
    switch (option->kind) {
    case CS_OPTION_SWITCH:
        return *(bool *)field = true, 0;
    case CS_OPTION_WHOLE:
        return cs_options_whole(field, word, value, option->min, option->max);
    case CS_OPTION_NUMBER:
        return store_number(option, field, word, value);
    case CS_OPTION_TEXT:
    case CS_OPTION_RAW:
    case CS_OPTION_OPTIONAL:
        return *(const char **)field = value ? value : "", 0;
    case CS_OPTION_CHOICE:
        if ((*(int *)field = cs_options_choice(option->value, value)) < 0)
            return WRONG("%s is one of %s, not \"%s\"", word, option->value, value);
        return 0;
    case CS_OPTION_LIST:
        return store_item(field, word, value);
    case CS_OPTION_TAKE:
        return option->take(field, word, value);
    case CS_OPTION_REFUSED:
        return refuse(option, word, value);
    default:
        return 0;
    }
}

/* ---- the arguments ---- */

/* Splits an option into word, name and value. "--foo-bar=v" gives the word "--foo-bar", the name "foo_bar" and the
 * value "v"; "-q" gives the word "-q", the name "q" and the value NULL. Returns false for a positional argument and for
 * "--". */
static bool split(const char *text, char word[CS_OPTION_BYTES], char name[CS_OPTION_BYTES], const char **value)
{
    bool two = text[0] == '-' && text[1] == '-';
    size_t length = strcspn(text, "=");
    if (text[0] != '-' || !text[1 + two])
        return false;
    snprintf(word, CS_OPTION_BYTES, "%.*s", (int)length, text);
    snprintf(name, CS_OPTION_BYTES, "%s", strlen(word) > 1 + (size_t)two ? word + 1 + two : "");
    for (char *c = name; two && *c; c++)
        *c = *c == '-' ? '_' : *c;
    *value = text[length] ? text + length + 1 : NULL;
    return true;
}

/* Returns true if the option is written with one dash before a name of one letter, or with two before a longer name. */
static bool has_its_dashes(const char *word, const char *name)
{
    return (word[1] == '-') == (name[0] && name[1]);
}

const char *cs_options_last(const char *names, char **arguments)
{
    const cs_option row = { .names = names };
    const char *found = NULL, *value;
    char word[CS_OPTION_BYTES], name[CS_OPTION_BYTES];
    for (; *arguments; arguments++)
        if (split(*arguments, word, name, &value) && has_its_dashes(word, name) && cs_options_find(&row, 1, name))
            found = value ? value : arguments[1] ? arguments[1] : found;
    return found;
}

static char *advise(const cs_options_form *form, const char *word)
{
    return form->advise ? form->advise(word) : NULL;
}

/* `value` is the value behind the option, or NULL; it takes the place of VALUE in an advice. */
static int refuse_unknown(const cs_options_form *form, const char *word, const char *wanted, const char *value)
{
    static const char blank[] = "=VALUE";
    CE_FREED char *advice = advise(form, wanted);
    const char *gap = advice && value ? strstr(advice, blank) : NULL;
    if (gap)
        return WRONG("unknown %s %s: %.*s=%s%s", form->what, word, (int)(gap - advice), advice, value,
                     gap + sizeof blank - 1);
    if (advice)
        return WRONG("unknown %s %s: %s", form->what, word, advice);
    static char names[MAX_NAMES][CS_OPTION_BYTES];
    const char *list[MAX_NAMES + 1];
    int count = 0;
    for (int i = 0; i < form->count; i++)
        for (const char *place = form->options[i].names; count < MAX_NAMES && cs_options_name(&place, names[count]);)
            if (names[count][1]) {
                list[count] = names[count];
                count++;
            }
    list[count] = NULL;
    const char *nearest = cs_nearest(wanted, list);
    if (nearest)
        return WRONG("unknown %s %s; did you mean --%s?", form->what, word, nearest);
    return WRONG("unknown %s %s; %s", form->what, word, form->hint);
}

/* Applies one option to `settings`. `*rest` points to the next argument, and is advanced if that argument is the value
 * of the option. */
static int read_option(const cs_options_form *form, void *settings, const char *text, char ***rest)
{
    char word[CS_OPTION_BYTES], name[CS_OPTION_BYTES];
    const char *value = NULL;
    split(text, word, name, &value);
    const cs_option *option = has_its_dashes(word, name) ? cs_options_find(form->options, form->count, name) : NULL;
    if (!option)
        return refuse_unknown(form, word, name, value || !**rest || ***rest == '-' ? value : **rest);
    if (!option->value && value)
        return WRONG("%s takes no value, but got \"%s\"", word, value);
    if (cs_options_takes_value(option) && !value) {
        if (!**rest)
            return WRONG("%s needs a value", word);
        value = *(*rest)++;
    }
    if (option->kind == CS_OPTION_HELP)
        help(form);
    int code = form->given ? form->given(settings, option, word, value) : 0;
    return code ? code : cs_options_store(option, settings, word, value);
}

static int refuse_argument(const cs_options_form *form, const char *word)
{
    CE_FREED char *advice = advise(form, word);
    int code = WRONG("unknown argument %s%s %s", word, advice ? ":" : ";", advice ? advice : form->hint);
    return code;
}

static int read_all(const cs_options_form *form, void *settings, char ***arguments)
{
    char **rest = *arguments, **places = rest;
    int count = 0, code = 0;
    bool ended = false;
    while (code == 0 && *rest) {
        char *text = *rest;
        bool option = !ended && text[0] == '-' && text[1];
        if (!option && form->stops)
            break;
        rest++;
        if (option && strcmp(text, "--") == 0)
            ended = true;
        else if (option)
            code = read_option(form, settings, text, &rest);
        else if (form->max >= 0 && count == form->max)
            code = refuse_argument(form, text);
        else
            places[count++] = text;
    }
    if (form->stops)
        *arguments = rest;
    else if (code == 0)
        places[count] = NULL;
    return code == 0 && count < form->min ? WRONG("%s", form->needs) : code;
}

int cs_options_read(const cs_options_form *form, void *settings, char ***arguments)
{
    int code = read_all(form, settings, arguments);
    if (code && form->name)
        ce_fail(CS_BAD_CONFIG, "%s: %s", form->name, cs_error());
    return code;
}

char **cs_options_main(const cs_options_form *form, void *settings, char **argv)
{
    char **places = argv + 1;
    int code = cs_options_read(form, settings, &places);
    if (code == 0)
        return places;
    if (cs_launched_rank() == 0)
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, cs_error());
    exit(code);
}
