/* options.c - Reads the launch flags: PET_ variables, CSPEED_ variables, command line; a later source overrides. */
#include "options.h"

#include "base/status.h"
#include "codes.h"
#include "flags.h"
#include "spellings.h"

#include <ctype.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FLAGS = 160, ORIGIN_BYTES = 80 };

static char origins[MOST_FLAGS][ORIGIN_BYTES]; /* one for each row of the table; "": default */
static const char *values[MOST_FLAGS];         /* as given by the user */

/* Records the origin of a flag and of the flags that it sets. */
static void note_origin(const cl_flag *flag, const char *origin)
{
    char name[CL_FLAGS_NAME];
    bool twin;
    snprintf(origins[flag - cl_flags_table], ORIGIN_BYTES, "%s", origin);
    for (const char *place = flag->sets ? flag->sets : ""; cl_flags_name(&place, name, &twin);)
        snprintf(origins[cl_flags_find(name) - cl_flags_table], ORIGIN_BYTES, "%s", origin);
}

const char *cl_options_origin(const char *name)
{
    const cl_flag *flag = cl_flags_find(name);
    const char *origin = flag ? origins[flag - cl_flags_table] : "";
    return *origin ? origin : "default";
}

void cl_options_given(void (*each)(const char *name, const char *value, const char *origin, void *argument),
                      void *argument)
{
    char name[CL_FLAGS_NAME], flag[CL_FLAGS_NAME + 2];
    bool twin;
    for (int i = 0; i < cl_flags_count; i++) {
        const char *place = cl_flags_table[i].names;
        if (!*origins[i] || !cl_flags_name(&place, name, &twin))
            continue;
        snprintf(flag, sizeof flag, "--%s", name);
        each(flag, values[i], origins[i], argument);
    }
}

static int refuse_unknown(const char *word, const char *wanted)
{
    static char names[2 * MOST_FLAGS][CL_FLAGS_NAME];
    const char *list[2 * MOST_FLAGS + 1];
    int count = 0;
    bool twin;
    for (int i = 0; i < cl_flags_count; i++)
        for (const char *place = cl_flags_table[i].names; cl_flags_name(&place, names[count], &twin);)
            if (names[count][1]) {
                list[count] = names[count];
                count++;
            }
    list[count] = NULL;
    const char *nearest = cs_nearest(wanted, list);
    if (!nearest)
        return cl_codes_fail(CL_CODE_USAGE, "unknown launch flag %s; `cspeed help flags` lists them all", word);
    return cl_codes_fail(CL_CODE_USAGE, "unknown launch flag %s; the nearest is --%s", word, nearest);
}

/* ---- storing one value ---- */

static int refuse(const cl_flag *flag, const char *word, const char *value)
{
    if (value && (*value == '\0' || cl_flags_choice(flag->value, value) >= 0))
        return 0;
    return cl_codes_fail(CL_CODE_USAGE, "not supported: %s%s%s, because %s", word, value ? " " : "", value ? value : "",
                         flag->text);
}

static int add_to_list(cl_repeated *field, const char *word, const char *value)
{
    if (field->count == CL_OPTION_REPEATS)
        return cl_codes_fail(CL_CODE_USAGE, "%s may be given at most %d times; use a file instead", word,
                             CL_OPTION_REPEATS);
    field->list[field->count++] = value;
    return 0;
}

/* Stores the value of a flag whose field is a pointer to the text. */
static int store_word(const cl_flag *flag, const char *word, const char *value, const char **field)
{
    int code = flag->kind == CL_FLAG_CHECKED ? flag->check(word, value) : 0;
    if (code)
        return code;
    if (flag->kind == CL_FLAG_TEXT && !*value)
        return cl_codes_fail(CL_CODE_USAGE, "%s has an empty value", word);
    if (flag->kind == CL_FLAG_MAYBE && !*value)
        value = NULL;
    if (flag->kind != CL_FLAG_CHECKED || strcmp(value, "-1") != 0)
        *field = value || flag->kind == CL_FLAG_MAYBE ? value : "";
    return 0;
}

/* Stores a value in its field. `value` is NULL for a switch. */
static int store(cl_options *options, const cl_flag *flag, const char *word, const char *value)
{
    void *field = (char *)options + flag->offset;
    switch (flag->kind) {
    case CL_FLAG_SWITCH:
        return *(bool *)field = true, 0;
    case CL_FLAG_COUNT:
        return strcmp(value, "-1") == 0 ? 0 : cl_spellings_whole(word, value, 0, 1000000, field);
    case CL_FLAG_PORT:
        return cl_spellings_whole(word, value, 0, 65535, field);
    case CL_FLAG_SECONDS:
        return cl_spellings_seconds(word, value, field);
    case CL_FLAG_CHOICE:
        if ((*(int *)field = cl_flags_choice(flag->value, value)) < 0)
            return cl_codes_fail(CL_CODE_USAGE, "%s is one of %s, not \"%s\"", word, flag->value, value);
        return 0;
    case CL_FLAG_SIGNAL:
        if ((*(int *)field = cl_codes_signal_number(value)) == 0)
            return cl_codes_fail(CL_CODE_USAGE, "%s takes a signal such as TERM, INT or 15, not \"%s\"", word, value);
        return 0;
    case CL_FLAG_LIST:
        return add_to_list(field, word, value);
    case CL_FLAG_CALL:
        return flag->call(options, word, value);
    case CL_FLAG_INERT:
        return 0;
    case CL_FLAG_REFUSED:
        return refuse(flag, word, value);
    default:
        return store_word(flag, word, value, field);
    }
}

/* ---- the environment ---- */

/* Returns 1 for yes, 0 for no, -1 for anything else. */
static int parse_bool(const char *value)
{
    if (cl_flags_choice("1|true|yes|on", value) >= 0)
        return 1;
    return cl_flags_choice("0|false|no|off", value) >= 0 ? 0 : -1;
}

static int store_twin(cl_options *options, const cl_flag *flag, const char *variable, const char *value)
{
    if (!flag->value) {
        int yes = parse_bool(value);
        if (yes < 0)
            return cl_codes_fail(CL_CODE_USAGE, "%s is 1 or 0, not \"%s\"", variable, value);
        if (!yes)
            return 0;
        value = NULL;
    }
    note_origin(flag, variable);
    values[flag - cl_flags_table] = value;
    return store(options, flag, variable, value);
}

/* Returns the variable PREFIX + NAME if it is set and not empty. A rank's job id does not apply to a job that the
 * rank starts. */
static const char *look_up(const char *prefix, const char *name, char variable[ORIGIN_BYTES])
{
    snprintf(variable, ORIGIN_BYTES, "%s%s", prefix, name);
    for (char *c = variable; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    const char *value = getenv(variable);
    if (strcmp(variable, "CSPEED_JOB_ID") == 0 && getenv("CSPEED_ATTEMPT"))
        return NULL;
    return value && *value ? value : NULL;
}

static int read_twin(cl_options *options, const cl_flag *flag, const char *prefix, bool torchrun)
{
    char name[CL_FLAGS_NAME], variable[ORIGIN_BYTES];
    bool twin;
    for (const char *place = flag->bare ? "" : flag->names; cl_flags_name(&place, name, &twin);) {
        const char *value = name[1] && (twin || !torchrun) ? look_up(prefix, name, variable) : NULL;
        if (value)
            return store_twin(options, flag, variable, value);
    }
    return 0;
}

static int read_environment(cl_options *options, const char *prefix, bool torchrun)
{
    int code = 0;
    for (int i = 0; code == 0 && i < cl_flags_count; i++)
        code = read_twin(options, &cl_flags_table[i], prefix, torchrun);
    return code;
}

/* ---- the command line ---- */

/* Applies one flag. `*rest` points to the next argument and is advanced if that is taken as the value. */
static int read_flag(cl_options *options, const cl_flag *flag, const char *word, const char *value, char ***rest)
{
    if (!flag->value && value)
        return cl_codes_fail(CL_CODE_USAGE, "%s takes no value, but got \"%s\"", word, value);
    if (cl_flags_takes_value(flag) && !value) {
        if (!**rest)
            return cl_codes_fail(CL_CODE_USAGE, "%s needs a value", word);
        value = *(*rest)++;
    }
    note_origin(flag, word);
    values[flag - cl_flags_table] = value;
    return store(options, flag, word, value);
}

/* Splits "--foo-bar=v" into word "--foo-bar", name "foo_bar" and value "v"; "-q" into word "-q", name "q" and no
 * value. */
static const char *split(const char *text, char word[CL_FLAGS_NAME], char name[CL_FLAGS_NAME])
{
    int dashes = text[1] == '-' ? 2 : 1;
    const char *equals = dashes == 2 ? strchr(text, '=') : NULL;
    int length = equals ? (int)(equals - text) : (int)strlen(text);
    snprintf(word, CL_FLAGS_NAME, "%.*s", length, text);
    snprintf(name, CL_FLAGS_NAME, "%s", strlen(word) > (size_t)dashes ? word + dashes : "");
    for (char *c = name; *c; c++)
        if (*c == '-' && dashes == 2)
            *c = '_';
    return equals ? equals + 1 : NULL;
}

static int read_line(cl_options *options, char **argv)
{
    char **rest = argv + 1;
    while (*rest && (*rest)[0] == '-' && (*rest)[1]) {
        const char *text = *rest++;
        if (strcmp(text, "--") == 0)
            break;
        char word[CL_FLAGS_NAME], name[CL_FLAGS_NAME];
        const char *value = split(text, word, name);
        const cl_flag *flag = cl_flags_find(name);
        if (!flag || (text[1] != '-') != (name[1] == '\0'))
            return refuse_unknown(word, name);
        int code = read_flag(options, flag, word, value, &rest);
        if (code)
            return code;
    }
    options->program = rest;
    return 0;
}

/* Checks combinations of flags. */
static int check_combinations(cl_options *options)
{
    if (options->hostfile && options->hosts)
        return cl_codes_fail(CL_CODE_USAGE, "%s and %s both name the hosts; give one of them",
                             cl_options_origin("hosts"), cl_options_origin("hostfile"));
    if (options->standalone && options->no_ssh)
        return cl_codes_fail(CL_CODE_USAGE, "%s is one machine, %s one of several", cl_options_origin("standalone"),
                             cl_options_origin("no_ssh"));
    if (options->stage.count && options->no_ssh)
        return cl_codes_fail(CL_CODE_USAGE,
                             "not supported: %s with %s, because such a node takes nothing to its disk from "
                             "the network; put the file there first",
                             cl_options_origin("stage"), cl_options_origin("no_ssh"));
    if (options->local_rank_arg)
        options->local_rank_flag = "--local_rank";
    if (options->bind_cores_to_rank && options->bind == CL_BIND_AUTO)
        options->bind = CL_BIND_CORE;
    if (options->bind_core_list && options->bind == CL_BIND_AUTO)
        options->bind = CL_BIND_CORE;
    if (options->dead_after <= options->heartbeat)
        return cl_codes_fail(CL_CODE_USAGE,
                             "a node says every %g s that it lives (--heartbeat), so --dead_after must "
                             "be longer than that, not %g s",
                             options->heartbeat, options->dead_after);
    return 0;
}

int cl_options_read(cl_options *options, char **argv)
{
    memset(origins, 0, sizeof origins);
    *options = (cl_options){
        .argv = argv,
        .grace_seconds = 30,
        .stop_signal = SIGTERM,
        .master_port = -1,
        .rdzv_timeout = 600,
        .last_call = 30,
        .heartbeat = 5,
        .dead_after = 15,
        .restart_delay = 5,
        .stall_timeout = 600,
        .restart_on = "any",
        .forward = "USR1,USR2",
        .color = "auto",
    };
    int code = read_environment(options, "PET_", true); /* a later source overrides */
    if (code == 0)
        code = read_environment(options, "CSPEED_", false);
    if (code == 0)
        code = read_line(options, argv);
    return code ? code : check_combinations(options);
}
