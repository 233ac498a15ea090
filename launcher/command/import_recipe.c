/* import_recipe.c - `cspeed import-recipe`: writes the settings of another trainer's recipe as a configuration. */
#include "base/must.h"
#include "ground/codes.h"
#include "ground/command.h"
#include "recipe/recipe.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const char *file, *output;
} request;

static int read_arguments(request *r, char **at)
{
    static const cs_option table[] = { { CL_COMMAND_OPTION(RAW, "output", output, "FILE") } };
    static const cs_options_form form = { CL_COMMAND_FORM("import-recipe", 1, 1, "name the file of a recipe"),
                                          CS_OPTIONS_TABLE(table) };
    int code = cs_options_read(&form, r, &at);
    r->file = *at;
    return code;
}

static void print_lines(const char *title, const json_t *lines)
{
    size_t i;
    json_t *line;
    if (json_array_size(lines) > 0)
        fprintf(stderr, "%s:\n", title);
    json_array_foreach ((json_t *)lines, i, line)
        fprintf(stderr, "  %s\n", json_string_value(line));
}

/* Writes the configuration to the file, which must not exist, or to standard output. */
static int write_config(const request *r, const json_t *config)
{
    FILE *file = r->output ? fopen(r->output, "wx") : stdout;
    if (!file)
        return cl_codes_fail(CL_CODE_LOG, "%s: %s", r->output,
                             errno == EEXIST ? "it exists already; name a new file" : strerror(errno));
    bool written = json_dumpf(config, file, JSON_INDENT(4) | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', file) != EOF;
    written = (r->output ? fclose(file) : fflush(file)) == 0 && written;
    if (!written && r->output)
        unlink(r->output);
    return written ? 0
                   : cl_codes_fail(CL_CODE_LOG, "%s cannot be written: %s", r->output ? r->output : "standard output",
                                   strerror(errno));
}

static void report(const request *r, const cl_recipe *recipe)
{
    int lost = (int)json_array_size(recipe->lost), unneeded = (int)json_array_size(recipe->unneeded);
    print_lines("not needed", recipe->unneeded);
    print_lines("not taken", recipe->lost);
    fprintf(stderr, "%s: %d %s taken, %d not needed, %d not taken\n", r->file, recipe->carried,
            recipe->carried == 1 ? "key" : "keys", unneeded, lost);
    if (*recipe->tokens)
        fprintf(stderr,
                "first, `%s` writes the model with the recipe's tokens; if its tokenizer has them under these names, "
                "set cspeed.model to the model itself\n",
                recipe->tokens);
    if (r->output)
        fprintf(stderr, "`cspeed config %s` checks %s, and `cspeed%s train --config %s%s` trains with it\n", r->output,
                r->output, recipe->flags, r->output, recipe->train_flags);
    else if (*recipe->flags || *recipe->train_flags)
        fprintf(stderr, "`cspeed%s train --config FILE%s` starts it\n", recipe->flags, recipe->train_flags);
}

static int run(const cl_options *options, char **arguments)
{
    request r = { 0 };
    json_t *from = NULL;
    int code = read_arguments(&r, arguments);
    (void)options;
    if (code)
        return code;
    cs_status status = cl_recipe_read(&from, r.file);
    if (status != CS_OK)
        return cs_exit_code(status);
    CE_FREED char *copy = ce_must_copy(r.file);
    cl_recipe recipe;
    cl_recipe_convert(&recipe, from, dirname(copy));
    code = write_config(&r, recipe.config);
    if (code == 0)
        report(&r, &recipe);
    cl_recipe_free(&recipe);
    json_decref(from);
    return code;
}

const cl_command cl_command_import_recipe = {
    .name = "import-recipe",
    .group = "Prepare",
    .summary = "convert the settings of another trainer to a configuration",
    .usage = "cspeed import-recipe FILE [--output FILE]",
    .text = "Writes the settings of FILE as a configuration for `cspeed train`, to standard output or to the file\n"
            "of --output, which must not exist. FILE is one of:\n"
            "\n"
            "  - a YAML file of axolotl, TRL, LLaMA-Factory or Accelerate\n"
            "  - a JSON file with the arguments of Trainer\n"
            "  - a text with a command line, or a shell script: its flags are the settings\n"
            "\n"
            "A key `deepspeed` names a configuration of DeepSpeed, which is taken too. Each key that is not needed\n"
            "or cannot be taken is listed on standard error, with its value and the reason; the page from-trainer\n"
            "(`cspeed help from-trainer`) has all keys. Where a recipe does not say it, clipping, optimizer and\n"
            "schedule are those of Trainer: 1.0, AdamW with lr 5e-5, linear (axolotl: cosine); rows are packed\n"
            "as whole documents. Set cspeed.data.seq_len if the recipe has no length.\n",
    .example = "cspeed import-recipe recipe.yaml --output ds_config.json",
    .run = run,
};
