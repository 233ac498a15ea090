/* start_message.c - the message at the start of a job. */
#include "front/start_message.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static void say_here(cl_front *front)
{
    const cl_plan *plan = front->plan;
    cl_output_say(&front->output, "cspeed %s  job %s  %d rank%s on this machine  master %s:%d%s%s", CS_VERSION,
                  plan->id, plan->rank_count, plural(plan->rank_count), front->master_addr, front->master_port,
                  *front->run_dir ? "  logs " : "", front->run_dir);
    cl_output_say(&front->output, "  %s%s",
                  plan->has_devices ? "" : "off CUDA a \"gpu\" slot is a CPU rank: ", front->nodes[0].seats);
}

static void say_table(cl_front *front)
{
    const cl_plan *plan = front->plan;
    cl_output_say(&front->output, "cspeed %s  job %s  %d nodes, %d ranks  master %s:%d%s%s", CS_VERSION, plan->id,
                  plan->node_count, plan->rank_count, front->master_addr, front->master_port,
                  *front->run_dir ? "  logs " : "", front->run_dir);
    cl_output_say(&front->output, "  node host             slots  ranks      cores");
    for (int i = 0; i < plan->node_count; i++) {
        char ranks[32];
        int from = plan->nodes[i].first_rank, count = plan->nodes[i].host->slot_count;
        snprintf(ranks, sizeof ranks, count == 1 ? "%d" : "%d-%d", from, from + count - 1);
        cl_output_say(&front->output, "  %-4d %-16s %-6d %-10s %s", i, front->nodes[i].host, count, ranks,
                      front->nodes[i].seats);
    }
}

void cl_start_message_print(cl_front *front)
{
    if (front->options->quiet)
        return;
    if (front->plan->node_count == 1 && front->nodes[0].here)
        say_here(front);
    else
        say_table(front);
    if (front->options->verbose)
        cl_output_say(&front->output, "  program %s, in %s, hosts from %s", front->plan->arguments[0],
                      front->plan->workdir, front->plan->hosts.origin);
}
