/* slots.c - finds the hosts of a plan and chooses their slots. */
#include "plan/steps.h"

#include "plan/allocation.h"
#include "ground/codes.h"
#include "ground/cores.h"
#include "base/faults.h"
#include "plan/gpus.h"

#include "base/must.h"
#include "base/plural.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char job_hostfile[] = "/job/hostfile";

/* ---- this machine ---- */

typedef struct {
    int gpus, cores, nodes; /* nodes: the number of NUMA nodes, at most `cores` */
    char why[128];          /* reason why this machine has no usable GPU */
} machine;

static int read_machine(machine *here)
{
    CE_FREED cl_cores *cores = ce_must_alloc(sizeof *cores);
    int code = cl_cores_read(cores);
    here->gpus = cl_gpus_count(here->why);
    here->cores = cores->quota;
    here->nodes = cores->node_count < cores->quota ? cores->node_count : cores->quota;
    return code;
}

static bool is_word(const char *ranks, const char *word)
{
    return ranks && strcmp(ranks, word) == 0;
}

static bool is_number(const char *ranks)
{
    return ranks && isdigit((unsigned char)*ranks);
}

/* Counts the slots of this machine. If it has GPUs and the user did not give --num_gpus cpu, the GPUs are the slots.
 * Otherwise the slots are its cores if the options request a number of ranks (a number, cpu or auto, as with torchrun)
 * or name slots. In all other cases the slots are its NUMA nodes. */
static int count_slots(const cl_options *options, const machine *here, int *slots)
{
    const char *ranks = options->ranks;
    bool named = options->include && strchr(options->include, ':');
    if (is_word(ranks, "gpu") && here->gpus == 0)
        return cl_codes_fail(CL_CODE_SLOTS, "%s gpu: %s; give cpu or a number to compute on the CPU",
                             cl_options_origin("num_gpus"), here->why);
    if (here->gpus > 0 && !is_word(ranks, "cpu"))
        *slots = here->gpus;
    else if (ranks || named)
        *slots = here->cores;
    else
        *slots = here->nodes;
    return 0;
}

/* Names the hosts node0, node1, ... and gives each host the slots of this machine. Nodes that connect by themselves
 * must all have the same slots. */
static int name_nodes(cl_hosts *hosts, int count, int slots)
{
    CE_FREED char *text = NULL;
    size_t length;
    FILE *out = ce_must_stream(&text, &length);
    for (int i = 0; i < count; i++)
        fprintf(out, "node%d slots=%d\n", i, slots);
    ce_must_finish(out);
    return cl_hosts_parse(hosts, "--nnodes", text, length);
}

static int use_this_machine(cl_plan *plan)
{
    const cl_options *options = plan->options;
    const char *colon = options->nodes ? strchr(options->nodes, ':') : NULL;
    int max = options->nodes ? atoi(colon ? colon + 1 : options->nodes) : 0;
    machine here;
    int slots = 0, code = read_machine(&here);
    if (code == 0)
        code = count_slots(options, &here, &slots);
    if (code)
        return code;
    if (options->max_elastic_nodes > max)
        max = options->max_elastic_nodes;
    plan->has_devices = here.gpus > 0 && !is_word(options->ranks, "cpu");
    if (plan->no_ssh && max == 0)
        return cl_codes_fail(CL_CODE_USAGE, "unknown number of nodes: without a hostfile --no_ssh needs --nnodes");
    if (plan->no_ssh && is_number(options->ranks) && atoi(options->ranks) > slots && options->oversubscribe)
        slots = atoi(options->ranks);
    return plan->no_ssh ? name_nodes(&plan->hosts, max, slots) : cl_hosts_local(&plan->hosts, slots);
}

/* ---- source of the hosts ---- */

static int read_hostfile(cl_plan *plan, const char *path)
{
    plan->named = true;
    /* has_devices is also true if the hosts have no GPUs; CUDA_VISIBLE_DEVICES then has no effect */
    plan->has_devices = true;
    return cl_hosts_read(&plan->hosts, path);
}

static int find_hosts(cl_plan *plan)
{
    const cl_options *options = plan->options;
    if (options->launcher == CL_BY_SLURM && !cl_allocation_here())
        return cl_codes_fail(
            CL_CODE_USAGE,
            "%s slurm: this is not inside a Slurm allocation (SLURM_JOB_NODELIST is not set), and outside of an "
            "allocation srun would create one; start this in `salloc` or `sbatch`, or leave out the flag",
            cl_options_origin("launcher"));
    if (options->standalone)
        return use_this_machine(plan);
    if (options->hosts) {
        plan->named = plan->has_devices = true;
        return cl_hosts_parse_list(&plan->hosts, options->hosts);
    }
    if (options->hostfile)
        return read_hostfile(plan, options->hostfile);
    if (access(job_hostfile, F_OK) == 0)
        return read_hostfile(plan, job_hostfile);
    bool allocated = cl_allocation_here() && !getenv("CSPEED_ATTEMPT");
    if (!allocated || options->launcher == CL_BY_LOCAL)
        return use_this_machine(plan);
    if (options->launcher == CL_BY_AUTO && !plan->no_ssh)
        plan->launcher = CL_BY_SLURM;
    plan->named = true; /* has_devices remains false, because srun has assigned devices to each node */
    return cl_allocation_hosts(&plan->hosts, is_number(options->ranks) ? options->ranks : NULL);
}

int cl_slots_find(cl_plan *plan)
{
    int code = find_hosts(plan);
    if (code || (!plan->options->include && !plan->options->exclude))
        return code;
    return cl_select_hosts(&plan->hosts, plan->options->include, plan->options->exclude);
}

/* ---- number of slots ---- */

/* Changes the number of a host's slots to `count`. A smaller number keeps the first slots. With a larger number, the
 * list contains some of the slots several times. */
static void resize(cl_host *host, int count)
{
    int *slots = ce_must_alloc((size_t)count * sizeof *slots);
    for (int i = 0; i < count; i++)
        slots[i] = host->slots[count <= host->slot_count ? i : (int)((long)i * host->slot_count / count)];
    free(host->slots);
    host->slots = slots;
    host->slot_count = count;
}

int cl_slots_choose(cl_plan *plan)
{
    const cl_options *options = plan->options;
    ce_faults faults = { .count = 0 };
    char flag[128];
    if (!is_number(options->ranks))
        return 0;
    int wanted = atoi(options->ranks);
    snprintf(flag, sizeof flag, "%s %d", cl_options_origin("num_gpus"), wanted);
    for (int i = 0; i < plan->hosts.count; i++) {
        cl_host *host = &plan->hosts.list[i];
        if (wanted > host->slot_count && !options->oversubscribe)
            ce_faults_add(
                &faults, flag, 0, 0, "", "%s has %d slot%s%s; ask for %d or fewer, or add --oversubscribe",
                plan->named ? host->name : "this machine", host->slot_count, ce_plural(host->slot_count),
                plan->named || plan->has_devices
                    ? ""
                    : " (without CUDA, one for each core that this process may use, and at most the number that its cgroup "
                      "allows)",
                host->slot_count);
        else
            resize(host, wanted);
    }
    return ce_faults_verdict(&faults, CL_CODE_SLOTS);
}

/* The entries of the user's CUDA_VISIBLE_DEVICES may be numbers, UUIDs or MIG names. Each slot of this machine selects
 * one entry. */
void cl_slots_set_devices(cl_plan *plan)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char text[4096];
    if (plan->named || !visible || !plan->has_devices)
        return;
    plan->has_devices =
        false; /* the ranks get CUDA_VISIBLE_DEVICES from plan->env; the agents need not set it from the slots */
    cl_gpus_devices(plan->hosts.list[0].slots, plan->hosts.list[0].slot_count, visible, text, sizeof text);
    if (!plan->no_ssh)
        cl_env_set(&plan->env, "CUDA_VISIBLE_DEVICES", text, "caller, by slots");
}
