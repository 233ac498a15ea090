/* cores.c - reads which CPU cores this process may use: affinity mask, topology, cgroup quota. */
#include "ground/cores.h"

#include "ground/ranges.h"
#include "ground/codes.h"

#include "base/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the first number in a file such as ".../thread_siblings_list". Returns `fallback` if the file cannot be read.
 */
static int first_number(const char *path, int fallback)
{
    FILE *file = fopen(path, "re");
    int number;
    bool found = file && fscanf(file, "%d", &number) == 1;
    if (file)
        fclose(file);
    return found ? number : fallback;
}

static int core_of(int cpu)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    return first_number(path, cpu);
}

/* Returns the NUMA node of a CPU. The CPU's folder in sysfs contains a link named "nodeN", where N is the number of the
 * NUMA node. Returns 0 if there is no such link. */
static int node_of(int cpu)
{
    char path[128];
    int node = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d", cpu);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (sscanf(entry->d_name, "node%d", &node) == 1)
            break;
    if (folder)
        closedir(folder);
    return node;
}

static int compare(const void *left, const void *right)
{
    const cl_cpu *a = left, *b = right;
    if (a->node != b->node)
        return a->node - b->node;
    return a->core != b->core ? a->core - b->core : a->cpu - b->cpu;
}

int cl_cores_read(cl_cores *cores)
{
    cpu_set_t allowed;
    *cores = (cl_cores){ 0 };
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "the allowed cores cannot be read: %s", strerror(errno));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &allowed))
            cores->cpus[cores->cpu_count++] = (cl_cpu){ cpu, core_of(cpu), node_of(cpu) };
    qsort(cores->cpus, (size_t)cores->cpu_count, sizeof *cores->cpus, compare);
    for (int i = 0; i < cores->cpu_count; i++) {
        const cl_cpu *here = &cores->cpus[i];
        cores->core_count += i == 0 || here->core != here[-1].core;
        cores->node_count += i == 0 || here->node != here[-1].node;
    }
    double quota = ce_cgroup_cpu_quota();
    cores->quota = quota < cores->cpu_count ? (int)quota : cores->cpu_count;
    if (cores->quota < 1)
        cores->quota = 1;
    return 0;
}

void cl_cores_print(const cpu_set_t *set, char *text, int size)
{
    int used = 0;
    text[0] = '\0';
    for (int from = 0; from < CPU_SETSIZE && used < size; from++) {
        if (!CPU_ISSET((size_t)from, set))
            continue;
        int to = from;
        while (to + 1 < CPU_SETSIZE && CPU_ISSET((size_t)to + 1, set))
            to++;
        const char *comma = used ? "," : "";
        if (to == from)
            used += snprintf(text + used, (size_t)(size - used), "%s%d", comma, from);
        else
            used += snprintf(text + used, (size_t)(size - used), "%s%d-%d", comma, from, to);
        from = to;
    }
}

/* Reads one item "N" or "A-B" at *text, and sets *text to the first byte after the item and its blanks. Returns false
 * if the item is malformed, or if the item's first number is not above `last`. */
static bool parse_span(const char **text, long last, long *from, long *to)
{
    *text += strspn(*text, " ");
    if (!cl_ranges_read(text, from, to))
        return false;
    *text += strspn(*text, " ");
    return *from > last && *to >= *from && *to < CPU_SETSIZE;
}

int cl_cores_parse(cpu_set_t *set, const char *flag, const char *text)
{
    long from, to, last = -1;
    const char *place = text;
    CPU_ZERO(set);
    for (; parse_span(&place, last, &from, &to); place++) {
        for (long cpu = from; cpu <= to; cpu++)
            CPU_SET((size_t)cpu, set);
        last = to;
        if (!*place)
            return 0;
        if (*place != ',')
            break;
    }
    return cl_codes_fail(CL_CODE_USAGE,
                         "%s takes cores and ranges of cores in ascending order, such as 0,2-4,6; not \"%s\"", flag,
                         text);
}
