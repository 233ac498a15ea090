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
                "the configuration of DeepSpeed to train with; its section \"cspeed\" has the keys that DeepSpeed "
                "does not have") },
    { .names = "deepspeed",
      .kind = CS_OPTION_INERT,
      .text = "has no effect; programs for DeepSpeed are started with it" },
    KEY("model", "cspeed.model", "DIR",
        "folder of a Hugging Face model: its config.json and, to start from trained weights, its weights; or "
        "ORG/NAME[@REVISION] of a model on the Hugging Face Hub"),
    KEY("data", DATA, "PATH",
        "training data: a folder that `cspeed pack` wrote, or one token shard; or a file of text (.txt) or of rows "
        "(.jsonl, .json, .parquet, .arrow), also compressed (.gz, .zst), or a folder of such files. The configuration's "
        "cspeed.data.valid is not used then; --set cspeed.data.valid=PATH names validation data"),
    KEY("device", "cspeed.device", "auto|cpu|cuda", "compute on this device. Default: auto, a GPU if there is one"),
    KEY("tp", "cspeed.mesh.tp", "N",
        "tensor parallelism: N consecutive ranks divide the matrices of each layer. Default: 1"),
    KEY("backend", "cspeed.comm", "auto|nccl|gloo|mpi|cpu",
        "transport between the ranks, by the names of PyTorch; --set cspeed.comm=NAME takes more. Default: auto"),
    KEY("steps", "cspeed.steps", "N", "number of optimizer steps of the whole training. Default: 2000"),
    KEY("seq_len", "cspeed.data.seq_len", "N", "length of a training sample in tokens. Default: 256"),
    KEY("output", "cspeed.output", "DIR",
        "folder for checkpoints and metrics. Default: runs/ and the name of the configuration file"),
    KEY("load", "cspeed.load", "DIR",
        "start from a checkpoint of another training: its output folder, or a checkpoint in it"),
    KEY("tag", "cspeed.tag", "T",
        "tag of the checkpoint to read from --load; without --load, the training returns to this checkpoint "
        "of --output"),
    KEY("seed", "cspeed.seed", "N", "seed of the initial weights, the order of samples and dropout. Default: 1234"),
    KEY("eval_interval", "cspeed.eval_interval", "N", "number of steps between validations. Default: 200"),
    KEY("save_interval", "cspeed.save_interval", "N", "number of steps between checkpoints. Default: 200"),
    KEY("metrics", "cspeed.metrics", "FILE",
        "name of the file of metrics (JSON lines) in the output folder. Default: metrics.jsonl"),
    KEY("export", "cspeed.export", "DIR",
        "write the trained model into this Hugging Face folder at the end; after a training with LoRA, into "
        "this PEFT folder"),
    KEY("adapter", "cspeed.lora.adapter", "DIR", "continue to train the LoRA adapters of this PEFT folder"),
    KEY("merge", "cspeed.lora.merge", NULL,
        "after a training with LoRA, --export writes the model with the adapters added to its weights, not a PEFT "
        "folder"),
    KEY("set", "", "PATH=VALUE",
        "set any key of the configuration, for example optimizer.params.lr=1e-3; may be repeated"),
    { CS_OPTION(SWITCH, "fresh", train_line, fresh, NULL,
                "start the training again from its beginning: an earlier training in the output folder is renamed, "
                "not deleted. After a restart by --max_restarts the training continues") },
    { CS_OPTION(SWITCH, "force_output", train_line, force_output, NULL,
                "use the output folder even if another training is writing to it; the other training ends before its "
                "next checkpoint") },
    { CS_OPTION(OPTIONAL, "plan", train_line, plan, "json|units|cuts",
                "print the memory that each rank will need, and do not train; json: as one JSON object; units: "
                "list the groups of parameters that are sharded together; cuts: list which rows or columns of each "
                "parameter each rank of tensor parallelism holds") },
    { CS_OPTION(WHOLE, "world_size", train_line, world_size, "N",
                "with --plan, the number of ranks. Default: the environment variable WORLD_SIZE, otherwise 1"),
      .min = 1, .max = 1e6 },
    { CS_OPTION(WHOLE, "local_size", train_line, local_size, "N",
                "with --plan, the number of ranks on each host. Default: all ranks are on one host"),
      .min = 1, .max = 1e6 },
    { .names = "num_workers",
      .kind = CS_OPTION_INERT,
      .value = "N",
      .text = "has no effect: batches are read from mapped files, without worker processes" },
    { .names = "devices",
      .kind = CS_OPTION_REFUSED,
      .value = "1|auto",
      .text = "each rank computes on one device; `cspeed --devices 0,1 train ...` starts one rank for each device" },
    { .names = "use_gpu use_multi_gpu gpu_type",
      .kind = CS_OPTION_REFUSED,
      .value = "*",
      .text = "--device cuda uses GPUs, and `cspeed --num_gpus N train ...` starts one rank for each of N GPUs" },
    { CS_OPTION(
        SWITCH, "lenient", train_line, lenient, NULL,
        "only warn about unknown keys of the configuration, and about keys of the model's config.json that are not "
        "supported") },
    { .names = "config_help",
      .kind = CS_OPTION_TAKE,
      .text = "print every key of the configuration, and the keys that are not supported with the reason",
      .take = print_config_help },
    { .names = "help h", .kind = CS_OPTION_HELP, .text = "print this text" },
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
               : ce_fail(
                     CS_BAD_CONFIG,
                     "train: no training data: give --data PATH, texts or token shards that `cspeed pack` made (" DATA
                     ")");
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
        return REFUSE("--config FILE is missing; see --help");
    if (plan && *plan && strcmp(plan, "json") != 0 && strcmp(plan, "units") != 0 && strcmp(plan, "cuts") != 0)
        return REFUSE("--plan=%s: possible are --plan, --plan=json, --plan=units and --plan=cuts", plan);
    if ((line->world_size || line->local_size) && !plan)
        return REFUSE(
            "--world_size and --local_size need --plan; the launch flag --num_gpus sets the number of ranks of a "
            "training");
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
