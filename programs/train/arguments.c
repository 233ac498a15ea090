/* arguments.c - the command line of train, which overrides values of the configuration file. */
#include "train.h"
#include "base/ends_with.h"

#include "cspeed/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRONG_USAGE = CS_OPTIONS_WRONG };

/* An option of the command line that sets a key of the configuration, and the value given to the option. */
typedef struct {
    const cs_option *flag;
    const char *value;
} override;

typedef struct {
    command_line line;
    const char *config, *plan; /* plan is NULL if --plan is not given */
    bool lenient;
    /* the options in the order of the command line: if two options set the same key, the later option counts */
    override *overrides;
    int override_count;
} request;

static int print_config_help(void *to, const char *flag, const char *value)
{
    (void)to;
    (void)flag;
    (void)value;
    if (is_rank_zero())
        cs_config_help();
    exit(0);
}

/* An option that sets a key of the configuration. If value_ is NULL, the option takes no value, and the key becomes
 * true. If value_ is "N", the key becomes a number. For every other value_, the key becomes a text. */
#define KEY(names_, path_, value_, text_)                                                                              \
    {                                                                                                                  \
        .names = names_, .kind = CS_OPTION_INERT, .value = value_, .text = text_, .sets = path_                        \
    }
#define DATA "cspeed.data.train"

static const cs_option table[] = {
    { CS_OPTION(RAW, "config deepspeed_config c", request, config, "FILE",
                "a DeepSpeed configuration; its section \"cspeed\" has the keys that DeepSpeed does not have") },
    { .names = "deepspeed", .kind = CS_OPTION_INERT, .text = "accepted" },
    KEY("model", "cspeed.model", "DIR", "a folder with a Hugging Face config.json"),
    KEY("data", DATA, "PATH",
        "a folder made by pack, or a token shard; or a text (.txt), rows (.jsonl, .json, .parquet, .arrow), one of these "
        "with .gz or .zst, or a folder of such files"),
    KEY("device", "cspeed.device", "auto|cpu|cuda", "where it runs (auto)"),
    KEY("backend", "cspeed.comm", "auto|nccl|gloo|mpi|cpu",
        "PyTorch's names of the transports; --set cspeed.comm has others"),
    KEY("steps", "cspeed.steps", "N", "optimizer steps in all (2000)"),
    KEY("seq_len", "cspeed.data.seq_len", "N", "tokens of a window"),
    KEY("output", "cspeed.output", "DIR", "checkpoints and metrics (runs/ and the configuration's name)"),
    KEY("load", "cspeed.load", "DIR", "start from a checkpoint of another run"),
    KEY("tag", "cspeed.tag", "T", "checkpoint of --load; without it: go back to this one of --output"),
    KEY("seed", "cspeed.seed", "N", "of first values, data order, dropout"),
    KEY("eval_interval", "cspeed.eval_interval", "N", "steps between validations"),
    KEY("save_interval", "cspeed.save_interval", "N", "steps between checkpoints"),
    KEY("metrics", "cspeed.metrics", "FILE", "JSON lines, in the output folder"),
    KEY("export", "cspeed.export", "DIR", "a Hugging Face folder, written at the end; with LoRA a PEFT folder"),
    KEY("adapter", "cspeed.lora.adapter", "DIR", "a folder of PEFT, whose LoRA adapters are trained further"),
    KEY("merge", "cspeed.lora.merge", NULL,
        "--export writes the model with the LoRA adapters added, not a PEFT folder"),
    KEY("set", "", "PATH=VALUE", "any key"),
    { CS_OPTION(SWITCH, "fresh", request, line.fresh, NULL,
                "start over; what the output folder holds is moved aside (a restart of --max_restarts goes on)") },
    { CS_OPTION(SWITCH, "force_output", request, line.force_output, NULL,
                "write the output folder though another run does, which ends before its next checkpoint") },
    { CS_OPTION(OPTIONAL, "plan", request, plan, "json|units",
                "the memory of each rank, and nothing else; json: as one object; units: what is sharded together") },
    { CS_OPTION(WHOLE, "world_size", request, line.world_size, "N",
                "of --plan: the number of ranks; otherwise that of the environment, or 1"),
      .min = 1, .max = 1e6 },
    { CS_OPTION(WHOLE, "local_size", request, line.local_size, "N",
                "of --plan: the number of ranks on each host; otherwise all are on one"),
      .min = 1, .max = 1e6 },
    { .names = "num_workers",
      .kind = CS_OPTION_INERT,
      .value = "N",
      .text = "accepted: batches are read from mapped files, without worker processes" },
    { .names = "devices",
      .kind = CS_OPTION_REFUSED,
      .value = "1|auto",
      .text = "a rank computes on one device; `cspeed --devices 0,1 train ...` starts a rank for each" },
    { .names = "use_gpu use_multi_gpu gpu_type",
      .kind = CS_OPTION_REFUSED,
      .value = "*",
      .text = "--device cuda takes GPUs, and `cspeed --num_gpus N train ...` starts a rank for each of N" },
    { CS_OPTION(
        SWITCH, "lenient", request, lenient, NULL,
        "unknown keys of the configuration, and keys of the model's config.json that are not supported, only warn") },
    { .names = "config_help",
      .kind = CS_OPTION_TAKE,
      .text = "every key, and what is not supported, and why",
      .take = print_config_help },
    { .names = "help h", .kind = CS_OPTION_HELP, .text = "this text" },
};

/* Sets a key to a string. The value is put in quotes, because a value such as 20 may look like a number or like
 * JSON. */
static void set_string(cs_config *config, const char *path, const char *value)
{
    /* an escaped character has at most six characters: \u0001 */
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

/* Sets the training data. The configuration's validation data is removed, because it belongs to other training data. */
static void set_data(cs_config *config, const char *path)
{
    set_string(config, DATA, path);
    CS_MUST(cs_config_set(config, "cspeed.data.valid=null"));
}

/* Sets a key to a JSON value. If `path` is "", `value` is a whole assignment, PATH=VALUE. */
static void set_json(cs_config *config, const char *path, const char *value, command_line *options)
{
    char *assignment = text("%s%s%s", path, *path ? "=" : "", value);
    CS_MUST(cs_config_set(config, assignment));
    options->steps_given |= strncmp(assignment, "cspeed.steps=", strlen("cspeed.steps=")) == 0;
    free(assignment);
}

static void apply(cs_config *config, command_line *options, const override *given)
{
    const char *path = given->flag->sets;
    if (strcmp(path, DATA) == 0)
        set_data(config, given->value);
    else if (!given->flag->value) /* the option has no value */
        set_json(config, path, "true", options);
    else if (!*path || strcmp(given->flag->value, "N") == 0)
        set_json(config, path, given->value, options);
    else
        set_string(config, path, given->value);
}

static int note_override(void *to, const cs_option *flag, const char *word, const char *value)
{
    request *r = to;
    (void)word;
    if (flag->sets)
        r->overrides[r->override_count++] = (override){ flag, value };
    return 0;
}

/* Sets the world size. Must be called before the configuration is resolved, since the batch sizes depend on it. */
static void set_world(cs_config *config, command_line *options)
{
    const char *size = getenv("WORLD_SIZE");
    if (options->world_size == 0 && !size)
        options->world_size = 1;
    if (options->world_size == 0 && cs_options_whole(&options->world_size, "WORLD_SIZE", size, 1, 1e6) != 0) {
        complain("%s", cs_error());
        exit(WRONG_USAGE);
    }
    if (options->local_size == 0)
        options->local_size = options->world_size;
    if (options->local_size > options->world_size) {
        complain("--local_size %" PRId64 " is more than the %" PRId64 " ranks of the plan", options->local_size,
                 options->world_size);
        exit(WRONG_USAGE);
    }
    cs_config_for_world(config, (int)options->world_size, (int)options->local_size);
}

/* A bare word is most often the configuration. */
static char *advise(const char *word)
{
    return ce_ends_with(word, ".json") ? text("--config %s reads it", word) : cs_word_advice(word, false);
}

static request read_line(int count, char **argument)
{
    static const cs_options_form form = {
        .usage = "usage: train --config FILE [OPTIONS]\n\n",
        .what = "flag",
        .hint = "--help lists those of train, and launch flags stand before it",
        CS_OPTIONS_TABLE(table),
        .given = note_override,
        .advise = advise,
    };
    request r = { .overrides = calloc((size_t)count, sizeof *r.overrides) };
    if (!r.overrides) {
        complain("out of memory");
        exit(1);
    }
    cs_options_main(&form, &r, argument);
    r.line.plan = r.plan != NULL;
    r.line.json = r.plan && strcmp(r.plan, "json") == 0;
    r.line.units = r.plan && strcmp(r.plan, "units") == 0;
    if (!r.config)
        complain("there is no --config FILE among the arguments; try --help");
    else if (r.plan && *r.plan && !r.line.json && strcmp(r.plan, "units") != 0)
        complain("--plan=%s: it is --plan, --plan=json or --plan=units", r.plan);
    else if ((r.line.world_size || r.line.local_size) && !r.plan)
        complain("--world_size and --local_size are for --plan; the launcher says how many ranks a training has");
    else
        return r;
    exit(WRONG_USAGE);
}

cs_config *arguments_read(int count, char **argument, command_line *options)
{
    cs_config *config;
    request r = read_line(count, argument);
    if (getenv("CSPEED_CHECK_LINE")) /* the launcher asks before it makes a job */
        exit(0);
    CS_MUST(cs_config_open(&config, r.config));
    if (r.lenient)
        cs_config_lenient(config);
    for (int i = 0; i < r.override_count; i++)
        apply(config, &r.line, &r.overrides[i]);
    free(r.overrides);
    *options = r.line;
    if (options->plan)
        set_world(config, options);
    CS_MUST(cs_config_finish(config));
    if (options->units)
        plan_show_units(config);
    if (options->plan)
        plan_show(config, options->world_size, options->json);
    const char *tag = cs_config_get_string(config, "cspeed.tag");
    if (!tag || cs_config_get_string(config, "cspeed.load") || !options->fresh)
        return config;
    complain(
        "--tag %s goes back to a checkpoint of the output folder, and --fresh starts over without any; give one of "
        "the two, or --load DIR too",
        tag);
    exit(WRONG_USAGE);
}
