/* join_agents.c - the agents join: they are started or accepted, and the plan is reduced to the nodes that are present.
 */
#include "front/front.h"

#include "base/plural.h"
#include "node/agent.h"
#include "ground/codes.h"
#include "wire/starter.h"
#include "plan/world_sizes.h"

#include "base/must.h"
#include "base/status.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REMIND_EVERY (10 * CE_SECOND)

static bool is_there(const cl_node *node)
{
    return node->state >= CL_NODE_JOINED && node->state != CL_NODE_LOST;
}

void cl_join_agents_open(cl_front *front)
{
    cl_plan *plan = front->plan;
    /* all nodes must have the same digest, so the digest is computed before the plan is reduced */
    front->digest = cl_hostplan_digest(plan);
    front->node_total = plan->node_count;
    front->nodes = ce_must_alloc((size_t)plan->node_count * sizeof *front->nodes);
    for (int i = 0; i < plan->node_count; i++) {
        cl_node *node = &front->nodes[i];
        node->place = (int)(plan->nodes[i].host - plan->hosts.list);
        node->here = plan->nodes[i].here;
        snprintf(node->host, sizeof node->host, "%s", plan->nodes[i].host->name);
    }
}

/* Closes, in the agent of this machine, what belongs to the front process. Otherwise, when the front process closes a
 * link, the connection would stay open and the node would not notice. */
static void release(void *owner)
{
    cl_front *front = owner;
    for (int i = 0; i < front->node_total; i++)
        cl_link_close(&front->nodes[i].link);
    cl_registry_forget(&front->registry);
    cl_rendezvous_close(front->rendezvous);
}

static int call_remote(cl_front *front, cl_node *node)
{
    cl_channel channel;
    int code = cl_remote_open(&channel, &front->plan->hosts.list[node->place], front->options);
    if (code)
        return code;
    node->pid = channel.pid;
    cl_link_open(&node->link, channel.fd, channel.fd, NULL, false);
    return 0;
}

static int call(cl_front *front, cl_node *node, int64_t now)
{
    cl_link_close(&node->link);
    if (node->pid > 0 && !node->here)
        /* ends the process that carried the previous connection to this node, if that process still runs */
        kill(node->pid, SIGTERM);
    node->pid = 0;
    node->left_count = 0;
    node->shown = 0;
    node->ran = false;
    node->leaves = 0;
    node->state = CL_NODE_ABSENT;
    if (front->rendezvous && !node->here)
        return 0; /* this node connects by itself */
    int code =
        node->here ? cl_agent_start(&node->pid, &node->link, front->guard, release, front) : call_remote(front, node);
    node->state = CL_NODE_CALLED;
    node->link.heard = now;
    return code;
}

/* Returns true for a node that has connected by itself and whose agent has not sent HELLO yet. Such a node is not
 * called again, because call() would close its link, and the node would then end. */
static bool is_coming(const cl_front *front, const cl_node *node)
{
    return front->rendezvous && !node->here && node->state == CL_NODE_CALLED && cl_link_is_open(&node->link);
}

bool cl_join_agents_is_elastic(const cl_front *front)
{
    return front->plan->min_nodes < front->plan->max_nodes;
}

/* Returns true if an elastic job goes on without the nodes that it calls by SSH and that signals have asked to end. */
static bool spares_leaving(const cl_front *front)
{
    int others = 0;
    for (int i = 0; i < front->node_total; i++)
        others += !front->nodes[i].leaves;
    return cl_join_agents_is_elastic(front) && !front->rendezvous && others >= front->plan->min_nodes;
}

int cl_join_agents_call(cl_front *front, int64_t now)
{
    int code = 0;
    bool spares = spares_leaving(front);
    for (int i = 0; i < front->node_total && code == 0; i++) {
        cl_node *node = &front->nodes[i];
        if (node->state == CL_NODE_SWEPT)
            node->state = CL_NODE_JOINED; /* this agent has finished the previous attempt and is still connected */
        if (!is_there(node) && !is_coming(front, node) && !(spares && node->leaves))
            code = call(front, node, now);
    }
    front->joining_since = now;
    front->enough_at = front->reminded_at = 0;
    if (code == 0 && front->plan->launcher >= CL_BY_OPENMPI && front->attempt == 0)
        code = cl_starter_open(&front->starter, front->plan, cl_rendezvous_port(front->rendezvous));
    return code;
}

/* ---- the rendezvous port ---- */

static cl_node *find_place(cl_front *front, const cl_joined_node *joined)
{
    for (int i = 0; i < front->node_total; i++) {
        cl_node *node = &front->nodes[i];
        if (joined->node_rank < 0 ? !node->here && !cl_link_is_open(&node->link) : node->place == joined->node_rank)
            return node;
    }
    return NULL;
}

/* Returns true while the ranks may listen on the port to which nodes connect: from the time when the orders are sent
 * until all nodes have ended their processes. */
static bool port_is_shared(const cl_front *front)
{
    return cl_hostplan_ranks_port(front->plan) != 0 && front->phase >= CL_ORDERING && front->phase <= CL_STOPPING;
}

/* Returns true if the job can still accept a node that connects by itself. */
static bool has_place(const cl_front *front)
{
    for (int i = 0; i < front->node_total; i++)
        if (!front->nodes[i].here && !cl_link_is_open(&front->nodes[i].link))
            return true;
    return false;
}

void cl_join_agents_dismiss(cl_link *link, int code, const char *why)
{
    cl_link_say(link, CL_LINK_FINISH, (uint32_t)code, "cspeed: %s\n", why);
    cl_link_flush(link);
    cl_link_close(link);
}

void cl_join_agents_say_leaving(const cl_node *node, char why[512])
{
    snprintf(why, 512, "node %d (%s) was asked to end by %s", node->place, node->host,
             cl_codes_signal_name(node->leaves));
}

void cl_join_agents_let_go(cl_node *node)
{
    char why[512];
    cl_join_agents_say_leaving(node, why);
    cl_join_agents_dismiss(&node->link, CL_CODE_SIGNAL + node->leaves, why);
    node->state = CL_NODE_LOST;
}

static void say_difference(const cl_front *front, const cl_node *node, const cl_joined_node *joined, char *why,
                           size_t capacity)
{
    int ranks = front->plan->hosts.list[node->place].slot_count;
    if (joined->ranks && joined->ranks != ranks)
        snprintf(why, capacity,
                 "node %d (%s) was started with %d rank%s, but the first node expects %d; --nproc_per_node and the "
                 "hostfile must be the same on every node (a hostfile may give each host its own slots)",
                 node->place, joined->host, joined->ranks, ce_plural(joined->ranks), ranks);
    else
        snprintf(why, capacity,
                 "node %d (%s) was started with another hostfile, program or version than this one; start the same "
                 "command on every node (`cspeed plan` prints what a node will start)",
                 node->place, joined->host);
}

static void admit(cl_front *front, const cl_joined_node *joined, int64_t now)
{
    char why[512];
    cl_link link;
    cl_node *node = find_place(front, joined);
    cl_link_open(&link, joined->fd, joined->fd, joined->sealed ? joined->key : NULL, false);
    link.heard = now;
    if (!node || cl_link_is_open(&node->link) || node->here) {
        snprintf(why, sizeof why, "job %s cannot accept %s as node %d: %s", front->plan->id, joined->host,
                 joined->node_rank,
                 node ? "a node with this number has joined already" : "the job has no node with this number");
        cl_join_agents_dismiss(&link, CL_CODE_DISAGREE, why);
        cl_output_say(&front->output, "cspeed: refused: %s", why);
        return;
    }
    if (joined->digest != front->digest) {
        say_difference(front, node, joined, why, sizeof why);
        cl_join_agents_dismiss(&link, CL_CODE_DISAGREE, why);
        if (front->phase == CL_JOINING && front->attempt == 0)
            cl_front_fail(front, (int)(node - front->nodes), CL_CODE_DISAGREE, why);
        else
            cl_output_say(&front->output, "cspeed: refused: %s", why); /* the job runs without this node */
        return;
    }
    node->link = link;
    node->leaves = 0;
    node->state = CL_NODE_CALLED; /* the agent of the node has not sent HELLO yet */
    memcpy(node->own_address, joined->own_address, sizeof node->own_address);
    memcpy(node->front_address, joined->front_address, sizeof node->front_address);
}

void cl_join_agents_admit(cl_front *front, int64_t now)
{
    cl_joined_node joined;
    if (!front->rendezvous)
        return;
    cl_rendezvous_listen(front->rendezvous, has_place(front) && !port_is_shared(front));
    int code = cl_rendezvous_accept(front->rendezvous);
    if (code && front->phase == CL_JOINING)
        cl_front_fail(front, -1, code, cs_error());
    while (cl_rendezvous_advance(front->rendezvous, &joined))
        admit(front, &joined, now);
    for (const char *report; (report = cl_rendezvous_report(front->rendezvous));)
        cl_output_say(&front->output, "cspeed: %s", report);
}

/* ---- choosing the nodes that take part ---- */

int cl_join_agents_there(const cl_front *front)
{
    int count = 0;
    for (int i = 0; i < front->node_total; i++)
        count += is_there(&front->nodes[i]);
    return count;
}

/* Moves the nodes that are present to the beginning of the list; their order does not change. */
static void sort_nodes(cl_front *front)
{
    for (int to = 0, from = 0; from < front->node_total; from++) {
        if (!is_there(&front->nodes[from]))
            continue;
        cl_node node = front->nodes[from];
        memmove(&front->nodes[to + 1], &front->nodes[to], (size_t)(from - to) * sizeof node);
        front->nodes[to++] = node;
    }
}

bool cl_join_agents_is_new(const cl_front *front, int node)
{
    return cl_join_agents_is_elastic(front) && front->rendezvous && front->attempt > 0 && !front->nodes[node].ran;
}

/* Adds up the slots of the nodes that are present, in order. Returns the largest number of nodes, at least MIN, for
 * which the sum is a world size that the configuration allows; 0: there is no such number. */
int cl_join_agents_possible(const cl_front *front)
{
    const cl_plan *plan = front->plan;
    int there = 0, ranks = 0, count = 0;
    for (int i = 0; i < front->node_total; i++) {
        if (!is_there(&front->nodes[i]))
            continue;
        there++;
        ranks += plan->hosts.list[front->nodes[i].place].slot_count;
        if (there >= plan->min_nodes && cl_world_sizes_allow(&front->world_sizes, ranks))
            count = there;
    }
    return count;
}

int *cl_join_agents_places(const cl_front *front, int count)
{
    int *places = ce_must_alloc((size_t)count * sizeof *places);
    for (int i = 0; i < count; i++)
        places[i] = front->nodes[i].place;
    return places;
}

/* Reduces the plan to the nodes that are present, and uses as many of them as the configuration allows. Returns
 * false if it allows no number of these nodes. */
static bool cut_plan(cl_front *front)
{
    cl_plan *plan = front->plan;
    int before = plan->rank_count, count = cl_join_agents_possible(front);
    if (count == 0)
        return false;
    sort_nodes(front);
    CE_FREED int *places = cl_join_agents_places(front, count);
    int code = cl_hostplan_cut(plan, places, count);
    if (code)
        cl_front_fail(front, -1, code, cs_error());
    else if (plan->rank_count != before)
        cl_output_say(&front->output, "cspeed: %d of %d nodes take part: world size %d -> %d", count, front->node_total,
                      before, plan->rank_count);
    return code == 0;
}

bool cl_join_agents_answered(const cl_front *front)
{
    for (int i = 0; i < front->node_total; i++)
        if (front->nodes[i].state < CL_NODE_JOINED)
            return false;
    return true;
}

bool cl_join_agents_complete(cl_front *front, int64_t now)
{
    const cl_plan *plan = front->plan;
    int there = cl_join_agents_there(front);
    if (!cl_join_agents_is_elastic(front))
        return there == front->node_total;
    if (there < plan->min_nodes)
        return false;
    front->enough_at = front->enough_at ? front->enough_at : now;
    bool waited = front->called_already || now - front->enough_at >= ce_clock_span(front->options->last_call);
    if (there < plan->max_nodes && !waited && !cl_join_agents_answered(front))
        return false;
    return cut_plan(front);
}

void cl_join_agents_list_missing(const cl_front *front, ce_names *missing)
{
    for (int i = 0; i < front->node_total; i++)
        if (!is_there(&front->nodes[i]))
            ce_names_add(missing, "node %d (%s)", front->nodes[i].place, front->nodes[i].host);
    if (missing->count == 0)
        ce_names_add(missing, "a number of nodes whose world size %s allows",
                     cl_world_sizes_limit(&front->world_sizes));
}

/* Says what a node that the job waits for is doing, as far as the front process knows. */
static const char *phase_of(const cl_front *front, const cl_node *node)
{
    if (is_there(node))
        return "makes ready its folder, program, cores and files";
    if (node->state == CL_NODE_LOST)
        return node->leaves ? "has left" : "was lost";
    if (node->state == CL_NODE_ABSENT)
        return front->plan->launcher >= CL_BY_OPENMPI ? "has not been started by mpirun or srun yet"
                                                      : "has not called yet";
    return node->here || front->rendezvous ? "starts its agent" : "is being called over SSH";
}

/* Returns true if the job waits until this node joins, or until this node is ready after all nodes have joined. */
static bool is_awaited(const cl_front *front, int index)
{
    const cl_node *node = &front->nodes[index];
    return front->phase == CL_JOINING ? !is_there(node)
                                      : index < front->plan->node_count && node->state < CL_NODE_READY;
}

/* Lists the nodes that the job waits for: "node 1 (b), which has not called yet, node 2 (c), which ...". */
static void list_awaited(const cl_front *front, ce_names *awaited)
{
    for (int i = 0; i < front->node_total; i++)
        if (is_awaited(front, i))
            ce_names_add(awaited, "node %d (%s), which %s", front->nodes[i].place, front->nodes[i].host,
                         phase_of(front, &front->nodes[i]));
    if (awaited->count == 0)
        cl_join_agents_list_missing(front, awaited);
}

void cl_join_agents_remind(cl_front *front, int64_t now)
{
    ce_names awaited = { .most = 5 };
    if (now - (front->reminded_at ? front->reminded_at : front->joining_since) < REMIND_EVERY)
        return;
    front->reminded_at = now;
    list_awaited(front, &awaited);
    cl_output_say(&front->output, "cspeed: job %s waits for %s; it has waited for %ld s of %.0f (--rdzv_timeout)",
                  front->plan->id, ce_names_text(&awaited), (now - front->joining_since) / CE_SECOND,
                  front->options->rdzv_timeout);
}
