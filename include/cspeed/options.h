/* options.h - reads the command line of a program by a table with one row for each option. (public)
 *
 *     typedef struct { int64_t steps; bool fresh; } settings;
 *     static const cs_option table[] = {
 *         { CS_OPTION(WHOLE, "steps n", settings, steps, "N", "optimizer steps"), .min = 1, .max = 1e9 },
 *         { CS_OPTION(SWITCH, "fresh", settings, fresh, NULL, "start over") },
 *     };
 *     cs_options_form form = { .what = "flag", .hint = "see the manual", CS_OPTIONS_TABLE(table), .max = 1 };
 *
 * `--foo_bar` means the same as `--foo-bar`, and `--x v` the same as `--x=v`. An option of a single letter has one
 * dash: `-n 5`. `--` ends the options. An argument that is neither an option nor the value of an option is a positional
 * argument, and so is a single `-`. Functions with the result int return 0, or CS_OPTIONS_WRONG with a sentence in
 * cs_error(); cs_options_choice is the exception. */
#ifndef CS_OPTIONS_H
#define CS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CS_OPTIONS_WRONG = 64, /* the exit code for a wrong command line */
    CS_OPTION_BYTES = 64,  /* size of the longest name, including its terminating zero */
    CS_OPTION_REPEATS = 64
};

typedef enum {
    CS_OPTION_SWITCH,   /* bool; takes no value */
    CS_OPTION_WHOLE,    /* int64_t; 5e8 and 2.0 are accepted too */
    CS_OPTION_NUMBER,   /* double */
    CS_OPTION_TEXT,     /* const char *; must not be empty */
    CS_OPTION_RAW,      /* const char *; may be empty */
    CS_OPTION_OPTIONAL, /* const char *; takes a value only as --name=VALUE; without a value it is "" */
    CS_OPTION_CHOICE,   /* int: the index of the given word in `value`, which lists the choices as "a|b|c" */
    CS_OPTION_LIST,     /* cs_option_list; the option may be repeated, but no value may be empty */
    /* the function `take` of the option checks and stores the given value; `take` gets the value NULL if the option
     * takes no value */
    CS_OPTION_TAKE,
    /* the option is accepted but has no field; only the function `given` of the form receives the option */
    CS_OPTION_INERT,
    /* the option is refused with "not supported: ..., because <text>", unless its value is empty or one of those in
     * `value`, which lists them as "a|b" */
    CS_OPTION_REFUSED,
    CS_OPTION_HELP, /* prints `usage` of the form and the table on rank 0, and ends the process with exit code 0 */
    CS_OPTION_GROUP /* not an option but a heading in the help; `text` is the heading, and `names` is "" */
} cs_option_kind;

/* The values of an option that may be repeated, in order. They point into the arguments. */
typedef struct {
    const char *list[CS_OPTION_REPEATS];
    int count;
} cs_option_list;

typedef struct {
    const char *names; /* "foo_bar f": names separated by spaces, the main name first, with underscores instead of
                        * dashes */
    cs_option_kind kind;
    size_t offset;     /* offset of the option's field in the struct of settings, in bytes */
    const char *value; /* the name of the value in the help; NULL if the option takes no value */
    const char *text;  /* the description of the option in the help */
    double min, max;   /* bounds of the value of a WHOLE or NUMBER; if `max` is 0, there is no upper bound */
    /* `word` is the option as the user gave it, for messages */
    int (*take)(void *field, const char *word, const char *value);
    /* text that only the function `given` of the form uses, for example the key that the option sets */
    const char *sets;
} cs_option;

#define CS_OPTION(kind_, names_, type_, member_, value_, text_)                                                        \
    .names = names_, .kind = CS_OPTION_##kind_, .offset = offsetof(type_, member_), .value = value_, .text = text_

typedef struct {
    const char *usage; /* the text of the help before the options; NULL if there is none */
    /* the name with which messages begin, as in "verify: ..."; NULL: messages begin without a name */
    const char *name;
    const char *what; /* the word for an option in messages, such as "flag" */
    const char *hint; /* the end of a message about an unknown option or argument */
    const cs_option *options;
    int count;
    int min, max;      /* bounds of the number of positional arguments; if `max` is negative, there is no upper bound */
    const char *needs; /* the message if there are fewer positional arguments than `min` */
    bool stops;        /* true: the first positional argument ends the options */
    /* A function that is called for each option before the option's value is stored, or NULL. The function returns 0,
     * or an exit code with a message in cs_error(). */
    int (*given)(void *settings, const cs_option *option, const char *word, const char *value);
    /* A function that says what an unknown option (without its dashes) or argument may mean: it returns the end of a
     * sentence, which the caller frees, or NULL. `advise` may be NULL. */
    char *(*advise)(const char *word);
} cs_options_form;

#define CS_OPTIONS_TABLE(table) .options = (table), .count = (int)(sizeof(table) / sizeof *(table))

/* Reads the NULL-terminated arguments (without the program's name) into `settings`, whose fields hold the defaults.
 * Moves the positional arguments to the front of the array *arguments, followed by NULL. If form->stops is set, the
 * array does not change; instead *arguments then points to the first positional argument in the array. Texts are not
 * copied. */
int cs_options_read(const cs_options_form *form, void *settings, char ***arguments);

/* For main(): reads argv and returns the positional arguments. A wrong command line ends the process with
 * CS_OPTIONS_WRONG after rank 0 has printed "PROGRAM: " and the message. */
char **cs_options_main(const cs_options_form *form, void *settings, char **argv);

/* Stores the value of one option, as cs_options_read does; `word` is the name of the option in messages. */
int cs_options_store(const cs_option *option, void *settings, const char *word, const char *value);

/* Prints the options with their texts to stdout, wrapped at 100 columns. */
void cs_options_help(const cs_option *options, int count);

/* returns NULL if there is no such option */
const cs_option *cs_options_find(const cs_option *options, int count, const char *name);
bool cs_options_takes_value(const cs_option *option); /* true if the next argument is the option's value */

/* Iterates over names that are separated by spaces: each call writes the next one to `name`. Before the first call
 * *place must point to the list. Returns false after the last name. */
bool cs_options_name(const char **place, char name[CS_OPTION_BYTES]);

/* Returns the index of `value` in `choices`, a list such as "a|b|c", or -1 if `value` is not in the list. */
int cs_options_choice(const char *choices, const char *value);

/* Parses a whole number from `min` to `max`, as CS_OPTION_WHOLE does. */
int cs_options_whole(int64_t *number, const char *word, const char *value, double min, double max);

/* Returns the last value of the option with these names in the arguments of another program, whose other options are
 * not known; NULL if the option is not given. */
const char *cs_options_last(const char *names, char **arguments);

#ifdef __cplusplus
}
#endif
#endif
