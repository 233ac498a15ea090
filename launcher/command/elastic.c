/* elastic.c - `cspeed elastic`: prints the batch size that an "elasticity" section yields, and the world sizes that can
 * use this batch size. */
#include "ground/codes.h"
#include "ground/command.h"
#include "config/config.h"
#include "config/resolve.h"

#include <stdio.h>
#include <stdlib.h>

static const char rule[] = "------------------------------------------\n";

typedef struct {
    const char *file;
    int64_t world; /* the world size; 0: the user gave none */
} request;

static int read_arguments(request *r, char **at)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(RAW, "config c", file, "FILE") },
        { CL_COMMAND_OPTION(WHOLE, "world_size w", world, "N"), .max = CE_ELASTICITY_RANKS },
    };
    static const cs_options_form form = { CL_COMMAND_FORM("elastic", 0, 0, NULL), CS_OPTIONS_TABLE(table) };
    int code = cs_options_read(&form, r, &at);
    if (code == 0 && !r->file)
        code = cl_codes_fail(CL_CODE_USAGE, "elastic: -c FILE is missing");
    return code;
}

static void print_plan(const ce_elasticity *settings, const ce_elasticity_plan *plan, int64_t world)
{
    char heading[48] = "";
    if (world > 0)
        snprintf(heading, sizeof heading, " for world size %lld", (long long)world);
    printf("%sCalculated results%s:\n%sfinal_batch_size .... %lld\nvalid_gpus .......... [", rule, heading, rule,
           (long long)plan->batch);
    for (int i = 0; i < plan->count; i++)
        printf("%s%lld", i ? ", " : "", (long long)plan->worlds[i]);
    puts("]");
    if (world > 0)
        printf("micro_batch_size .... %lld\n", (long long)ce_elasticity_micro(settings, plan->batch, world));
}

static cs_status solve(cs_config *config, int64_t world)
{
    const ce_elasticity *settings = &config->settings.elasticity;
    ce_elasticity_plan plan = { 0 };
    CE_TRY(ce_batches_read_elasticity(config, ce_tp_read(config)));
    if (!settings->enabled)
        return ce_fail(CS_BAD_CONFIG, "%s: elasticity is not enabled", ce_json_name(config->doc));
    cs_status status = ce_elasticity_solve(&plan, settings, world);
    if (status == CS_OK && world > 0 && !ce_elasticity_allows(&plan, world))
        status = ce_fail(CS_BAD_CONFIG,
                         "%lld ranks cannot share a batch of %lld evenly; `cspeed elastic` without -w "
                         "lists those that can",
                         (long long)world, (long long)plan.batch);
    if (status == CS_OK) {
        printf("%sElasticity config:\n%s", rule, rule);
        json_dumpf(ce_json_find(config->doc, "elasticity"), stdout,
                   JSON_INDENT(4) | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
        putchar('\n');
        print_plan(settings, &plan, world);
    }
    ce_elasticity_free(&plan);
    return status;
}

static int run(const cl_options *options, char **arguments)
{
    const char *environment = getenv("WORLD_SIZE");
    request r = { .world = 0 };
    cs_config *config = NULL;
    int code = read_arguments(&r, arguments);
    (void)options;
    if (code == 0 && r.world == 0 && environment)
        code = cs_options_whole(&r.world, "WORLD_SIZE", environment, 1, CE_ELASTICITY_RANKS);
    if (code)
        return code;
    cs_status status = cs_config_open(&config, r.file);
    if (status == CS_OK)
        status = solve(config, r.world);
    cs_config_close(config);
    return cs_exit_code(status);
}

const cl_command cl_command_elastic = {
    .name = "elastic",
    .group = "Look",
    .summary = "show the batch size and world sizes of an elasticity section",
    .usage = "cspeed elastic -c FILE [-w N]",
    .text = "Prints the section \"elasticity\" of a configuration, the global batch size that is computed from it,\n"
            "and the numbers of ranks that can train with this batch size. With -w N, also prints the micro batch\n"
            "size for N ranks. A section of version 0.2 needs -w or the environment variable WORLD_SIZE.\n",
    .example = "cspeed elastic -c ds_config.json -w 64",
    .run = run,
};
