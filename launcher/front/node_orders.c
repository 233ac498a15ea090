/* node_orders.c - the messages ORDER (what to run) and START (the master's address) to the agents. */
#include "front/front.h"

#include "ground/codes.h"
#include "plan/order.h"

#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns a malloc'ed list of the environment variables for a host: first the variables for all nodes, then the
 * variables in the host's line of the hostfile, last CSPEED_HOST_RANKS. A variable in the host's line overrides a
 * variable for all nodes. */
static char **make_environment(const cl_plan *plan, const cl_host *host)
{
    int host_count = 0;
    while (host->env && host->env[host_count])
        host_count++;
    char **list = ce_must_alloc(((size_t)(plan->env.count + host_count) + 2) * sizeof *list), **end = list;
    CE_FREED char *ranks = cl_hostplan_host_ranks(plan);
    for (int i = 0; i < plan->env.count; i++)
        *end++ = ce_must_print("%s=%s", plan->env.list[i].name, plan->env.list[i].value);
    for (int i = 0; i < host_count; i++)
        *end++ = ce_must_copy(host->env[i]);
    *end = ce_must_print(CL_HOST_RANKS "=%s", ranks);
    return list;
}

static void write_key(const cl_front *front, char text[65])
{
    text[0] = '\0';
    /* The link of a node that connects by itself is signed but not encrypted, so the key is not sent over this link. */
    for (int i = 0; !front->rendezvous && i < CE_MAC_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", front->key[i]);
}

static void set_text(char *field, size_t bytes, const char *text)
{
    snprintf(field, bytes, "%s", text ? text : "");
}

static long long read_size(const char *text)
{
    static const char units[] = "kmgt";
    char *end;
    long long size = text ? strtoll(text, &end, 10) : 0;
    const char *unit = text && *end ? strchr(units, *end | 0x20) : NULL;
    for (long i = unit ? unit - units + 1 : 0; i > 0; i--)
        size <<= 10;
    return size;
}

/* Returns true if ranks need another address than the loopback address to reach rank 0. */
static bool is_reached_from_outside(const cl_front *front)
{
    const char *given = front->plan->master_addr;
    if ((*given && strcmp(given, "127.0.0.1") != 0) || front->options->master_if)
        return true;
    for (int i = 0; i < front->plan->node_count; i++)
        if (!front->nodes[i].here)
            return true;
    return false;
}

static void fill_order(const cl_front *front, const ce_mesh *mesh, int index, cl_order *order)
{
    const cl_options *options = front->options;
    const cl_plan *plan = front->plan;
    cl_order_plan(order, plan, mesh, index);
    order->attempt = front->attempt;
    order->restarts = front->restarts;
    order->arguments = plan->arguments;
    order->log_max = read_size(options->log_max);
    order->grace_seconds = options->grace_seconds;
    order->dead_after = front->nodes[index].here ? 0 : options->dead_after;
    order->stop_signal = options->stop_signal;
    order->insecure = options->insecure_join;
    order->everywhere = is_reached_from_outside(front);
    order->verbose = options->verbose;
    order->columns = cl_output_columns(&front->output, order->terminal);
    set_text(order->workdir, sizeof order->workdir, plan->workdir);
    set_text(order->log_dir, sizeof order->log_dir, front->run_dir);
    set_text(order->master_if, sizeof order->master_if, index == 0 ? options->master_if : NULL);
    set_text(order->local_rank_flag, sizeof order->local_rank_flag, options->local_rank_flag);
    set_text(order->venv_script, sizeof order->venv_script, options->venv_script);
    write_key(front, order->key);
}

int cl_node_orders_send(cl_front *front)
{
    ce_mesh mesh = cl_mesh_find(front->plan);
    int code = cl_staging_send(front);
    CE_FREED int *places = cl_join_agents_places(front, front->plan->node_count);
    if (front->rendezvous && cl_hostplan_ranks_port(front->plan))
        cl_rendezvous_share_port(front->rendezvous);
    for (int i = 0; i < front->plan->node_count && code == 0; i++) {
        cl_order order;
        size_t length;
        fill_order(front, &mesh, i, &order);
        order.places = places;
        order.environment = make_environment(front->plan, front->plan->nodes[i].host);
        CE_FREED char *bytes = cl_order_encode(&order, &length);
        cl_link_send(&front->nodes[i].link, CL_LINK_ORDER, 0, bytes, length);
        cl_order_free_list(order.environment);
    }
    return code;
}

/* Chooses the master address: the first of the following that is known. The address that the user gave; the address of
 * the interface that --master_if names; if the first node is this machine, the address of this machine to which another
 * node has connected; if the first node is another machine, the address at which that machine was reached, or else the
 * machine's name; 127.0.0.1. */
static void choose_master(cl_front *front)
{
    const cl_node *first = &front->nodes[0];
    const char *chosen = front->plan->master_addr;
    for (int i = 1; !*chosen && first->here && i < front->plan->node_count; i++)
        chosen = front->nodes[i].here ? "" : front->nodes[i].front_address;
    if (!*front->plan->master_addr && *first->interface)
        chosen = first->interface;
    if (!*chosen && !first->here)
        chosen = *first->own_address ? first->own_address : first->host;
    set_text(front->master_addr, sizeof front->master_addr, *chosen ? chosen : "127.0.0.1");
}

void cl_node_orders_start(cl_front *front)
{
    char text[sizeof front->master_addr + 16];
    choose_master(front);
    int length = snprintf(text, sizeof text, "%s%c%d", front->master_addr, 0, front->master_port) + 1;
    for (int i = 0; i < front->plan->node_count; i++) {
        cl_link_send(&front->nodes[i].link, CL_LINK_START, 0, text, (size_t)length);
        front->nodes[i].state = CL_NODE_RUNNING;
        front->nodes[i].ran = true;
    }
}
