/* run.c - runs a program on its ranks: makes the plan, then becomes the front process of the job. With --no_ssh, the
 * launcher of every node except the first becomes a relay (front/relay.h). If mpirun starts the ranks directly, mpirun
 * replaces the launcher (wire/mpi_ranks.c). */
#include "command/run.h"

#include "node/agent.h"
#include "ground/codes.h"
#include "front/front.h"
#include "command/plan.h"
#include "command/check.h"
#include "command/train_line.h"
#include "front/relay.h"
#include "node/program.h"
#include "base/must.h"
#include "plan/mesh.h"
#include "plan/world_sizes.h"
#include "wire/starter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Implements DeepSpeed's --save_pid: creates a file with the process id of the launcher. The file exists while the
 * launcher runs. */
static int save_pid(const char *wanted, char path[PATH_MAX])
{
    if (!wanted)
        return 0;
    if (*wanted)
        snprintf(path, PATH_MAX, "%s", wanted);
    else
        snprintf(path, PATH_MAX, "/tmp/%d.cspeed", getpid());
    FILE *file = fopen(path, "wxe");
    if (file && fprintf(file, "%d\n", getpid()) > 0 && fclose(file) == 0)
        return 0;
    path[0] = '\0';
    return cl_codes_fail(CL_CODE_LOG, "--save_pid: %s: %s", *wanted ? wanted : "/tmp", strerror(errno));
}

/* Returns true if mpirun must start the ranks directly, without agents. */
static bool is_of_mpi(const cl_options *options)
{
    return (options->launcher == CL_BY_OPENMPI || options->launcher == CL_BY_MPICH) &&
           cl_transport_is_mpi(options->program + 1);
}

static int run_by_mpi(const cl_plan *plan)
{
    char program[PATH_MAX];
    int code = cl_program_find(plan->arguments[0], program);
    return code ? code : cl_mpi_ranks_run(plan, program);
}

static int work(cl_plan *plan, const cl_options *options)
{
    cl_guard guard;
    char pid_path[PATH_MAX] = "";
    int code = cl_guard_take(&guard, options->forward);
    if (code == 0 && options->preflight == CL_PREFLIGHT_FULL && !options->no_ssh_check && !plan->no_ssh &&
        plan->launcher < CL_BY_OPENMPI)
        code = cl_check_run(plan, CL_CHECK_FAULTS);
    if (code == 0)
        code = save_pid(options->save_pid, pid_path);
    if (code == 0)
        code = plan->no_ssh && plan->node_rank != 0 ? cl_relay_run(plan, &guard) : cl_job_loop_run(plan, &guard);
    if (*pid_path)
        unlink(pid_path);
    return code;
}

static void warn_of_hosts(const cl_plan *plan)
{
    CE_FREED char *warning = cl_mesh_warning(plan);
    if (warning)
        fprintf(stderr, "cspeed: warning: %s\n", warning);
}

int cl_run(const cl_options *options)
{
    cl_plan plan = { 0 };
    if (options->secret_file)
        setenv("CSPEED_SECRET_FILE", options->secret_file, 1);
    if (options->dry_run)
        return cl_plan_show(options, options->program, false);
    int code = cl_hostplan_make(&plan, options);
    if (code == 0)
        code = cl_train_line_check(&plan);
    if (code == 0 && plan.node_rank <= 0)
        warn_of_hosts(&plan);
    if (code == 0)
        code = is_of_mpi(options) ? run_by_mpi(&plan) : work(&plan, options);
    cl_hostplan_free(&plan);
    return code;
}
