/* bind.c - CPU affinity: assigns cores to ranks. This is the only file that uses hwloc.
 *
 * The usable CPUs are in one array, ordered so that adjacent CPUs share most hardware. The array is divided into
 * domains: one for --bind core, otherwise one for each NUMA node, socket or last-level cache. Each rank stays within
 * one domain if there are at least as many ranks as domains. A CPU belongs to at most one rank. If slots are GPUs,
 * --bind auto gives each rank cores of the NUMA node of its GPU. Loading hwloc takes milliseconds, so it is used only
 * if domains are needed. */
#include "plan/bind.h"

#include "ground/codes.h"
#include "ground/cores.h"
#include "plan/gpus.h"
#include "ground/options.h"

#include "base/must.h"
#include "base/plural.h"
#include "base/range.h"

#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_RANKS = 8, CORES_BYTES = 128 };

/* The domains, as half-open ranges of indices into the array of CPUs. */
typedef struct {
    ce_range list[CPU_SETSIZE];
    int count;
} domains;

static const char *const mode_names[] = { "auto", "none", "core", "numa", "socket", "l3" };

/* Returns true if the ranks' environment contains the variable `name`, from the order or from the agent's own
 * environment. */
static bool is_set_for_ranks(const cl_order *order, const char *name)
{
    size_t length = strlen(name);
    for (char **each = order->environment; each && *each; each++)
        if (strncmp(*each, name, length) == 0 && (*each)[length] == '=')
            return true;
    return getenv(name) != NULL;
}

/* ---- the array of CPUs ---- */

static int restrict_to_list(cl_cores *cores, const char *list)
{
    cpu_set_t wanted, missing;
    int left = 0, code = cl_cores_parse(&wanted, "--bind_core_list", list);
    if (code)
        return code;
    missing = wanted;
    for (int i = 0; i < cores->cpu_count; i++)
        if (CPU_ISSET((size_t)cores->cpus[i].cpu, &wanted)) {
            CPU_CLR((size_t)cores->cpus[i].cpu, &missing);
            cores->cpus[left++] = cores->cpus[i];
        }
    cores->cpu_count = left;
    cores->quota = cores->quota < left ? cores->quota : left;
    if (CPU_COUNT(&missing) == 0)
        return 0;
    char text[CORES_BYTES];
    cl_cores_print(&missing, text, sizeof text);
    return cl_codes_fail(CL_CODE_SLOTS, "--bind_core_list %s: this node has no core %s that this process may use", list,
                         text);
}

/* ---- domains ---- */

static hwloc_obj_type_t type_of(int mode)
{
    return mode == CL_BIND_NUMA ? HWLOC_OBJ_NUMANODE : mode == CL_BIND_SOCKET ? HWLOC_OBJ_PACKAGE : HWLOC_OBJ_L3CACHE;
}

/* Moves the CPUs of a hwloc object to the index `from` of the array; their order does not change. Returns the index
 * after the last of these CPUs. */
static int gather(cl_cores *cores, int from, const struct hwloc_obj *object)
{
    for (int i = from; i < cores->cpu_count; i++) {
        cl_cpu here = cores->cpus[i];
        if (!hwloc_bitmap_isset(object->cpuset, (unsigned)here.cpu))
            continue;
        memmove(&cores->cpus[from + 1], &cores->cpus[from], (size_t)(i - from) * sizeof here);
        cores->cpus[from++] = here;
    }
    return from;
}

/* Divides the array into one domain for each object of the type. An object that has no CPU of the array gets no domain,
 * for example a NUMA node that has memory only. */
static void cut_domains(domains *all, cl_cores *cores, hwloc_topology_t topology, hwloc_obj_type_t type)
{
    int from = 0;
    for (hwloc_obj_t object = NULL; (object = hwloc_get_next_obj_by_type(topology, type, object));) {
        int to = gather(cores, from, object);
        if (to > from)
            all->list[all->count++] = (ce_range){ from, to };
        from = to;
    }
    if (from < cores->cpu_count) /* CPUs that belong to no object form one more domain */
        all->list[all->count++] = (ce_range){ from, cores->cpu_count };
}

static int find_domains(domains *all, cl_cores *cores, int mode)
{
    hwloc_topology_t topology;
    all->count = 0;
    if (mode < CL_BIND_NUMA) {
        all->list[all->count++] = (ce_range){ 0, cores->cpu_count };
        return 0;
    }
    if (hwloc_topology_init(&topology) < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "--bind %s: hwloc cannot start: %s", mode_names[mode], strerror(errno));
    int loaded = hwloc_topology_load(topology);
    if (loaded == 0)
        cut_domains(all, cores, topology, type_of(mode));
    hwloc_topology_destroy(topology);
    return loaded == 0 ? 0
                       : cl_codes_fail(CL_CODE_SYSTEM, "--bind %s: hwloc cannot read this machine", mode_names[mode]);
}

/* ---- assignment ---- */

static int count_cores(const cl_cores *cores, ce_range range)
{
    int count = 0;
    for (int64_t i = range.from; i < range.to; i++)
        count += i == range.from || cores->cpus[i].core != cores->cpus[i - 1].core;
    return count;
}

/* Returns the index in the array of the first CPU of a core. The cores of the range are counted from 0, and `index` is
 * the number of the core. Returns range.to if the range has fewer cores. */
static int64_t core_start(const cl_cores *cores, ce_range range, int64_t index)
{
    int64_t seen = -1;
    for (int64_t i = range.from; i < range.to; i++) {
        seen += i == range.from || cores->cpus[i].core != cores->cpus[i - 1].core;
        if (seen == index)
            return i;
    }
    return range.to;
}

static cl_rank_cpus make_rank_cpus(const cl_cores *cores, ce_range cpus, int share)
{
    cl_rank_cpus here = { .threads = count_cores(cores, cpus) };
    CPU_ZERO(&here.cpus);
    for (int64_t i = cpus.from; i < cpus.to; i++)
        CPU_SET((size_t)cores->cpus[i].cpu, &here.cpus);
    if (here.threads > share)
        here.threads = share;
    if (here.threads < 1)
        here.threads = 1;
    return here;
}

/* Returns the CPUs of one rank, if `count` ranks share a range: whole cores if there are enough cores, otherwise
 * hardware threads. */
static cl_rank_cpus cpus_of_rank(const cl_cores *cores, ce_range range, int index, int count, int share)
{
    int core_count = count_cores(cores, range);
    bool whole = count <= core_count;
    ce_range part = ce_range_part(whole ? core_count : ce_range_length(range), index, count);
    ce_range cpus = { range.from + part.from, range.from + part.to };
    if (whole)
        cpus = (ce_range){ core_start(cores, range, part.from), core_start(cores, range, part.to) };
    return make_rank_cpus(cores, cpus, share);
}

static int assign(cl_binding *binding, const cl_cores *cores, const domains *all, int mode)
{
    /* no rank gets more threads than this: the CPU quota, divided by the number of ranks */
    int share = cores->quota == cores->cpu_count ? CPU_SETSIZE : cores->quota / binding->count;
    for (int rank = 0; binding->count <= all->count && rank < binding->count; rank++) {
        ce_range part = ce_range_part(all->count, rank, binding->count);
        ce_range cpus = { all->list[part.from].from, all->list[part.to - 1].to };
        binding->list[rank] = make_rank_cpus(cores, cpus, share);
    }
    for (int i = 0; binding->count > all->count && i < all->count; i++) {
        ce_range ranks = ce_range_part(binding->count, i, all->count);
        if (binding->bound && ce_range_length(ranks) > ce_range_length(all->list[i]))
            return cl_codes_fail(CL_CODE_SLOTS,
                                 "--bind %s: %ld ranks cannot have separate cores among %ld; start fewer, or use "
                                 "--bind none",
                                 mode_names[mode], ce_range_length(ranks), ce_range_length(all->list[i]));
        for (int64_t rank = ranks.from; rank < ranks.to; rank++)
            binding->list[rank] =
                cpus_of_rank(cores, all->list[i], (int)(rank - ranks.from), (int)ce_range_length(ranks), share);
    }
    return 0;
}

/* Assigns CPUs by NUMA node: homes[rank] is the NUMA node of the rank's GPU, and ranks with the same NUMA node share
 * its CPUs. Returns false if the array has fewer CPUs of a NUMA node than that NUMA node has ranks; some entries of
 * binding->list may then have been written. */
static bool assign_by_home(cl_binding *binding, cl_cores *cores, const int *homes)
{
    int share = cores->quota == cores->cpu_count ? CPU_SETSIZE : cores->quota / binding->count;
    for (int rank = 0; rank < binding->count; rank++) {
        ce_range range = { 0, 0 };
        int others = 0, before = 0;
        for (int i = 0; i < binding->count; i++) {
            others += homes[i] == homes[rank];
            before += homes[i] == homes[rank] && i < rank;
        }
        while (range.from < cores->cpu_count && cores->cpus[range.from].node != homes[rank])
            range.from++;
        for (range.to = range.from; range.to < cores->cpu_count && cores->cpus[range.to].node == homes[rank];)
            range.to++;
        if (ce_range_length(range) < others)
            return false;
        binding->list[rank] = cpus_of_rank(cores, range, before, others, share);
    }
    return true;
}

/* ---- description ---- */

static void describe(cl_binding *binding, int first_rank)
{
    char cores[CORES_BYTES];
    FILE *out = fmemopen(binding->text, sizeof binding->text, "w");
    int max = 0, min = CPU_SETSIZE;
    if (!out)
        return;
    for (int i = 0; i < binding->count; i++) {
        max = binding->list[i].threads > max ? binding->list[i].threads : max;
        min = binding->list[i].threads < min ? binding->list[i].threads : min;
        if (!binding->bound || i >= TEXT_RANKS)
            continue;
        cl_cores_print(&binding->list[i].cpus, cores, sizeof cores);
        fprintf(out, "%srank %d on core%s %s", i ? ", " : "", first_rank + i,
                ce_plural(CPU_COUNT(&binding->list[i].cpus)), cores);
    }
    fputs(!binding->bound ? "not pinned to cores" : binding->count > TEXT_RANKS ? " ..." : "", out);
    if (!binding->set_threads)
        fputs("; threads as the program chooses", out);
    else if (min < max)
        fprintf(out, "; %d or %d threads each", min, max);
    else
        fprintf(out, "; %d thread%s each", max, ce_plural(max));
    fclose(out);
    binding->text[sizeof binding->text - 1] = '\0';
}

/* Decides whether ranks are bound. Under a CPU quota, --bind auto binds no rank: otherwise all containers with a quota
 * on one machine would use the same first cores. */
static void decide_binding(cl_binding *binding, const cl_order *order, const cl_cores *cores)
{
    bool limited = cores->quota < cores->cpu_count;
    binding->bound = order->bind > CL_BIND_NONE || (order->bind == CL_BIND_AUTO && binding->count <= cores->cpu_count &&
                                                    !limited && !is_set_for_ranks(order, "KMP_AFFINITY"));
    binding->set_threads = (binding->bound || limited) && !is_set_for_ranks(order, "OMP_NUM_THREADS");
}

int cl_bind_share(cl_binding *binding, const cl_order *order, cl_cores *cores, const int *homes)
{
    *binding = (cl_binding){ .count = order->rank_count };
    if (order->bind > CL_BIND_NONE && is_set_for_ranks(order, "KMP_AFFINITY"))
        return cl_codes_fail(CL_CODE_USAGE, "--bind %s and KMP_AFFINITY both bind threads; unset KMP_AFFINITY",
                             mode_names[order->bind]);
    int code = *order->core_list ? restrict_to_list(cores, order->core_list) : 0;
    if (code)
        return code;
    CE_FREED domains *all = ce_must_alloc(sizeof *all);
    binding->list = ce_must_alloc((size_t)order->rank_count * sizeof *binding->list);
    decide_binding(binding, order, cores);
    bool at_home = homes && binding->bound && order->bind == CL_BIND_AUTO && assign_by_home(binding, cores, homes);
    if (!at_home)
        code = find_domains(all, cores, order->bind);
    if (!at_home && code == 0)
        code = assign(binding, cores, all, order->bind);
    if (code)
        cl_bind_free(binding);
    else
        describe(binding, order->first_rank);
    return code;
}

int cl_bind_assign(cl_binding *binding, const cl_order *order)
{
    CE_FREED cl_cores *cores = ce_must_alloc(sizeof *cores);
    CE_FREED int *homes = ce_must_alloc((size_t)order->rank_count * sizeof *homes);
    const char *visible = order->has_devices ? NULL : getenv("CUDA_VISIBLE_DEVICES");
    *binding = (cl_binding){ 0 };
    bool known = (order->has_devices || visible) && cl_gpus_nodes(order->slots, order->rank_count, visible, homes);
    int code = cl_cores_read(cores);
    return code ? code : cl_bind_share(binding, order, cores, known ? homes : NULL);
}

void cl_bind_free(cl_binding *binding)
{
    free(binding->list);
    *binding = (cl_binding){ 0 };
}
