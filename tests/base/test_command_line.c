/* test_command_line.c - the reader of command lines: kinds of options, spellings, positional arguments, mistakes. */
#include "suite.h"

#include "base/status.h"
#include "cspeed/options.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    bool on, given;
    int64_t count;
    double share;
    const char *text, *raw, *optional, *taken;
    int choice;
    cs_option_list items;
} settings;

static int take(void *field, const char *word, const char *value)
{
    if (strcmp(value, "bad") == 0)
        return ce_fail(CS_BAD_CONFIG, "%s: bad", word), (int)CS_OPTIONS_WRONG;
    *(const char **)field = value;
    return 0;
}

static char seen[256]; /* the text "name=value " for every option that was read */

static int note(void *to, const cs_option *option, const char *word, const char *value)
{
    size_t length = strlen(seen);
    ((settings *)to)->given = true;
    ck_assert_ptr_nonnull(option);
    snprintf(seen + length, sizeof seen - length, "%s=%s ", word, value ? value : "");
    return 0;
}

static const cs_option table[] = {
    { .names = "", .kind = CS_OPTION_GROUP, .text = "A group" },
    { CS_OPTION(SWITCH, "switch_it s", settings, on, NULL, "a switch") },
    { CS_OPTION(WHOLE, "count n", settings, count, "N", "a whole number"), .min = 1, .max = 1e9 },
    { CS_OPTION(NUMBER, "share", settings, share, "X", "a number"), .max = 0.5 },
    { CS_OPTION(TEXT, "text", settings, text, "T", "a text") },
    { CS_OPTION(RAW, "raw", settings, raw, "T", "any text") },
    { CS_OPTION(OPTIONAL, "optional", settings, optional, "T", "with a value or without") },
    { CS_OPTION(CHOICE, "choice", settings, choice, "one|two|three", "one of three") },
    { CS_OPTION(LIST, "item", settings, items, "T", "may be repeated") },
    { CS_OPTION(TAKE, "taken", settings, taken, "T", "checked by a function"), .take = take },
    { .names = "inert", .kind = CS_OPTION_INERT, .value = "V", .text = "without effect" },
    { .names = "refused", .kind = CS_OPTION_REFUSED, .value = "0|off", .text = "of a reason" },
};

enum { MAX_COUNT = 90 };
static char line[2048], *words[MAX_COUNT];

/* Splits the text at spaces and reads the words as a command line. Returns the exit code; *places is the list of
 * positional arguments. */
static int read_line(settings *s, const cs_options_form *form, const char *text, char ***places)
{
    int count = 0;
    *s = (settings){ .share = 0.25 };
    snprintf(line, sizeof line, "%s", text);
    for (char *rest, *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    *places = words;
    seen[0] = '\0';
    return cs_options_read(form, s, places);
}

static cs_options_form form = { .what = "flag", .hint = "see the manual", CS_OPTIONS_TABLE(table), .max = -1 };

START_TEST(every_kind_is_stored)
{
    settings s;
    char **places;
    ck_assert_int_eq(read_line(&s, &form,
                               "a --switch-it --count=5e8 --share 0.5 b --text=x=y --raw= --optional --choice two "
                               "--item 1 --item=2 --taken t --inert i --refused off - -- --text",
                               &places),
                     0);
    ck_assert(s.on && s.count == 500000000 && s.share == 0.5 && s.choice == 1 && s.items.count == 2);
    ck_assert_str_eq(s.text, "x=y");
    ck_assert_str_eq(s.raw, "");
    ck_assert_str_eq(s.optional, "");
    ck_assert_str_eq(s.taken, "t");
    ck_assert_str_eq(s.items.list[1], "2");
    static const char *const positional[] = { "a", "b", "-", "--text" };
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(places[i], positional[i]);
    ck_assert_ptr_null(places[4]);

    ck_assert_int_eq(read_line(&s, &form, "-s -n 7 --count 8 --optional=v --count_ 1", &places), CS_OPTIONS_WRONG);
    ck_assert(s.on && s.count == 8); /* -n and --count are one option; the value that was given last is used */
    ck_assert_str_eq(s.optional, "v");
    ck_assert_int_eq(read_line(&s, &form, "-n=7", &places), 0);
    ck_assert(s.count == 7 && s.share == 0.25 && !s.text);
}
END_TEST

START_TEST(the_first_positional_argument_can_end_the_options)
{
    settings s;
    char **places;
    cs_options_form stops = form;
    stops.stops = true;
    ck_assert_int_eq(read_line(&s, &stops, "--count 3 program --count x", &places), 0);
    ck_assert_int_eq(s.count, 3);
    ck_assert_str_eq(places[0], "program");
    ck_assert_str_eq(places[1], "--count");
    ck_assert_ptr_eq(places, words + 2);
    ck_assert_int_eq(read_line(&s, &stops, "-- --count x", &places), 0);
    ck_assert_str_eq(places[0], "--count");
    ck_assert_int_eq(read_line(&s, &stops, "-s", &places), 0);
    ck_assert_ptr_null(places[0]);
}
END_TEST

START_TEST(the_form_sees_every_option_first)
{
    settings s;
    char **places;
    cs_options_form noting = form;
    noting.given = note;
    ck_assert_int_eq(read_line(&s, &noting, "--switch-it --inert 1 -n 2 --refused=1", &places), CS_OPTIONS_WRONG);
    ck_assert(s.given && s.count == 2);
    ck_assert_str_eq(seen, "--switch-it= --inert=1 -n=2 --refused=1 ");
}
END_TEST

START_TEST(mistakes_are_named)
{
    static const struct {
        const char *line, *sentence;
    } rows[] = {
        { "--cuont 3", "it: unknown flag --cuont; did you mean --count?" },
        { "--zzzzzzzz=3", "it: unknown flag --zzzzzzzz; see the manual" },
        { "-count 3", "unknown flag -count; did you mean --count?" },
        { "--n 3", "unknown flag --n; see the manual" },
        { "-x", "unknown flag -x; see the manual" },
        { "--=3", "unknown flag --" },
        { "--coun 3", "did you mean --count?" },
        { "--count", "it: --count needs a value" },
        { "--switch_it=1", "--switch_it takes no value, but got \"1\"" },
        { "--text=", "--text has an empty value" },
        { "--item=", "--item has an empty value" },
        { "--count 0", "--count takes a whole number from 1 to 1000000000, not \"0\"" },
        { "--count -1", "not \"-1\"" },
        { "--count 2000000000", "from 1 to 1000000000" },
        { "--count 1.5", "not \"1.5\"" },
        { "--count 3x", "not \"3x\"" },
        { "--count 0x3", "not \"0x3\"" },
        { "--count inf", "not \"inf\"" },
        { "--count=", "not \"\"" },
        { "--count 99999999999999999999", "not \"99999999999999999999\"" },
        { "--count 1e99", "not \"1e99\"" },
        { "--share 0.6", "--share takes a number from 0 to 0.5, not \"0.6\"" },
        { "--share nan", "not \"nan\"" },
        { "--share 0.5x", "not \"0.5x\"" },
        { "--choice four", "--choice is one of one|two|three, not \"four\"" },
        { "--choice on", "not \"on\"" },
        { "--taken bad", "it: --taken: bad" },
        { "--refused on", "not supported: --refused on, because of a reason" },
        { "a b c", "it: unknown argument c; see the manual" },
        { "-s", "it: two are needed" },
    };
    cs_options_form strict = form;
    strict.name = "it";
    strict.min = strict.max = 2;
    strict.needs = "two are needed";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        settings s;
        char **places;
        ck_assert_msg(read_line(&s, &strict, rows[i].line, &places) == CS_OPTIONS_WRONG, "%s", rows[i].line);
        ck_assert_msg(strstr(cs_error(), rows[i].sentence), "%s: %s", rows[i].line, cs_error());
    }
}
END_TEST

START_TEST(a_list_has_an_end)
{
    settings s;
    char **places, many[2048] = "";
    for (int i = 0; i < CS_OPTION_REPEATS; i++)
        strcat(many, "--item=x ");
    ck_assert_int_eq(read_line(&s, &form, many, &places), 0);
    ck_assert_int_eq(s.items.count, CS_OPTION_REPEATS);
    strcat(many, "--item=x");
    ck_assert_int_eq(read_line(&s, &form, many, &places), CS_OPTIONS_WRONG);
    ck_assert_str_eq(cs_error(), "--item may be given at most 64 times");
}
END_TEST

START_TEST(abbreviations_are_refused)
{
    settings s;
    char **places;
    ck_assert_int_eq(read_line(&s, &form, "--coun 3", &places), CS_OPTIONS_WRONG);
    ck_assert_msg(strstr(cs_error(), "did you mean --count?") != NULL, "%s", cs_error());
}
END_TEST

START_TEST(a_value_is_found_in_another_command_line)
{
    char *arguments[] = { (char[]){ "x" },          (char[]){ "--config" },
                          (char[]){ "a" },          (char[]){ "--config_help" },
                          (char[]){ "--deep-c=b" }, (char[]){ "-config" },
                          (char[]){ "other" },      NULL };
    ck_assert_str_eq(cs_options_last("config deep_c", arguments), "b");
    ck_assert_str_eq(cs_options_last("config", arguments), "a");
    ck_assert_ptr_null(cs_options_last("other", arguments));
    arguments[3] = (char[]){ "--config" };
    arguments[4] = NULL;
    ck_assert_str_eq(cs_options_last("config", arguments), "a"); /* the last --config has no value */
}
END_TEST

SUITE_MAIN("command_line", every_kind_is_stored, the_first_positional_argument_can_end_the_options,
           the_form_sees_every_option_first, mistakes_are_named, a_list_has_an_end, abbreviations_are_refused,
           a_value_is_found_in_another_command_line)
