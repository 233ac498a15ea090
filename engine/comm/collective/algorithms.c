/* algorithms.c - the table of algorithms, and the setting that chooses among them. */
#include "comm/collective/algorithms.h"
#include "comm/collective/collective.h"
#include "base/clock.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

typedef void (*reducer)(cs_comm *, const ce_members *, void *data, int64_t count, cs_dtype, cs_reduce_op);
typedef void (*scatterer)(cs_comm *, const ce_members *, void *out, const void *in, const ce_parts *, cs_dtype,
                          cs_reduce_op);
typedef void (*gatherer)(cs_comm *, const ce_members *, void *out, const void *in, const ce_parts *, cs_dtype);

/* An algorithm of collectives over messages. It has one function for each collective; NULL means that the algorithm
 * does not exist for that collective. */
typedef struct {
    const char *name;
    reducer all_reduce;
    scatterer reduce_scatter;
    gatherer all_gather;
} algorithm;

/* The table of algorithms. Row 0 stands for the transport's own choice. */
static const algorithm algorithms[] = {
    { .name = "auto" },
    { "whole", ce_whole_all_reduce, NULL, NULL },
    { "direct", ce_direct_all_reduce, ce_among_reduce_scatter, ce_among_all_gather },
    { "ring", ce_ring_all_reduce, ce_ring_reduce_scatter, ce_ring_all_gather },
    { "halving", ce_halving_all_reduce, ce_halving_reduce_scatter, NULL },
    { "doubling", NULL, NULL, ce_doubling_all_gather },
    { "mpi", ce_library_all_reduce, NULL, ce_library_all_gather },
};
enum { ALGORITHM_COUNT = sizeof algorithms / sizeof *algorithms, LIBRARY = ALGORITHM_COUNT - 1 };

/* Names of the collectives, in the order of the constants CE_CHOOSE_... */
static const char *const collectives[] = { "all_reduce", "reduce_scatter", "all_gather" };

static const struct {
    const char *name;
    size_t at;
} sizes[] = {
    { "all_reduce_whole", offsetof(ce_sizes, all_reduce_whole) },
    { "reduce_whole", offsetof(ce_sizes, reduce_whole) },
    { "broadcast_whole", offsetof(ce_sizes, broadcast_whole) },
    { "slots", offsetof(ce_sizes, slots) },
    { "messages", offsetof(ce_sizes, messages) },
};
enum { SIZE_NAMES = sizeof sizes / sizeof *sizes };
_Static_assert(SIZE_NAMES * sizeof(size_t) == sizeof(ce_sizes), "every size has a name");

static size_t *size_at(ce_sizes *table, int index)
{
    return (size_t *)(void *)((char *)table + sizes[index].at);
}

static bool has(const algorithm *row, int collective)
{
    return row == algorithms || (collective == 0 && row->all_reduce) || (collective == 1 && row->reduce_scatter) ||
           (collective == 2 && row->all_gather);
}

/* ---- the list ---- */

static cs_status read_algorithm(cs_comm *comm, int collective, const char *value)
{
    char names[128] = "";
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        if (!has(&algorithms[i], collective))
            continue;
        if (strcmp(algorithms[i].name, value) == 0) {
            comm->wish.chosen[collective] = (uint8_t)i;
            return CS_OK;
        }
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", length ? ", " : "", algorithms[i].name);
    }
    if (strcmp(value, "hierarchical") == 0) {
        comm->wish.chosen[collective] = CE_HIERARCHICAL;
        return CS_OK;
    }
    return ce_fail(CS_BAD_CONFIG, "comm_algorithms: %s=%s: its algorithms are %s and hierarchical",
                   collectives[collective], value, names);
}

/* Reads one size of the list. `word` is TRANSPORT.SIZE, and `size` points to the name after the dot. */
static cs_status read_size(cs_comm *comm, const char *word, const char *size, const char *value)
{
    const ce_transport *transport = ce_comm_named(word, (size_t)(size - word) - 1);
    char *end;
    int index = 0;
    errno = 0;
    unsigned long long bytes = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || bytes > (size_t)1 << 40)
        return ce_fail(CS_BAD_CONFIG, "comm_algorithms: %s=%s: a number of bytes from 0 to 2^40 is needed", word,
                       value);
    while (index < SIZE_NAMES && strcmp(sizes[index].name, size) != 0)
        index++;
    if (!transport || index == SIZE_NAMES)
        return ce_fail(CS_BAD_CONFIG,
                       "comm_algorithms: %s: it is TRANSPORT.SIZE; the sizes are all_reduce_whole, reduce_whole, "
                       "broadcast_whole, slots and messages",
                       word);
    ce_sizes table = transport->sizes;
    if (*size_at(&table, index) == 0)
        return ce_fail(CS_BAD_CONFIG, "comm_algorithms: %s: the transport %s has no such switch", word,
                       transport->name);
    if (transport == comm->transport)
        *size_at(&comm->wish.sizes, index) = (size_t)bytes;
    return CS_OK;
}

static cs_status read_assignment(cs_comm *comm, char *word)
{
    char *value = strchr(word, '=');
    if (!value)
        return ce_fail(CS_BAD_CONFIG, "comm_algorithms: \"%s\" is not NAME=VALUE", word);
    *value++ = 0;
    const char *dot = strchr(word, '.');
    if (dot)
        return read_size(comm, word, dot + 1, value);
    for (int i = 0; i < CE_CHOICE_COUNT; i++)
        if (strcmp(collectives[i], word) == 0)
            return read_algorithm(comm, i, value);
    return ce_fail(CS_BAD_CONFIG,
                   "comm_algorithms: \"%s\" is neither all_reduce, reduce_scatter or all_gather nor TRANSPORT.SIZE",
                   word);
}

cs_status ce_algorithms_read(cs_comm *comm, const char *list)
{
    cs_status status = CS_OK;
    memset(&comm->wish, 0, sizeof comm->wish);
    memset(&comm->wish.sizes, 0xff, sizeof comm->wish.sizes); /* sets every size to CE_SIZE_UNCHANGED */
    comm->sizes = comm->transport->sizes;
    comm->settings.algorithms = NULL;
    if (!list || !list[0])
        return CS_OK;
    comm->settings.algorithms = comm->algorithm_list = strdup(list);
    char *copy = strdup(list), *rest;
    if (!copy || !comm->algorithm_list)
        status = ce_fail(CS_NO_MEMORY, "no memory for the list of algorithms");
    for (char *word = copy ? strtok_r(copy, ", ", &rest) : NULL; word && status == CS_OK;
         word = strtok_r(NULL, ", ", &rest))
        status = read_assignment(comm, word);
    free(copy);
    return status;
}

cs_status ce_algorithms_check(const char *list)
{
    cs_comm comm = { .transport = &ce_comm_self };
    cs_status status = ce_algorithms_read(&comm, list);
    free(comm.algorithm_list);
    return status;
}

/* ---- agreement ---- */

static const char *name_of(int chosen)
{
    return chosen == CE_HIERARCHICAL ? "hierarchical" : algorithms[chosen].name;
}

static cs_status report(const cs_comm *comm, int other, const ce_wish *first, const ce_wish *its)
{
    int zero = ce_comm_name(comm, 0), name = ce_comm_name(comm, other);
    for (int i = 0; i < CE_CHOICE_COUNT; i++)
        if (first->chosen[i] != its->chosen[i])
            return ce_fail(CS_DISAGREE,
                           "comm_algorithms: %s is \"%s\" on rank %d and \"%s\" on rank %d: all ranks need the same",
                           collectives[i], name_of(first->chosen[i]), zero, name_of(its->chosen[i]), name);
    for (int i = 0; i < SIZE_NAMES; i++) {
        ce_sizes one = first->sizes, two = its->sizes;
        if (*size_at(&one, i) != *size_at(&two, i))
            return ce_fail(CS_DISAGREE, "comm_algorithms: rank %d and rank %d give %s.%s different values", zero, name,
                           comm->transport->name, sizes[i].name);
    }
    return ce_fail(CS_DISAGREE, "comm_algorithms: rank %d and rank %d give different lists", zero, name);
}

/* Checks that comm->wish, the values of the list of assignments, is the same on all ranks. Every rank gathers and
 * compares the values of all ranks, so all ranks fail with the same message. */
static cs_status compare(cs_comm *comm)
{
    int size = comm->world.size, other = 1;
    if (size == 1)
        return CS_OK;
    ce_wish *all = calloc((size_t)size, sizeof *all);
    if (!all)
        return ce_fail(CS_NO_MEMORY, "no memory for the algorithms of %d ranks", size);
    comm->begun = ce_clock_seconds();
    comm->transport->all_gather(comm, all, &comm->wish, sizeof comm->wish, CS_U8);
    while (other < size && memcmp(&all[other], &all[0], sizeof *all) == 0)
        other++;
    cs_status status = other < size ? report(comm, other, &all[0], &all[other]) : CS_OK;
    free(all);
    return status;
}

cs_status ce_algorithms_apply(cs_comm *comm)
{
    bool by_library = false;
    CE_TRY(compare(comm));
    for (int i = 0; i < SIZE_NAMES; i++)
        if (*size_at(&comm->wish.sizes, i) != CE_SIZE_UNCHANGED)
            *size_at(&comm->sizes, i) = *size_at(&comm->wish.sizes, i);
    for (int i = 0; i < CE_CHOICE_COUNT; i++) {
        bool hierarchical = comm->transport->hierarchical && comm->transport->hierarchical(comm);
        /* comm->names is NULL unless this is the comm of a group. If the transport of a group lacks the chosen
         * algorithm, this is no failure: the group uses the algorithm that its transport chooses. */
        if (comm->wish.chosen[i] == CE_HIERARCHICAL && !hierarchical && !comm->names)
            return ce_fail(CS_BAD_CONFIG,
                           "comm_algorithms: %s=hierarchical: the transport %s does not have it here; it needs tcp "
                           "among hosts whose numbers of ranks are equal and a power of two",
                           collectives[i], comm->transport->name);
        bool lacks_library = comm->wish.chosen[i] == LIBRARY && !comm->transport->library_open;
        if (lacks_library && !comm->names)
            return ce_fail(CS_BAD_CONFIG,
                           "comm_algorithms: %s=mpi: only the transport mpi has it, and this is the transport %s",
                           collectives[i], comm->transport->name);
        bool auto_instead = lacks_library || comm->wish.chosen[i] == CE_HIERARCHICAL;
        comm->chosen[i] = auto_instead ? 0 : comm->wish.chosen[i];
        by_library = by_library || comm->chosen[i] == LIBRARY;
    }
    return by_library ? comm->transport->library_open(comm) : CS_OK;
}

/* ---- the calls ---- */

static const algorithm *chosen(cs_comm *comm, int collective)
{
    const algorithm *row = &algorithms[comm->chosen[collective]];
    if (row != algorithms)
        comm->algorithm = row->name;
    return row;
}

static ce_parts even_parts(int64_t count, cs_dtype dtype)
{
    return (ce_parts){ .count = count, .apart = (size_t)count * cs_dtype_bytes(dtype) };
}

void ce_algorithms_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    const algorithm *row = chosen(comm, CE_CHOOSE_ALL_REDUCE);
    if (row->all_reduce)
        row->all_reduce(comm, &comm->all, data, count, dtype, op);
    else
        comm->transport->all_reduce(comm, data, count, dtype, op);
}

void ce_algorithms_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                  cs_reduce_op op)
{
    ce_parts parts = even_parts(count, dtype);
    const algorithm *row = chosen(comm, CE_CHOOSE_REDUCE_SCATTER);
    if (row->reduce_scatter)
        row->reduce_scatter(comm, &comm->all, out, in, &parts, dtype, op);
    else
        comm->transport->reduce_scatter(comm, out, in, count, dtype, op);
}

void ce_algorithms_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    ce_parts parts = even_parts(count, dtype);
    const algorithm *row = chosen(comm, CE_CHOOSE_ALL_GATHER);
    if (row->all_gather)
        row->all_gather(comm, &comm->all, out, in, &parts, dtype);
    else
        comm->transport->all_gather(comm, out, in, count, dtype);
}

void ce_algorithms_reduce_scatter_v(cs_comm *comm, void *out, const void *in, const ce_parts *parts, cs_dtype dtype,
                                    cs_reduce_op op)
{
    const algorithm *row = chosen(comm, CE_CHOOSE_REDUCE_SCATTER);
    scatterer run = row->reduce_scatter ? row->reduce_scatter : ce_among_reduce_scatter;
    run(comm, &comm->all, out, in, parts, dtype, op);
}

void ce_algorithms_all_gather_v(cs_comm *comm, void *out, const void *in, const ce_parts *parts, cs_dtype dtype)
{
    const algorithm *row = chosen(comm, CE_CHOOSE_ALL_GATHER);
    gatherer run = row->all_gather ? row->all_gather : ce_among_all_gather;
    run(comm, &comm->all, out, in, parts, dtype);
}
