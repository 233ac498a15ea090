/* order.c - encodes a node's order (what the node must start) as bytes, and decodes it. */
#include "plan/order.h"

#include "ground/codes.h"

#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { TEXT, WHOLE, LARGE, FRACTION, FLAG } kind;

#define ORDER_TEXT(name)                                                                                               \
    {                                                                                                                  \
#name, TEXT, offsetof(cl_order, name), sizeof((cl_order *)0)->name                                             \
    }
#define ORDER(name, kind)                                                                                              \
    {                                                                                                                  \
#name, kind, offsetof(cl_order, name), 0                                                                       \
    }

static const struct {
    const char *name;
    kind kind;
    size_t offset, bytes;
} fields[] = {
    ORDER_TEXT(job),
    ORDER_TEXT(host),
    ORDER(attempt, WHOLE),
    ORDER(restarts, WHOLE),
    ORDER(max_restarts, WHOLE),
    ORDER(node_rank, WHOLE),
    ORDER(node_count, WHOLE),
    ORDER(first_rank, WHOLE),
    ORDER(rank_count, WHOLE),
    ORDER(world_size, WHOLE),
    ORDER(mesh_tp, WHOLE),
    ORDER(mesh_shard, WHOLE),
    ORDER_TEXT(master_addr),
    ORDER(master_port, WHOLE),
    ORDER_TEXT(master_if),
    ORDER_TEXT(workdir),
    ORDER_TEXT(log_dir),
    ORDER(log_max, LARGE),
    ORDER(bind, WHOLE),
    ORDER_TEXT(core_list),
    ORDER(oversubscribe, FLAG),
    ORDER(has_devices, FLAG),
    ORDER_TEXT(local_rank_flag),
    ORDER(grace_seconds, FRACTION),
    ORDER(dead_after, FRACTION),
    ORDER(stop_signal, WHOLE),
    ORDER_TEXT(key),
    ORDER(insecure, FLAG),
    ORDER(everywhere, FLAG),
    ORDER(verbose, FLAG),
    ORDER(columns, WHOLE),
    ORDER_TEXT(terminal),
    ORDER_TEXT(venv_script),
};
enum { FIELD_COUNT = (int)(sizeof fields / sizeof *fields), MAX_RANKS = 1 << 16 };

void cl_order_plan(cl_order *order, const cl_plan *plan, const ce_mesh *mesh, int index)
{
    const cl_plan_node *node = &plan->nodes[index];
    const char *list = plan->options->bind_core_list;
    *order = (cl_order){ .max_restarts = plan->options->max_restarts,
                         .node_rank = index,
                         .node_count = plan->node_count,
                         .first_rank = node->first_rank,
                         .rank_count = node->host->slot_count,
                         .slots = node->host->slots,
                         .world_size = plan->rank_count,
                         .mesh_tp = mesh->size[CE_AXIS_TP],
                         .mesh_shard = mesh->size[CE_AXIS_SHARD],
                         .master_port = cl_hostplan_ranks_port(plan),
                         .bind = plan->options->bind,
                         .oversubscribe = plan->options->oversubscribe,
                         .has_devices = plan->has_devices };
    snprintf(order->job, sizeof order->job, "%s", plan->id);
    snprintf(order->host, sizeof order->host, "%s", node->host->name);
    snprintf(order->core_list, sizeof order->core_list, "%s", list ? list : "");
}

static void put(FILE *out, const char *key, const char *value)
{
    fprintf(out, "%s%c%s%c", key, 0, value, 0);
}

static void put_number(FILE *out, const char *key, int number)
{
    fprintf(out, "%s%c%d%c", key, 0, number, 0);
}

static void put_field(FILE *out, const cl_order *order, int index)
{
    const void *at = (const char *)order + fields[index].offset;
    const char *name = fields[index].name;
    switch (fields[index].kind) {
    case TEXT:
        put(out, name, at);
        break;
    case WHOLE:
        put_number(out, name, *(const int *)at);
        break;
    case LARGE:
        fprintf(out, "%s%c%lld%c", name, 0, *(const long long *)at, 0);
        break;
    case FRACTION:
        fprintf(out, "%s%c%.17g%c", name, 0, *(const double *)at, 0);
        break;
    case FLAG:
        put_number(out, name, *(const bool *)at);
        break;
    }
}

char *cl_order_encode(const cl_order *order, size_t *length)
{
    char *bytes;
    FILE *out = ce_must_stream(&bytes, length);
    for (int i = 0; i < FIELD_COUNT; i++)
        put_field(out, order, i);
    for (int i = 0; i < order->rank_count; i++)
        put_number(out, "slot", order->slots[i]);
    for (int i = 0; i < order->node_count; i++)
        put_number(out, "place", order->places[i]);
    for (char **argument = order->arguments; *argument; argument++)
        put(out, "arg", *argument);
    for (char **variable = order->environment; *variable; variable++)
        put(out, "env", *variable);
    ce_must_finish(out);
    return bytes;
}

static bool read_field(cl_order *order, int index, const char *value)
{
    char *at = (char *)order + fields[index].offset, *end = NULL;
    switch (fields[index].kind) {
    case TEXT:
        snprintf(at, fields[index].bytes, "%s", value);
        return strlen(value) < fields[index].bytes;
    case WHOLE:
        *(int *)(void *)at = (int)strtol(value, &end, 10);
        break;
    case LARGE:
        *(long long *)(void *)at = strtoll(value, &end, 10);
        break;
    case FRACTION:
        *(double *)(void *)at = strtod(value, &end);
        break;
    case FLAG:
        *(bool *)at = strtol(value, &end, 10) != 0;
        break;
    }
    return end != value && *end == '\0';
}

typedef struct {
    int slots, places, arguments, variables; /* number of items of each list that were read so far */
} counts;

/* Reads an item of a list. Returns false if `key` is not the key of a list. */
static bool read_item(cl_order *order, const char *key, const char *value, counts *seen)
{
    if (strcmp(key, "slot") == 0 && seen->slots < order->rank_count)
        order->slots[seen->slots++] = atoi(value);
    else if (strcmp(key, "place") == 0 && seen->places < order->node_count)
        order->places[seen->places++] = atoi(value);
    else if (strcmp(key, "arg") == 0)
        order->arguments[seen->arguments++] = ce_must_copy(value);
    else if (strcmp(key, "env") == 0 && strchr(value, '='))
        order->environment[seen->variables++] = ce_must_copy(value);
    else
        return false;
    return true;
}

static bool read_pair(cl_order *order, const char *key, const char *value, counts *seen)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if (strcmp(fields[i].name, key) == 0)
            return read_field(order, i, value) && order->rank_count >= 0 && order->rank_count <= MAX_RANKS &&
                   order->node_count >= 0 && order->node_count <= MAX_RANKS;
    return read_item(order, key, value, seen);
}

/* Allocates the lists of the order. Every string takes at least one byte, so the number of items cannot exceed the
 * number of bytes. */
static void make_lists(cl_order *order, size_t length)
{
    size_t strings = length / 2 + 1;
    order->slots = ce_must_alloc(MAX_RANKS * sizeof *order->slots);
    order->places = ce_must_alloc(MAX_RANKS * sizeof *order->places);
    order->arguments = ce_must_alloc(strings * sizeof *order->arguments);
    order->environment = ce_must_alloc(strings * sizeof *order->environment);
}

int cl_order_decode(cl_order *order, const char *bytes, size_t length)
{
    counts seen = { 0 };
    *order = (cl_order){ 0 };
    if (length == 0 || bytes[length - 1] != '\0')
        return cl_codes_fail(CL_CODE_DISAGREE, "a message of %zu bytes from the first node is incomplete", length);
    make_lists(order, length);
    for (const char *key = bytes, *end = bytes + length; key < end;) {
        const char *value = key + strlen(key) + 1;
        if (value >= end || !read_pair(order, key, value, &seen))
            return cl_codes_fail(CL_CODE_DISAGREE,
                                 "a message from the first node contains \"%.40s\", which this version of cspeed "
                                 "does not know; install the same version on every host",
                                 key);
        key = value + strlen(value) + 1;
    }
    if (seen.slots != order->rank_count || seen.arguments == 0)
        return cl_codes_fail(CL_CODE_DISAGREE,
                             "a message from the first node names %d ranks with %d slots and %d arguments",
                             order->rank_count, seen.slots, seen.arguments);
    if (seen.places != order->node_count)
        return cl_codes_fail(CL_CODE_DISAGREE, "a message from the first node says %d nodes and names %d",
                             order->node_count, seen.places);
    return 0;
}

void cl_order_free_list(char **list)
{
    for (char **item = list; list && *item; item++)
        free(*item);
    free(list);
}

void cl_order_free(cl_order *order)
{
    free(order->slots);
    free(order->places);
    cl_order_free_list(order->arguments);
    cl_order_free_list(order->environment);
    *order = (cl_order){ 0 };
}
