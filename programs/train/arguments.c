/* arguments.c - reads the command line and opens the configuration. */
#include "train.h"

#include "cspeed/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Sets the world size of the plan. Must be called before the configuration is resolved, since the batch sizes depend on
 * it. */
static void set_world(cs_config *config, train_line *line)
{
    const char *size = getenv("WORLD_SIZE");
    if (line->world_size == 0 && !size)
        line->world_size = 1;
    if (line->world_size == 0 && cs_options_whole(&line->world_size, "WORLD_SIZE", size, 1, 1e6) != 0) {
        complain("%s", cs_error());
        exit(CS_OPTIONS_WRONG);
    }
    if (line->local_size == 0)
        line->local_size = line->world_size;
    if (line->local_size > line->world_size) {
        complain("--local_size %" PRId64 " is more than the %" PRId64 " ranks of the plan", line->local_size,
                 line->world_size);
        exit(CS_OPTIONS_WRONG);
    }
    cs_config_for_world(config, (int)line->world_size, (int)line->local_size);
}

cs_config *arguments_read(char **argument, train_line *line)
{
    cs_config *config;
    if (train_line_read(line, argument + 1) != 0) {
        if (is_rank_zero())
            fprintf(stderr, "%s\n", cs_error());
        exit(CS_OPTIONS_WRONG);
    }
    CS_MUST(train_line_open(line, &config));
    free(line->overrides);
    if (line->plan)
        set_world(config, line);
    CS_MUST(cs_config_finish(config));
    if (line->plan) {
        if (strcmp(line->plan, "units") == 0)
            plan_show_units(config);
        else if (strcmp(line->plan, "cuts") == 0)
            plan_show_cuts(config);
        else
            plan_show(config, line->world_size, strcmp(line->plan, "json") == 0);
        exit(0);
    }
    const char *tag = cs_config_get_string(config, "cspeed.tag");
    if (!tag || cs_config_get_string(config, "cspeed.load") || !line->fresh)
        return config;
    complain(
        "--tag %s returns to a checkpoint of the output folder, but --fresh starts without one; give one of the two, "
        "or --load DIR too",
        tag);
    exit(CS_OPTIONS_WRONG);
}
