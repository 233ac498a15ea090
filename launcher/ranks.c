/* ranks.c - slots to ranks. */
#include "ranks.h"

#include "codes.h"

#include "base/range.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static int count_ranks(cs_job *job, const cs_cores *cores)
{
    const cs_options *options = job->options;
    job->rank_count           = options->ranks ? options->ranks : cores->node_count;
    if (!options->ranks && job->rank_count > cores->quota)
        job->rank_count = cores->quota;
    int most = cores->quota;
    if (job->rank_count > most && !options->oversubscribe)
        return cs_codes_fail(CS_CODE_SLOTS,
                             "--num_gpus %d: this machine has %d slot%s (off CUDA, one a core this process may use%s); "
                             "ask for %d or fewer, or add --oversubscribe",
                             job->rank_count, most, most == 1 ? "" : "s",
                             cores->quota < cores->cpu_count ? ", as far as its cgroup grants CPU time" : "", most);
    return 0;
}

/* Pinning under a quota would crowd every such container onto the same first cores. */
static int choose_binding(cs_job *job, const cs_cores *cores)
{
    bool enough = job->rank_count <= cores->cpu_count;
    if (job->options->bind == CS_BIND_CORE && !enough)
        return cs_codes_fail(CS_CODE_SLOTS, "--bind core: %d ranks cannot have cores of their own, there are %d",
                             job->rank_count, cores->cpu_count);
    job->bound = job->options->bind == CS_BIND_CORE ||
                 (job->options->bind == CS_BIND_AUTO && enough && cores->quota == cores->cpu_count);
    job->tell_threads = job->bound || cores->quota < cores->cpu_count;
    return 0;
}

/* Where core number `index` begins in the list of CPUs. */
static int core_start(const cs_cores *cores, int64_t index)
{
    int64_t seen = -1;
    for (int i = 0; i < cores->cpu_count; i++) {
        seen += i == 0 || cores->cpus[i].core != cores->cpus[i - 1].core;
        if (seen == index)
            return i;
    }
    return cores->cpu_count;
}

/* A contiguous set for each rank: whole cores while there are as many, else hardware threads. */
static void deal_cores(cs_job *job, const cs_cores *cores)
{
    bool whole = job->rank_count <= cores->core_count;
    for (int rank = 0; rank < job->rank_count; rank++) {
        cs_seat *here = &job->seats[rank];
        cs_range part = cs_range_part(whole ? cores->core_count : cores->cpu_count, rank, job->rank_count);
        int      from = whole ? core_start(cores, part.from) : (int)part.from;
        int      to   = whole ? core_start(cores, part.to) : (int)part.to;
        int      share = cores->quota / job->rank_count;
        here->threads = (int)cs_range_length(part);
        if (here->threads > share && cores->quota < cores->cpu_count)
            here->threads = share;
        if (here->threads < 1)
            here->threads = 1;
        for (int i = from; i < to; i++)
            CPU_SET((size_t)cores->cpus[i].cpu, &here->cpus);
    }
}

int cs_ranks_plan(cs_job *job, const cs_options *options)
{
    cs_cores cores;
    job->options = options;
    int code     = cs_cores_read(&cores);
    if (code == 0)
        code = count_ranks(job, &cores);
    if (code == 0)
        code = choose_binding(job, &cores);
    if (code)
        return code;
    unsigned char random[4];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return cs_codes_fail(CS_CODE_SYSTEM, "no random bytes for the job's id: %s", strerror(errno));
    snprintf(job->id, sizeof job->id, "%02x%02x%02x%02x", random[0], random[1], random[2], random[3]);
    job->seats = calloc((size_t)job->rank_count, sizeof *job->seats);
    if (!job->seats)
        return cs_codes_fail(CS_CODE_SYSTEM, "no memory for %d ranks", job->rank_count);
    deal_cores(job, &cores);
    return 0;
}

void cs_ranks_free(cs_job *job)
{
    free(job->seats);
    job->seats = NULL;
}

static void __attribute__((format(printf, 4, 5)))
add(cs_variable *variables, int *count, const char *name, const char *format, ...)
{
    cs_variable *here = &variables[(*count)++];
    va_list      arguments;
    here->name = name;
    va_start(arguments, format);
    vsnprintf(here->value, sizeof here->value, format, arguments);
    va_end(arguments);
}

int cs_ranks_variables(const cs_job *job, int rank, cs_variable variables[CS_RANKS_VARIABLES])
{
    int count = 0;
    add(variables, &count, "RANK", "%d", rank);
    add(variables, &count, "LOCAL_RANK", "%d", rank);
    add(variables, &count, "WORLD_SIZE", "%d", job->rank_count);
    add(variables, &count, "LOCAL_WORLD_SIZE", "%d", job->rank_count);
    add(variables, &count, "LOCAL_SIZE", "%d", job->rank_count);
    add(variables, &count, "NODE_RANK", "0");
    add(variables, &count, "GROUP_RANK", "0");
    add(variables, &count, "GROUP_WORLD_SIZE", "1");
    add(variables, &count, "CROSS_RANK", "0");
    add(variables, &count, "CROSS_SIZE", "1");
    add(variables, &count, "MASTER_ADDR", "127.0.0.1");
    add(variables, &count, "MASTER_PORT", "%d", job->port);
    add(variables, &count, "CSPEED_JOB_ID", "%s", job->id);
    add(variables, &count, "CSPEED_ATTEMPT", "0");
    if (job->bound)
        add(variables, &count, "CSPEED_BOUND", "1");
    if (job->tell_threads && !getenv("OMP_NUM_THREADS"))
        add(variables, &count, "OMP_NUM_THREADS", "%d", job->seats[rank].threads);
    if (job->columns) {
        add(variables, &count, "CSPEED_TERMINAL", "1");
        add(variables, &count, "COLUMNS", "%d", job->columns);
    }
    return count;
}
