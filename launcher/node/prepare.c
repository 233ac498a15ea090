/* prepare.c - prepares an attempt on a node: work folder, program, cores, log files, master port. */
#include "node/agent.h"

#include "ground/codes.h"
#include "node/leftover.h"
#include "node/port.h"
#include "node/program.h"
#include "wire/rendezvous.h"
#include "wire/secret.h"
#include "base/must.h"
#include "base/names.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int enter_folder(const cl_order *order)
{
    if (chdir(order->workdir) == 0)
        return 0;
    return cl_codes_fail(CL_CODE_NO_FILE,
                         "%s: the working directory %s: %s; create it there, or name another with --workdir",
                         order->host, order->workdir, strerror(errno));
}

static int open_files(cl_agent *agent)
{
    const cl_order *order = &agent->order;
    char folder[PATH_MAX + 32];
    size_t count = (size_t)order->rank_count;
    agent->processes = ce_must_alloc(count * sizeof *agent->processes);
    agent->logs = ce_must_alloc(2 * count * sizeof *agent->logs);
    agent->tails = ce_must_alloc(count * sizeof *agent->tails);
    for (int i = 0; i < order->rank_count; i++)
        agent->processes[i] = (cl_process){ .outputs = { -1, -1 }, .beat_fd = -1 };
    snprintf(folder, sizeof folder, "%s/attempt_%d", order->log_dir, order->attempt);
    int code = *order->log_dir ? cl_logs_folder(folder) : 0;
    for (int i = 0; i < 2 * order->rank_count; i++) {
        int opened = cl_logs_open(&agent->logs[i], order, i / 2, i % 2);
        code = code ? code : opened;
    }
    return code;
}

static int hold_port(cl_agent *agent)
{
    *agent->interface = '\0';
    if (agent->order.node_rank != 0)
        return 0;
    const char *wanted = agent->order.master_if;
    if (*wanted && cl_rendezvous_interface(wanted, agent->interface, sizeof agent->interface))
        return CL_CODE_USAGE;
    return cl_port_hold(&(cl_port_wish){ .port = agent->order.master_port, .everywhere = agent->order.everywhere },
                        &agent->order.master_port, &agent->master_fd);
}

static int read_key(cl_agent *agent)
{
    const char *text = agent->order.key;
    agent->keyed = strlen(text) == 2 * CE_MAC_BYTES;
    for (int i = 0; agent->keyed && i < CE_MAC_BYTES; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return cl_codes_fail(CL_CODE_DISAGREE,
                                 "the key of the job in a message from the first node is not a hexadecimal number");
        agent->key[i] = (unsigned char)byte;
    }
    return agent->keyed ? 0 : cl_secret_ranks_key(agent->order.job, agent->key, &agent->keyed);
}

/* Ends leftover processes of jobs that were killed, because they may still use memory, ports and devices of this host.
 */
static void end_leftovers(cl_agent *agent)
{
    enum { SECONDS = 2 };
    ce_names names = { 0 };
    int count;
    CE_FREED cl_leftover *list = cl_leftover_find(&count);
    for (int i = 0; i < count; i++)
        ce_names_add(&names, "%d (%s)", list[i].pid, list[i].name);
    cl_leftover_signal(list, count, SIGKILL);
    int alive = count ? cl_leftover_await(list, count, SECONDS) : 0;
    if (count)
        cl_link_say(&agent->link, CL_LINK_SAY, 0,
                    "cspeed: %s: job %s and its agent were killed on this machine and had left %d process%s running: "
                    "%s; %s",
                    agent->order.host, list[0].job, count, count == 1 ? "" : "es", ce_names_text(&names),
                    alive ? "not all of them have ended after SIGKILL" : "ended by SIGKILL");
}

int cl_prepare(cl_agent *agent, const char *bytes, size_t length)
{
    int code = cl_order_decode(&agent->order, bytes, length);
    if (code == 0)
        end_leftovers(agent);
    if (code == 0)
        code = enter_folder(&agent->order);
    if (code == 0)
        code = cl_venv_read(&agent->order);
    if (code == 0)
        code = cl_program_find(agent->order.arguments[0], agent->program);
    if (code == 0)
        code = cl_bind_assign(&agent->binding, &agent->order);
    if (code == 0)
        code = open_files(agent);
    if (code == 0)
        code = hold_port(agent);
    return code ? code : read_key(agent);
}

void cl_prepare_undo(cl_agent *agent)
{
    for (int i = 0; agent->logs && i < 2 * agent->order.rank_count; i++)
        cl_logs_close(&agent->logs[i]);
    for (int i = 0; agent->processes && i < agent->order.rank_count; i++)
        cl_local_close(&agent->processes[i]);
    free(agent->processes);
    free(agent->logs);
    free(agent->tails);
    agent->processes = NULL;
    agent->logs = NULL;
    agent->tails = NULL;
    cl_port_release(&agent->master_fd);
    cl_bind_free(&agent->binding);
    cl_order_free(&agent->order);
    ce_mac_forget(agent->key, sizeof agent->key);
}
