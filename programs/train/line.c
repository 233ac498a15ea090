/* line.c - reads the command line of train, whose options override values of the configuration file. */
#include "base/must.h"
#include "line.h"

#include "base/ends_with.h"
#include "base/status.h"
#include "cspeed/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_config_help(void *to, const char *flag, const char *value)
{
    (void)to;
    (void)flag;
    (void)value;
    if (cs_launched_rank() == 0)
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
    { CS_OPTION(RAW, "config deepspeed_config c", train_line, config, "FILE",
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
    { CS_OPTION(SWITCH, "fresh", train_line, fresh, NULL,
                "start over; what the output folder holds is moved aside (a restart of --max_restarts goes on)") },
    { CS_OPTION(SWITCH, "force_output", train_line, force_output, NULL,
                "write the output folder though another run does, which ends before its next checkpoint") },
    { CS_OPTION(OPTIONAL, "plan", train_line, plan, "json|units",
                "the memory of each rank, and nothing else; json: as one object; units: what is sharded together") },
    { CS_OPTION(WHOLE, "world_size", train_line, world_size, "N",
                "of --plan: the number of ranks; otherwise that of the environment, or 1"),
      .min = 1, .max = 1e6 },
    { CS_OPTION(WHOLE, "local_size", train_line, local_size, "N",
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
        SWITCH, "lenient", train_line, lenient, NULL,
        "unknown keys of the configuration, and keys of the model's config.json that are not supported, only warn") },
    { .names = "config_help",
      .kind = CS_OPTION_TAKE,
      .text = "every key, and what is not supported, and why",
      .take = print_config_help },
    { .names = "help h", .kind = CS_OPTION_HELP, .text = "this text" },
};

/* Sets a key to a string. The value is put in quotes, because a value such as 20 may look like a number or like
 * JSON. */
static cs_status set_string(cs_config *config, const char *path, const char *value)
{
    /* an escaped character has at most six characters: \u0001 */
    CE_FREED char *assignment = ce_must_alloc(strlen(path) + 6 * strlen(value) + sizeof "=\"\"");
    char *end = assignment + sprintf(assignment, "%s=\"", path);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            *end++ = '\\';
        if ((unsigned char)*value < ' ')
            end += sprintf(end, "\\u%04x", (unsigned)*value);
        else
            *end++ = *value;
    }
    memcpy(end, "\"", 2);
    return cs_config_set(config, assignment);
}

/* Sets a key to a JSON value. If `path` is "", `value` is a whole assignment, PATH=VALUE. */
static cs_status set_json(cs_config *config, const char *path, const char *value)
{
    CE_FREED char *assignment = ce_must_print("%s%s%s", path, *path ? "=" : "", value);
    return cs_config_set(config, assignment);
}

static cs_status apply(cs_config *config, const train_override *given)
{
    const char *path = given->flag->sets;
    if (!given->flag->value) /* the option has no value */
        return set_json(config, path, "true");
    if (!*path || strcmp(given->flag->value, "N") == 0)
        return set_json(config, path, given->value);
    cs_status status = set_string(config, path, given->value);
    /* the configuration's validation data is removed, because it belongs to other training data */
    return status == CS_OK && strcmp(path, DATA) == 0 ? cs_config_set(config, "cspeed.data.valid=null") : status;
}

cs_status train_line_open(const train_line *line, cs_config **config)
{
    cs_status status = cs_config_open(config, line->config);
    if (status == CS_OK && line->lenient)
        cs_config_lenient(*config);
    for (int i = 0; status == CS_OK && i < line->override_count; i++)
        status = apply(*config, &line->overrides[i]);
    return status;
}

cs_status train_line_need_data(const cs_config *config)
{
    return cs_config_get_string(config, DATA)
               ? CS_OK
               : ce_fail(CS_BAD_CONFIG,
                         "train: no training data: --data PATH names texts, or token shards that pack made (" DATA ")");
}

static int note_override(void *to, const cs_option *flag, const char *word, const char *value)
{
    static const char steps[] = "cspeed.steps=";
    train_line *line = to;
    (void)word;
    if (!flag->sets)
        return 0;
    line->overrides[line->override_count++] = (train_override){ flag, value };
    line->steps_given |=
        strcmp(flag->sets, "cspeed.steps") == 0 || (!*flag->sets && strncmp(value, steps, sizeof steps - 1) == 0);
    return 0;
}

/* A bare word is most often the configuration. */
static char *advise(const char *word)
{
    return ce_ends_with(word, ".json") ? ce_must_print("--config %s reads it", word) : cs_word_advice(word, false);
}

#define REFUSE(...) ((void)ce_fail(CS_BAD_CONFIG, "train: " __VA_ARGS__), CS_OPTIONS_WRONG)

/* Refuses options that contradict each other. */
static int check(const train_line *line)
{
    const char *plan = line->plan;
    if (!line->config)
        return REFUSE("there is no --config FILE among the arguments; try --help");
    if (plan && *plan && strcmp(plan, "json") != 0 && strcmp(plan, "units") != 0)
        return REFUSE("--plan=%s: it is --plan, --plan=json or --plan=units", plan);
    if ((line->world_size || line->local_size) && !plan)
        return REFUSE("--world_size and --local_size are for --plan; the launcher says how many ranks a training has");
    return 0;
}

int train_line_read(train_line *line, char **arguments)
{
    static const cs_options_form form = {
        .usage = "usage: cspeed [LAUNCH FLAGS] train --config FILE [OPTIONS]\n\n",
        .name = "train",
        .what = "flag",
        .hint = "--help lists those of train, and launch flags stand before it",
        CS_OPTIONS_TABLE(table),
        .given = note_override,
        .advise = advise,
    };
    int count = 0;
    while (arguments[count])
        count++;
    *line = (train_line){ .overrides = ce_must_alloc(((size_t)count + 1) * sizeof *line->overrides) };
    CE_FREED char **words = ce_must_alloc(((size_t)count + 1) * sizeof *words);
    char **at = words;
    memcpy(words, arguments, (size_t)count * sizeof *words); /* reading the options reorders the list */
    int code = cs_options_read(&form, line, &at);
    return code ? code : check(line);
}
