/* arguments.c - the command line of train, which overrides values of the configuration file. */
#include "train.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRONG_USAGE = 64 };

typedef enum { AS_JSON, AS_STRING, AS_DATA } value_kind;

typedef struct {
    const char *flag;
    value_kind kind;
    const char *path, *help; /* path: the configuration key that the flag sets; NULL: the flag's value names the key */
} override;

static const override overrides[] = {
    { "--model", AS_STRING, "cspeed.model", "DIR   a folder with a Hugging Face config.json" },
    { "--data", AS_DATA, NULL,
      "PATH   a folder made by pack, or a token shard; or a text, .jsonl or .txt, or a folder of texts" },
    { "--device", AS_STRING, "cspeed.device", "auto|cpu|cuda" },
    { "--steps", AS_JSON, "cspeed.steps", "N   optimizer steps in all (2000)" },
    { "--seq_len", AS_JSON, "cspeed.data.seq_len", "N   tokens of a window" },
    { "--output", AS_STRING, "cspeed.output", "DIR   checkpoints and metrics (runs/ and the configuration's name)" },
    { "--load", AS_STRING, "cspeed.load", "DIR   start from a checkpoint of another run" },
    { "--tag", AS_STRING, "cspeed.tag", "T   checkpoint of --load; without it: go back to this one of --output" },
    { "--seed", AS_JSON, "cspeed.seed", "N   of first values, data order, dropout" },
    { "--eval_interval", AS_JSON, "cspeed.eval_interval", "N   steps between validations" },
    { "--save_interval", AS_JSON, "cspeed.save_interval", "N   steps between checkpoints" },
    { "--metrics", AS_STRING, "cspeed.metrics", "FILE   JSON lines, in the output folder" },
    { "--export", AS_STRING, "cspeed.export", "DIR   a Hugging Face folder, written at the end" },
    { "--set", AS_JSON, NULL, "PATH=VALUE   any key" },
};
enum { OVERRIDES = sizeof overrides / sizeof *overrides };

_Noreturn static void help(void)
{
    if (!is_rank_zero())
        exit(0);
    puts("usage: train --config FILE [options]\n\n"
         "  --config FILE (or --deepspeed_config FILE)   a DeepSpeed configuration; what it has no word for is in its\n"
         "                                               \"cspeed\" section\n"
         "  --deepspeed   accepted");
    for (int i = 0; i < OVERRIDES; i++)
        printf("  %s %s\n", overrides[i].flag, overrides[i].help);
    puts("  --fresh   start over; what the output folder holds is moved aside (a restart of --max_restarts goes on)\n"
         "  --force_output   write the output folder though another run does, which ends before its next checkpoint\n"
         "  --plan [--world_size N]   the memory of each rank, and nothing else; N: that of the environment, or 1;\n"
         "                            --plan=json: as one object\n"
         "  --lenient   unknown keys of the configuration only warn\n"
         "  --config_help   every key, and what is not supported, and why");
    exit(0);
}

/* A name may look like a number or like JSON ("--tag 20"); in quotes it remains a string. */
static void set_string(cs_config *config, const char *path, const char *value)
{
    /* \u0001, with six characters, is the longest escape */
    char *assignment = text("%s=\"%*s", path, (int)(6 * strlen(value) + 2), "");
    char *end = assignment + strlen(path) + 2;
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            *end++ = '\\';
        if ((unsigned char)*value < ' ')
            end += sprintf(end, "\\u%04x", (unsigned)*value);
        else
            *end++ = *value;
    }
    memcpy(end, "\"", 2);
    CS_MUST(cs_config_set(config, assignment));
    free(assignment);
}

/* Sets the data to a folder of token shards written by pack, a text file, a shard, or a folder of texts. The validation
 * data of the configuration belongs to another text and is removed. */
static void set_data(cs_config *config, const char *path)
{
    char *shards = text("%s/train-*.bin", path), *valid = text("%s/valid.bin", path);
    glob_t found;
    bool packed = glob(shards, 0, NULL, &found) == 0;
    globfree(&found);
    set_string(config, "cspeed.data.train", packed ? shards : path);
    if (access(valid, F_OK) == 0)
        set_string(config, "cspeed.data.valid", valid);
    else
        CS_MUST(cs_config_set(config, "cspeed.data.valid=null"));
    free(shards);
    free(valid);
}

/* Returns what follows the flag's name in the argument, or NULL if the argument is another flag. Dashes and underscores
 * are equal. */
static const char *after(const char *flag, const char *given)
{
    for (; *flag; flag++, given++)
        if (*flag != *given && !(*flag == '_' && *given == '-'))
            return NULL;
    return given;
}

static bool is_flag(const char *flag, const char *given)
{
    const char *rest = after(flag, given);
    return rest && !*rest;
}

/* Reads "--flag value" or "--flag=value". Returns NULL if argument i is another flag. */
static const char *value_of(const char *flag, int count, char **argument, int *i)
{
    const char *rest = after(flag, argument[*i]);
    if (!rest || (*rest && *rest != '='))
        return NULL;
    if (*rest)
        return rest + 1;
    if (*i + 1 < count)
        return argument[++*i];
    complain("%s needs a value", flag);
    exit(WRONG_USAGE);
}

static const char *const others[] = { "config", "deepspeed_config", "deepspeed",  "fresh", "force_output",
                                      "plan",   "lenient",          "world_size", "help",  "config_help" };
enum { OTHERS = sizeof others / sizeof *others };

_Noreturn static void refuse(const char *given)
{
    const char *names[OVERRIDES + OTHERS + 1] = { NULL };
    for (int i = 0; i < OVERRIDES; i++)
        names[i] = overrides[i].flag + 2;
    memcpy(names + OVERRIDES, others, sizeof others);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    bool flag = strncmp(given, "--", 2) == 0;
    const char *meant = flag ? cs_nearest(name + 2, names) : NULL;
    if (meant)
        complain("unknown flag %s; did you mean --%s?", name, meant);
    else if (flag)
        complain("unknown flag %s; --help lists those of train, and launch flags stand before it", name);
    else
        complain("unknown argument %s; try --help", given);
    exit(WRONG_USAGE);
}

/* Returns true for "--flag" and "--flag=value". */
static bool is_named(const char *flag, const char *given)
{
    const char *rest = after(flag, given);
    return rest && (!*rest || *rest == '=');
}

static bool is_known(const char *given)
{
    for (int i = 0; i < OVERRIDES; i++)
        if (is_named(overrides[i].flag, given))
            return true;
    for (int i = 0; i < OTHERS; i++)
        if (is_named(others[i], given + strlen("--")))
            return true;
    return false;
}

static const char *config_of(int count, char **argument, int *i)
{
    const char *value = value_of("--config", count, argument, i);
    return value ? value : value_of("--deepspeed_config", count, argument, i);
}

static const char *find_config(int count, char **argument)
{
    const char *path = NULL;
    for (int i = 1; i < count; i++) {
        if (is_flag("--help", argument[i]) || is_flag("-h", argument[i]))
            help();
        if (is_flag("--config_help", argument[i])) {
            if (is_rank_zero())
                cs_config_help();
            exit(0);
        }
        const char *value = config_of(count, argument, &i);
        path = value ? value : path;
    }
    if (path)
        return path;
    for (int i = 1; i < count; i++)
        if (strncmp(argument[i], "--", 2) == 0 && !is_known(argument[i]))
            refuse(argument[i]);
    complain("there is no --config FILE among the arguments; try --help");
    exit(WRONG_USAGE);
}

/* `path` NULL: the value is an assignment, PATH=VALUE. */
static void set_json(cs_config *config, const char *path, const char *value, command_line *options)
{
    char *assignment = text("%s%s%s", path ? path : "", path ? "=" : "", value);
    CS_MUST(cs_config_set(config, assignment));
    options->steps_given |= after("cspeed.steps=", assignment) != NULL;
    free(assignment);
}

static bool take_override(cs_config *config, command_line *options, int count, char **argument, int *i)
{
    for (int at = 0; at < OVERRIDES; at++) {
        const char *value = value_of(overrides[at].flag, count, argument, i);
        if (!value)
            continue;
        if (overrides[at].kind == AS_DATA)
            set_data(config, value);
        else if (overrides[at].kind == AS_STRING)
            set_string(config, overrides[at].path, value);
        else
            set_json(config, overrides[at].path, value, options);
        return true;
    }
    return false;
}

/* Called before the configuration is resolved, since the batch sizes depend on the world size. */
static void set_world(cs_config *config, command_line *options, const char *given)
{
    const char *size = given ? given : getenv("WORLD_SIZE");
    char *end = NULL;
    options->world_size = size ? strtoll(size, &end, 10) : 1;
    if (size && (*end || options->world_size < 1 || options->world_size > 1000000)) {
        complain("--world_size: \"%s\" is not a number of ranks", size);
        exit(WRONG_USAGE);
    }
    cs_config_for_world(config, (int)options->world_size);
}

cs_config *arguments_read(int count, char **argument, command_line *options)
{
    cs_config *config;
    const char *world_size = NULL;
    CS_MUST(cs_config_open(&config, find_config(count, argument)));
    for (int i = 1; i < count; i++) {
        if (config_of(count, argument, &i) || is_flag("--deepspeed", argument[i]))
            continue;
        const char *size = value_of("--world_size", count, argument, &i);
        if (size) {
            world_size = size;
        } else if (is_flag("--plan", argument[i]) || is_flag("--plan=json", argument[i])) {
            options->plan = true;
            options->json = is_flag("--plan=json", argument[i]);
        } else if (is_flag("--lenient", argument[i])) {
            cs_config_lenient(config);
        } else if (is_flag("--fresh", argument[i])) {
            options->fresh = true;
        } else if (is_flag("--force_output", argument[i])) {
            options->force_output = true;
        } else if (!take_override(config, options, count, argument, &i)) {
            refuse(argument[i]);
        }
    }
    if (options->plan)
        set_world(config, options, world_size);
    CS_MUST(cs_config_finish(config));
    if (options->plan)
        plan_show(config, options->world_size, options->json);
    if (world_size) {
        complain("--world_size is for --plan; the launcher says how many ranks a training has");
        exit(WRONG_USAGE);
    }
    const char *tag = cs_config_get_string(config, "cspeed.tag");
    if (!tag || cs_config_get_string(config, "cspeed.load") || !options->fresh)
        return config;
    complain(
        "--tag %s goes back to a checkpoint of the output folder, and --fresh starts over without any; give one of "
        "the two, or --load DIR too",
        tag);
    exit(WRONG_USAGE);
}
