/* use.h - code shared by the programs that use a trained model: reading the command line and opening the model. */
#ifndef EXAMPLES_USE_H
#define EXAMPLES_USE_H

#include "base/clock.h"
#include "base/must.h"
#include "cspeed/cspeed.h"
#include "cspeed/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRONG_USAGE = CS_OPTIONS_WRONG, WRONG_CONTENT = 65, MISSING = 66 };

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
    fflush(stdout); /* this flush keeps the order of lines in a file that receives both stdout and stderr */
    if (is_rank_zero()) {
        fprintf(stderr, "%s: ", program_invocation_short_name);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
    }
    va_end(arguments);
    exit(code);
}

/* ---- the command line ---- */

/* Appends a text to a cs_option_list. Returns 0, or CS_OPTIONS_WRONG with a message in cs_error(). */
static int add_item(void *list, const char *flag, const char *value)
{
    const cs_option item = { .kind = CS_OPTION_LIST };
    return cs_options_store(&item, list, flag, value);
}

/* Appends PATH=VALUE to the assignments of the option --set. */
static int add_assignment(void *to, const char *flag, const char *path, const char *value)
{
    return add_item(to, flag, ce_must_print("%s=%s", path, value));
}

static int take_device(void *to, const char *flag, const char *value)
{
    return add_assignment(to, flag, "cspeed.device", value);
}

static int take_tp(void *to, const char *flag, const char *value)
{
    return add_assignment(to, flag, "cspeed.mesh.tp", value);
}

static int take_adapter(void *to, const char *flag, const char *value)
{
    return add_assignment(to, flag, "cspeed.lora.adapter", value);
}

/* The last rows of a program's table of options. The program's struct of settings must be named `options`. */
#define COMMON_OPTIONS                                                                                                 \
    { CS_OPTION(TAKE, "device", options, set, "auto|cpu|cuda",                                                         \
                "compute on this device. Default: auto, a GPU if there is one"),                                       \
      .take = take_device },                                                                                           \
        { CS_OPTION(TAKE, "tp", options, set, "N",                                                                     \
                    "tensor parallelism: N consecutive ranks divide the matrices of each layer. Default: 1"),          \
          .take = take_tp },                                                                                           \
        { CS_OPTION(TAKE, "adapter", options, set, "DIR", "add the LoRA adapters of this PEFT folder to the model"),   \
          .take = take_adapter },                                                                                      \
        { CS_OPTION(SWITCH, "lenient", options, lenient, NULL,                                                         \
                    "only warn about unknown keys, and about keys of the model's config.json that are not "            \
                    "supported") },                                                                                    \
        { CS_OPTION(LIST, "set", options, set, "PATH=VALUE",                                                           \
                    "set a key of the configuration, for example cspeed.data.seq_len=512; may be repeated") },         \
    {                                                                                                                  \
        .names = "help h", .kind = CS_OPTION_HELP, .text = "print this text"                                           \
    }

/* Reads the command line with a table of options into `given`, and returns the path of the model. Ends the process if
 * the command line is wrong. */
static const char *read_command_line(const cs_option *table, int count, const char *usage, void *given, char **argv)
{
    char hint[128];
    snprintf(hint, sizeof hint, "--help lists those of %s, and launch flags stand before it",
             program_invocation_short_name);
    const cs_options_form form = {
        .usage = usage, .what = "flag", .hint = hint, .options = table, .count = count, .max = -1
    };
    char **source = cs_options_main(&form, given, argv);
    if (!source[0])
        leave(WRONG_USAGE, "SOURCE is missing: the output folder of a training, or a Hugging Face folder; see --help");
    if (source[1])
        leave(WRONG_USAGE, "%s and %s were given, but only one model can be used", source[0], source[1]);
    return source[0];
}

/* ---- the model ---- */

static void set_items(cs_config *config, const cs_option_list *list, bool lenient)
{
    if (lenient)
        cs_config_lenient(config);
    for (int i = 0; i < list->count; i++)
        CS_MUST(cs_config_set(config, list->list[i]));
}

/* Loads the parameters of the checkpoint that the engine's configuration names, if the configuration names one. */
static void load_trained(cs_engine *engine, const cs_config *config)
{
    const char *checkpoints = cs_config_get_string(config, "cspeed.load");
    if (checkpoints)
        CS_MUST(cs_load_checkpoint(engine, checkpoints, cs_config_get_string(config, "cspeed.tag"),
                                   &(cs_load_options){ .module_only = true }, NULL));
}

#endif
