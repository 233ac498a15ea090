/* mpi_ranks.c - starts the ranks of a job by mpirun. The command line has one part for each node, so that the ranks of
 * a node have consecutive numbers, and each node gets its own variables. */
#include "wire/starter.h"

#include "ground/codes.h"
#include "ground/descriptors.h"
#include "wire/words.h"

#include "base/must.h"
#include "base/plural.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The launch flags that have an effect if mpirun starts the ranks. All other flags need an agent. */
static const char honoured[] =
    " --hostfile --hosts --include --exclude --num_nodes --num_gpus --devices --oversubscribe --standalone --launcher "
    "--launcher_args --no_ssh_check --workdir --env --env_file --no_env_defaults --env_expand --log_level --quiet "
    "--verbose --no_python --no_local_rank --monitor_interval --start_method ";

static void check_flag(const char *name, const char *value, const char *origin, void *argument)
{
    char word[128];
    const char **refused = argument;
    (void)value;
    snprintf(word, sizeof word, " %s ", name);
    if (!*refused && !strstr(honoured, word))
        *refused = origin;
}

static int check_words(const cl_plan *plan)
{
    const char *refused = NULL;
    for (char **word = plan->arguments; *word; word++)
        if (strcmp(*word, ":") == 0)
            return cl_codes_fail(CL_CODE_USAGE, "not supported: the argument \":\" with the transport mpi, because "
                                                "mpirun reads it as the end of a command");
    cl_options_given(check_flag, &refused);
    if (!refused && plan->min_nodes == plan->max_nodes)
        return 0;
    return cl_codes_fail(CL_CODE_USAGE,
                         "not supported: %s with the transport mpi, because mpirun starts and ends the ranks, without "
                         "cspeed's agents; --launcher_args passes mpirun's own options",
                         refused ? refused : cl_options_origin("num_nodes"));
}

/* ---- the command line ---- */

static void add_variable(cl_words *words, bool by_openmpi, const char *name, const char *value)
{
    if (by_openmpi) {
        cl_words_add(words, "-x");
        cl_words_add(words, "%s=%s", name, value);
    } else {
        cl_words_add(words, "-env");
        cl_words_add(words, "%s", name);
        cl_words_add(words, "%s", value);
    }
}

/* Adds the variables of one node: the variables of the host's line in the hostfile, and CUDA_VISIBLE_DEVICES with the
 * host's GPUs. */
static void add_own_variables(cl_words *words, bool by_openmpi, const cl_plan *plan, const cl_host *host)
{
    char list[1024] = "";
    size_t used = 0;
    for (int i = 0; i < host->slot_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", i ? "," : "", host->slots[i]);
    if (plan->has_devices)
        add_variable(words, by_openmpi, "CUDA_VISIBLE_DEVICES", list);
    for (char **entry = host->env; entry && *entry; entry++) {
        CE_FREED char *name = ce_must_copy_part(*entry, strcspn(*entry, "="));
        add_variable(words, by_openmpi, name, *entry + strlen(name) + 1);
    }
}

static void add_node(cl_words *words, bool by_openmpi, const cl_plan *plan, const cl_host *host, const char *program)
{
    cl_words_add(words, by_openmpi ? "--wdir" : "-wdir");
    cl_words_add(words, "%s", plan->workdir);
    cl_words_add(words, "-n");
    cl_words_add(words, "%d", host->slot_count);
    if (by_openmpi) {
        cl_words_add(words, "--host");
        cl_words_add(words, "%s:%d", cl_hosts_address(host), host->slot_count);
        /* no such loop for MPICH: its mpiexec gives the ranks its whole environment */
        for (int i = 0; i < plan->env.count; i++)
            cl_words_add_all(words, (const char *const[]){ "-x", plan->env.list[i].name, NULL });
    }
    add_own_variables(words, by_openmpi, plan, host);
    cl_words_add(words, "%s", program);
    cl_words_add_all(words, (const char *const *)plan->arguments + 1);
}

/* Adds the options that stand before the parts of the nodes. With Open MPI, the part of each node names the node's host
 * (see add_node). With MPICH, an option here lists all hosts, and MPICH assigns the ranks to the hosts in the order of
 * this list. */
static void add_options(cl_words *words, bool by_openmpi, const cl_plan *plan)
{
    if (by_openmpi) { /* by default, mpirun would bind all threads of a rank to one core */
        cl_words_add_all(words, (const char *const[]){ "--bind-to", "none", NULL });
        return;
    }
    CE_FREED char *list = NULL;
    FILE *text = ce_must_stream(&list, NULL);
    for (int i = 0; i < plan->node_count; i++)
        fprintf(text, "%s%s:%d", i ? "," : "", cl_hosts_address(plan->nodes[i].host), plan->nodes[i].host->slot_count);
    ce_must_finish(text);
    cl_words_add(words, "-hosts");
    cl_words_add(words, "%s", list);
}

static int write_line(cl_words *words, const cl_plan *plan, const char *mpirun, const char *program)
{
    bool by_openmpi = plan->options->launcher == CL_BY_OPENMPI;
    cl_words_add(words, "%s", mpirun);
    add_options(words, by_openmpi, plan);
    int code = cl_words_split(words, "--launcher_args", plan->options->launcher_args);
    for (int i = 0; i < plan->node_count; i++) {
        if (i > 0)
            cl_words_add(words, ":");
        add_node(words, by_openmpi, plan, plan->nodes[i].host, program);
    }
    return code;
}

int cl_mpi_ranks_run(const cl_plan *plan, const char *program)
{
    cl_words words = { 0 };
    const char *mpirun;
    int code = check_words(plan);
    if (code == 0)
        code = cl_starter_find(&mpirun, plan->options->launcher);
    if (code == 0)
        code = write_line(&words, plan, mpirun, program);
    if (code)
        return code;
    if (!plan->options->quiet)
        fprintf(stderr, "cspeed %s  %d rank%s on %d node%s by %s, which starts and ends them\n", CS_VERSION,
                plan->rank_count, ce_plural(plan->rank_count), plan->node_count, ce_plural(plan->node_count), mpirun);
    if (plan->options->verbose)
        cl_words_print(&words);
    for (int i = 0; i < plan->env.count; i++)
        setenv(plan->env.list[i].name, plan->env.list[i].value, 1);
    cl_starter_allow_root();
    cl_descriptors_restore();
    execvp(mpirun, words.list);
    return cl_codes_fail(CL_CODE_SYSTEM, "%s: %s", mpirun, strerror(errno));
}
