/* config.c - `cspeed config`: prints the value and the origin of every key, and all errors and warnings, before a run.
 */
#include "ground/codes.h"
#include "ground/command.h"
#include "config/differences.h"
#include "config/listing.h"
#include "config/words.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Some keys have a very large upper limit, which only keeps computations in range. A limit of at least this value is
 * not printed. */
#define AS_GOOD_AS_OPEN 1e15

enum { MAX_WORLD = 1 << 20, SHOWN = 96, MAX_VALUE = 24 };

typedef struct {
    const char *file, *explain;
    cs_option_list sets;
    int64_t world; /* the world size; 0: it is taken from the environment */
    bool json, lenient, all, words;
} request;

/* ---- the command line ---- */

static int read_arguments(request *r, char **at)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(SWITCH, "json", json, NULL) },
        { CL_COMMAND_OPTION(SWITCH, "lenient", lenient, NULL) },
        { CL_COMMAND_OPTION(SWITCH, "all", all, NULL) },
        { CL_COMMAND_OPTION(SWITCH, "words", words, NULL) },
        { CL_COMMAND_OPTION(WHOLE, "world_size", world, "N"), .min = 1, .max = MAX_WORLD },
        { CL_COMMAND_OPTION(RAW, "explain", explain, "KEY.PATH") },
        { CL_COMMAND_OPTION(LIST, "set", sets, "KEY.PATH=VALUE") },
    };
    static const cs_options_form form = { CL_COMMAND_FORM("config", 0, 1, NULL), CS_OPTIONS_TABLE(table) };
    int code = cs_options_read(&form, r, &at);
    r->file = *at;
    if (code == 0 && !r->file && !r->explain && !r->words)
        code = cl_codes_fail(CL_CODE_USAGE, "config: name a file, or --explain KEY");
    return code;
}

/* ---- the configuration ---- */

static cs_status open_config(cs_config **config, const request *r)
{
    cs_status status = cs_config_open(config, r->file);
    if (status != CS_OK)
        return status;
    if (r->lenient)
        cs_config_lenient(*config);
    if (r->world)
        cs_config_for_world(*config, (int)r->world, (int)r->world);
    for (int i = 0; status == CS_OK && i < r->sets.count; i++)
        status = cs_config_set(*config, r->sets.list[i]);
    return status;
}

/* Returns true if the configuration describes its model, or names a folder of this machine that contains the model's
 * config.json. */
static bool has_model(const cs_config *config)
{
    const ce_settings *s = &config->settings;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/config.json", s->model_path ? s->model_path : "");
    return s->model && (!s->model_path || access(path, R_OK) == 0);
}

/* Makes the checks that training makes when it opens the model. */
static cs_status check_model(const request *r)
{
    cs_config *config = NULL;
    cs_unit_size *units = NULL;
    int64_t count;
    cs_status status = open_config(&config, r);
    if (status == CS_OK)
        status = cs_estimate_units(config, &units, &count); /* cs_estimate_units takes ownership of the configuration */
    else
        cs_config_close(config);
    free(units);
    return status;
}

/* ---- --explain ---- */

static void print_limits(const ce_key *key)
{
    bool limited = key->min != 0 || key->max != 0;
    if (key->type == CE_KEY_CHOICE)
        printf(", one of %s", key->choices);
    else if (limited && key->max >= AS_GOOD_AS_OPEN)
        printf(", at least %.10g%s", key->min, key->max == INFINITY ? ", or Infinity" : "");
    else if (limited)
        printf(", from %.10g to %.10g", key->min, key->max);
}

static void explain_row(void *to, const char *heading, const ce_key *key)
{
    const request *r = to;
    const ce_difference *other = ce_differences_find(r->explain);
    /* true: the key belongs to the optimizer or schedule named `heading`, and the path that the user gave does not
     * contain this name */
    bool bare = *heading && !strstr(r->explain, heading);
    printf("%s%s%s%s\n", r->explain, bare ? " (" : "", bare ? heading : "", bare ? ")" : "");
    printf("  %s, default %s", ce_keys_type_name(key->type), key->fallback);
    print_limits(key);
    printf("\n  %s%s%s\n",
           key->type == CE_KEY_REFUSED ? "not supported, because "
           : key->type == CE_KEY_INERT ? "accepted, without effect: "
                                       : "",
           key->sentence, key->type == CE_KEY_REFUSED ? " (its default is accepted)" : "");
    if (other)
        printf("  DeepSpeed: %s. Here: %s; %s.\n", other->theirs, other->ours, other->why);
}

static int explain(request *r)
{
    if (ce_listing_explain(r->explain, explain_row, r) > 0)
        return 0;
    char *other = cs_word_advice(r->explain, false);
    if (other) {
        printf("%s: %s\n", r->explain, other);
        free(other);
        return 0;
    }
    char *near = ce_listing_nearest(r->explain);
    int code = cl_codes_fail(CL_CODE_USAGE, "no key is at %s%s%s", r->explain, near ? "; the nearest is " : "",
                             near ? near : "");
    free(near);
    return code;
}

/* ---- the values ---- */

/* The arguments of measure_value and print_value, which ce_listing_each calls for each value of the configuration. If
 * `defaults` is true, only the values whose origin is "default" are counted and printed; otherwise only the other
 * values are. */
typedef struct {
    bool defaults;
    int count, path, value; /* count: number of counted values; path, value: widths of the columns for the paths and for
                             * the values */
} pass;

static bool is_of(const pass *p, const ce_listing *item)
{
    return (strcmp(item->origin, "default") == 0) == p->defaults;
}

static void measure_value(void *to, const ce_listing *item)
{
    pass *p = to;
    char text[SHOWN];
    int path = (int)strlen(item->path), value = (int)strlen(ce_json_show(item->value, text, sizeof text));
    if (!is_of(p, item))
        return;
    p->count++;
    p->path = path > p->path ? path : p->path;
    p->value = value > p->value && value <= MAX_VALUE ? value : p->value;
}

static void print_value(void *to, const ce_listing *item)
{
    const pass *p = to;
    char text[SHOWN];
    if (is_of(p, item))
        printf("  %-*s  %-*s  %s%s%s\n", p->path, item->path, p->value, ce_json_show(item->value, text, sizeof text),
               item->origin, item->idle ? "; no effect: " : "", item->idle ? item->idle : "");
}

/* Returns the number of values whose origin is not "default", or, if `defaults` is true, of those whose origin is
 * "default". Prints these values if `wanted` is true. */
static int print_values(cs_config *config, bool defaults, bool wanted)
{
    pass p = { .defaults = defaults };
    ce_listing_each(config, measure_value, &p);
    if (wanted && defaults && p.count > 0)
        puts("defaults:");
    if (wanted)
        ce_listing_each(config, print_value, &p);
    return p.count;
}

static void add_value(void *to, const ce_listing *item)
{
    json_object_set_new(to, item->path,
                        json_pack("{sOsssb}", "value", item->value, "origin", item->origin, "effect", !item->idle));
}

/* Says what `train` needs and the configuration does not name. A program of one's own may have both by itself. */
static void print_missing(const ce_settings *s, const char *file)
{
    bool model = s->model, data = s->train_count > 0;
    if (!model || !data)
        printf("%s: `train` also needs %s%s%s\n", file, model ? "" : "a model (--model DIR, or cspeed.model)",
               model || data ? "" : " and ", data ? "" : "data (--data PATH, or cspeed.data.train)");
}

/* Prints the errors first: notes and values are long. */
static void print_text(cs_config *config, const request *r, cs_status status)
{
    if (status != CS_OK)
        fprintf(stderr, "cspeed: %s\n", cs_error());
    ce_clear_error();
    for (int i = 0; i < ce_json_note_count(config->doc); i++)
        printf("note: %s\n", ce_json_note_text(config->doc, i));
    print_values(config, false, true);
    int defaults = print_values(config, true, r->all);
    if (defaults > 0 && !r->all)
        printf("  and %d keys with their defaults (--all prints them)\n", defaults);
    if (!config->filled) {
        printf("%s: refused\n", r->file);
        return;
    }
    printf("%s: %s at world size %d%s\n", r->file, status == CS_OK ? "accepted" : "refused", config->world.size,
           status == CS_OK ? "" : " (--world_size N chooses another)");
    if (status == CS_OK)
        print_missing(&config->settings, r->file);
}

static json_t *lines_of(const char *text)
{
    json_t *lines = json_array();
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        json_array_append_new(lines, json_stringn(text, length));
    }
    return lines;
}

static void print_json(cs_config *config, const request *r, cs_status status)
{
    json_t *values = json_object(), *notes = json_array();
    ce_listing_each(config, add_value, values);
    for (int i = 0; i < ce_json_note_count(config->doc); i++)
        json_array_append_new(notes, json_string(ce_json_note_text(config->doc, i)));
    json_t *all = json_pack("{sssisbsoso}", "file", r->file, "world_size", config->world.size, "accepted",
                            status == CS_OK, "values", values, "notes", notes);
    json_object_set_new(all, "refusals", status == CS_OK ? json_array() : lines_of(cs_error()));
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    putchar('\n');
    json_decref(all);
}

static int run(const cl_options *options, char **arguments)
{
    request r = { 0 };
    cs_config *config = NULL;
    int code = read_arguments(&r, arguments);
    (void)options;
    if (code == 0 && r.words)
        ce_words_page();
    if (code || r.explain || r.words)
        return code || !r.explain ? code : explain(&r);
    cs_status status = open_config(&config, &r);
    if (status == CS_OK) {
        status = cs_config_finish(config);
        if (status == CS_OK && has_model(config))
            status = check_model(&r);
        (r.json ? print_json : print_text)(config, &r, status);
    }
    cs_config_close(config);
    return cs_exit_code(status);
}

const cl_command cl_command_config = {
    .name = "config",
    .group = "Look",
    .summary = "show every value of a configuration and its origin",
    .usage = "cspeed config FILE [--all] [--world_size N] [--json] [--lenient]\n"
             "                     [--set KEY.PATH=VALUE]\n"
             "       cspeed config --explain KEY.PATH\n"
             "       cspeed config --words",
    .text = "Prints every key or combination of keys that is refused; then notes, for example about keys that\n"
            "have no effect; then the value of each key that is set, with its origin (a line of the file, the\n"
            "command line, \"auto\", or derived from other keys). The model is checked too if the file describes it\n"
            "or its folder is on this machine.\n"
            "\n"
            "  --all           also list the keys that have their default values\n"
            "  --world_size N  resolve the values for N ranks\n"
            "  --json          print one JSON object, with all keys\n"
            "  --lenient       report unknown keys as notes, not as refusals\n"
            "  --set KEY.PATH=VALUE\n"
            "                  override one key; may be repeated\n"
            "  --explain KEY.PATH\n"
            "                  describe one key: its effect, type, default and limits, and\n"
            "                  how DeepSpeed differs. For a word of another trainer: name\n"
            "                  what replaces it in cspeed\n"
            "  --words         list all words of other trainers with their replacements\n"
            "\n"
            "The exit code is 78 if a training would refuse the configuration, and 65 or 66 if the file is\n"
            "invalid or missing.\n",
    .example = "cspeed config ds_config.json --world_size 8",
    .run = run,
};
