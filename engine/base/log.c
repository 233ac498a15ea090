/* log.c - log lines with a level; writes each line at once. */
#include "base/catch.h"
#include "base/faults.h"
#include "base/log.h"
#include "base/progress.h"
#include "cspeed/cspeed.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ce_log_level min_level = CE_LOG_INFO;
/* The rank of this process; -1 means that the rank is not known yet. ce_log_rank then takes the rank from the
 * environment. */
static int own_rank = -1;

void ce_log_open(ce_log_level min, int rank)
{
    /* CSPEED_LOG_LEVEL is also the value of the launcher's option --log_level, which has more levels; ranks only
     * recognise "debug". */
    const char *level = getenv("CSPEED_LOG_LEVEL");
    min_level = level && strcmp(level, "debug") == 0 ? CE_LOG_DEBUG : min;
    own_rank = rank;
}

/* Returns the rank in the first variable of `names` that is set in the environment, or 0 if none of them is set. The
 * order of the names is the same as in comm/world.c. */
static int rank_by_starter(void)
{
    static const char *const names[] = { "RANK",        "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK",
                                         "PALS_RANKID", "SLURM_PROCID",         "PMI_RANK" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return 0;
}

int ce_log_rank(void)
{
    if (own_rank < 0) {
        own_rank = rank_by_starter();
    }
    return own_rank;
}

int cs_launched_rank(void)
{
    return ce_log_rank();
}

bool ce_log_shows(ce_log_level level)
{
    return level >= min_level && (ce_log_rank() == 0 || level >= CE_LOG_ERROR);
}

void ce_log(ce_log_level level, const char *format, ...)
{
    static const cs_log_level hook_levels[] = { CS_LOG_INFO, CS_LOG_INFO, CS_LOG_INFO, CS_LOG_WARNING, CS_LOG_ERROR };
    if (!ce_log_shows(level))
        return;
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    ce_faults_make_printable(line, "\n\t");
    if (ce_catch_line(hook_levels[level], line))
        return;
    ce_progress_break();
    fflush(stdout); /* without this call lines could change their order if stdout and stderr go to one file */
    fprintf(stderr, "%s%s\n", level == CE_LOG_WARNING ? "warning: " : level == CE_LOG_ERROR ? "error: " : "", line);
}
