/* train_line.c - checks the command line of `train` before a job begins, so that a mistake in it makes no job. */
#include "command/train_line.h"

#include "config/config.h"
#include "ground/codes.h"
#include "node/program.h"
#include "train/line.h"

#include "base/files.h"
#include "base/status.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

/* Returns an error if the training data have a name that no file has. */
static cs_status find_data(const ce_settings *settings)
{
    for (int i = 0; i < settings->train_count; i++) {
        glob_t found;
        int outcome = glob(settings->train[i], GLOB_NOSORT, NULL, &found);
        globfree(&found);
        if (outcome == GLOB_NOMATCH &&
            !ce_files_exists(settings->train[i])) /* a name may have the characters of a pattern */
            return ce_fail(CS_NOT_FOUND, "%s: no such file; cspeed.data names it", settings->train[i]);
    }
    return CS_OK;
}

/* Makes the checks that need no model and no rank. */
static cs_status check_config(const train_line *line, const cl_plan *plan)
{
    cs_config *config = NULL;
    cs_status status = train_line_open(line, &config);
    if (status == CS_OK) {
        cs_config_for_world(config, plan->rank_count, plan->nodes[0].host->slot_count);
        status = cs_config_finish(config);
    }
    if (status == CS_OK)
        status = ce_config_need_model(config);
    if (status == CS_OK && !line->plan)
        status = train_line_need_data(config);
    if (status == CS_OK && !line->plan)
        status = find_data(&config->settings);
    cs_config_close(config);
    return status;
}

/* Returns true if the ranks read the files that this process sees. Ranks of other machines may have other files; files
 * of --stage are not there yet; and the world size of an elastic job is not known yet. */
static bool has_files(const cl_plan *plan)
{
    const cl_options *options = plan->options;
    return plan->nodes[0].here && !plan->no_ssh && !options->workdir && options->stage.count == 0 &&
           plan->min_nodes == plan->max_nodes;
}

int cl_train_line_check(const cl_plan *plan)
{
    train_line line;
    if (strcmp(plan->arguments[0], "train") != 0 || !cl_program_is_own("train"))
        return 0;
    int code = train_line_read(&line, plan->arguments + 1);
    if (code == 0 && has_files(plan))
        code = cs_exit_code(check_config(&line, plan));
    free(line.overrides);
    return code;
}
