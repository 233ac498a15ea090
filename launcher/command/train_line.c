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
#include <sys/stat.h>

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

/* Makes the checks that need no model and no rank. --plan may be for another world than that of the job. */
static cs_status check_config(const train_line *line, const cl_plan *plan)
{
    cs_config *config = NULL;
    int64_t size = line->world_size ? line->world_size : plan->rank_count;
    int64_t local_size = line->local_size ? line->local_size : line->plan ? size : plan->nodes[0].host->slot_count;
    cs_status status = train_line_open(line, &config);
    if (status == CS_OK) {
        cs_config_for_world(config, (int)size, (int)local_size);
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

/* Returns true if the ranks have the variables of this process, which may name folders (HF_HOME). */
static bool has_environment(const cl_plan *plan)
{
    bool same = !plan->options->venv_script && !plan->nodes[0].host->env;
    for (int i = 0; i < plan->env.count && same; i++) {
        const char *here = getenv(plan->env.list[i].name);
        same = here && strcmp(here, plan->env.list[i].value) == 0;
    }
    return same;
}

/* Returns true if the ranks read the files that this process sees. Ranks of other machines may have other files; files
 * of --stage are not there yet; the world size of an elastic job is not known yet; and a pipe is read only once. */
static bool has_files(const cl_plan *plan, const char *config)
{
    const cl_options *options = plan->options;
    struct stat file;
    bool is_pipe = stat(config, &file) == 0 && S_ISFIFO(file.st_mode);
    return plan->nodes[0].here && !plan->no_ssh && !options->workdir && options->stage.count == 0 &&
           plan->min_nodes == plan->max_nodes && !is_pipe && has_environment(plan);
}

int cl_train_line_check(const cl_plan *plan)
{
    train_line line;
    if (strcmp(plan->arguments[0], "train") != 0 || !cl_program_is_own("train"))
        return 0;
    int code = train_line_read(&line, plan->arguments + 1);
    if (code == 0 && has_files(plan, line.config))
        code = cs_exit_code(check_config(&line, plan));
    free(line.overrides);
    return code;
}
