/* agent_messages.c - composes the messages of an agent to the front process: HELLO, BEATS, ENDED and others. */
#include "node/agent.h"

#include "ground/command.h"

#include "node/proc.h"

#include "base/cgroup.h"
#include "base/must.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAIL_LINES = 20 };

static void put(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=%s", name, value);
    fputc('\0', out);
}

/* Writes into HELLO the address of this host and the address of the front process's host, if an SSH connection started
 * this agent. The variable SSH_CONNECTION contains the client's address and port, then the server's address and port.
 * Both addresses are known to be reachable, because the connection uses them. */
static void put_addresses(FILE *out)
{
    const char *connection = getenv("SSH_CONNECTION");
    char client[64], server[64];
    if (!connection || sscanf(connection, "%63s %*s %63s", client, server) != 2)
        return;
    put(out, "front_address", client);
    put(out, "own_address", server);
}

void cl_agent_send_hello(cl_agent *agent)
{
    char host[256] = "", number[32];
    CE_FREED char *bytes = NULL;
    size_t length;
    FILE *out = ce_must_stream(&bytes, &length);
    gethostname(host, sizeof host - 1);
    snprintf(number, sizeof number, "%d", getpid());
    put(out, "version", CS_VERSION);
    put(out, "commit", cl_commit);
    put(out, "edition", CL_LINK_EDITION);
    put(out, "host", host);
    put(out, "pid", number);
    put_addresses(out);
    ce_must_finish(out);
    cl_link_send(&agent->link, CL_LINK_HELLO, 0, bytes, length);
}

void cl_agent_send_failed(cl_agent *agent, int code)
{
    cl_link_say(&agent->link, CL_LINK_FAILED, (uint32_t)code, "%s", cs_error());
    ce_clear_error();
}

static cl_link_beat beat_of(const cl_agent *agent, int local, int64_t now)
{
    ce_beat *beat = agent->processes[local].beat;
    int64_t since = atomic_load(&beat->since);
    cl_proc process = { 0 };
    if (agent->processes[local].alive)
        cl_proc_read(agent->processes[local].pid, &process);
    cl_link_beat copy = { .rank = agent->order.first_rank + local,
                          .halted = process.halted,
                          .age = since ? now - since : -1,
                          .step = since ? atomic_load(&beat->step) : -1,
                          .kept = atomic_load(&beat->kept),
                          .phase = atomic_load(&beat->phase),
                          .unit = atomic_load(&beat->unit),
                          .micro = atomic_load(&beat->micro),
                          .gave_up = atomic_load(&beat->gave_up),
                          .saves = atomic_load(&beat->saves) };
    for (int axis = 0; axis < CE_BEAT_AXES; axis++)
        copy.collectives[axis] = atomic_load(&beat->collectives[axis]);
    memcpy(copy.name, beat->name, sizeof copy.name);
    return copy;
}

void cl_agent_send_beats(cl_agent *agent, int64_t now)
{
    /* before the phase CL_AGENT_RUNNING there are no ranks */
    int count = agent->phase >= CL_AGENT_RUNNING ? agent->order.rank_count : 0;
    CE_FREED cl_link_beat *beats = calloc((size_t)count + 1, sizeof *beats);
    if (!beats)
        return;
    for (int i = 0; i < count; i++)
        beats[i] = beat_of(agent, i, now);
    cl_link_send(&agent->link, CL_LINK_BEATS, 0, beats, (size_t)count * sizeof *beats);
}

void cl_agent_send_ended(cl_agent *agent, int local, int64_t now)
{
    const cl_process *process = &agent->processes[local];
    struct {
        cl_link_end end;
        char tail[CL_TAIL_BYTES];
    } message;
    message.end = (cl_link_end){ .status = process->status,
                                 .stopped = process->stopped,
                                 .age = now - process->ended,
                                 .oom_from = agent->oom_kills,
                                 .oom_to = ce_cgroup_oom_kills(),
                                 .beat = beat_of(agent, local, now) };
    size_t length = cl_tail_copy(&agent->tails[local], TAIL_LINES, message.tail);
    cl_link_send(&agent->link, CL_LINK_ENDED, (uint32_t)(agent->order.first_rank + local), &message,
                 sizeof message.end + length);
}

void cl_agent_send_stack(cl_agent *agent, int rank)
{
    int local = rank - agent->order.first_rank;
    if (!agent->processes || local < 0 || local >= agent->order.rank_count || !agent->processes[local].alive)
        return;
    CE_FREED char *text = cl_stack_text(&agent->processes[local]);
    cl_link_say(&agent->link, CL_LINK_STACKED, (uint32_t)rank, "%s", text);
}
