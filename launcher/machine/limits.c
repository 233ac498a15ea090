/* limits.c - the resource limits of this process: memory, /dev/shm, control group, rlimits (setrlimit). */
#include "machine/facts.h"

#include "ground/descriptors.h"

#include "base/cgroup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#define GIB (1024.0 * 1024 * 1024)

/* Adds an amount of memory from a line of /proc/meminfo such as "MemTotal: 16384 kB". */
static void add_memory(cl_facts *facts, const char *label, const char *key)
{
    char value[CL_FACTS_VALUE];
    double kilobytes;
    if (cl_facts_key("/proc/meminfo", key, value) && sscanf(value, "%lf", &kilobytes) == 1)
        cl_facts_add(facts, label, "%.1f GiB", kilobytes * 1024 / GIB);
}

static void add_shared(cl_facts *facts)
{
    struct statvfs shared;
    if (statvfs("/dev/shm", &shared) == 0)
        cl_facts_add(facts, "/dev/shm", "%.1f GiB, %.1f free", (double)shared.f_blocks * (double)shared.f_frsize / GIB,
                     (double)shared.f_bavail * (double)shared.f_frsize / GIB);
    else
        cl_facts_add(facts, "/dev/shm", "absent");
}

static void add_limit(cl_facts *facts, const char *label, __rlimit_resource_t resource)
{
    struct rlimit limit;
    char words[2][32];
    if (getrlimit(resource, &limit) < 0)
        return;
    if (resource == RLIMIT_NOFILE)
        limit = cl_descriptors_before(); /* the limit that ranks get; the launcher has raised its own limit */
    const rlim_t values[2] = { limit.rlim_cur, limit.rlim_max };
    for (int i = 0; i < 2; i++)
        if (values[i] == RLIM_INFINITY)
            strcpy(words[i], "unlimited");
        else
            snprintf(words[i], sizeof words[i], "%lu", (unsigned long)values[i]);
    cl_facts_add(facts, label, "%s (at most %s)", words[0], words[1]);
}

static void add_group(cl_facts *facts)
{
    double cpus = ce_cgroup_cpu_quota(), bytes = ce_cgroup_memory_limit("");
    int64_t kills = ce_cgroup_oom_kills();
    if (isinf(cpus))
        cl_facts_add(facts, "CPU quota", "none");
    else
        cl_facts_add(facts, "CPU quota", "%.2f CPUs", cpus);
    if (isnan(bytes))
        cl_facts_add(facts, "memory limit", "absent");
    else if (isinf(bytes))
        cl_facts_add(facts, "memory limit", "none");
    else
        cl_facts_add(facts, "memory limit", "%.1f GiB", bytes / GIB);
    if (kills >= 0)
        cl_facts_add(facts, "killed for memory", "%ld so far", kills);
}

void cl_limits_list(cl_facts *facts)
{
    char value[CL_FACTS_VALUE];
    add_memory(facts, "memory", "MemTotal");
    add_memory(facts, "available", "MemAvailable");
    add_memory(facts, "swap", "SwapTotal");
    add_shared(facts);
    add_group(facts);
    add_limit(facts, "open files", RLIMIT_NOFILE);
    add_limit(facts, "locked memory (bytes)", RLIMIT_MEMLOCK);
    add_limit(facts, "core size (bytes)", RLIMIT_CORE);
    add_limit(facts, "processes", RLIMIT_NPROC);
    if (cl_facts_line("/proc/sys/kernel/core_pattern", value))
        cl_facts_add(facts, "core pattern", "%s", value);
}
