/* retry.c - decides whether another attempt follows or the job ends. */
#include "front/front.h"

#include "ground/codes.h"
#include "front/failure.h"

#include <stdlib.h>
#include <string.h>

#define EARLY (30 * CE_SECOND)

/* Returns true if --restart_on names this exit code. */
static bool is_named(const char *codes, int code)
{
    if (!codes || strcmp(codes, "any") == 0)
        return true;
    for (const char *at = codes; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (atoi(at) == code)
            return true;
    return false;
}

static bool has_progressed(const cl_front *front)
{
    for (int rank = 0; rank < front->worker_count; rank++) /* while agents are joining, worker_count is 0 */
        if (front->workers[rank].beat.step > front->steps_before)
            return true;
    return false;
}

static int64_t last_step(const cl_front *front)
{
    int64_t step = front->steps_before;
    for (int rank = 0; rank < front->worker_count; rank++)
        if (front->workers[rank].beat.step > step)
            step = front->workers[rank].beat.step;
    return step;
}

static void remember(cl_front *front)
{
    front->steps_before = last_step(front);
    front->kept_before = cl_workers_kept(front);
}

/* Returns true if all ranks exited with code 0 before the front process asked them to end. */
static bool is_finished(const cl_front *front)
{
    for (int rank = 0; rank < front->worker_count; rank++) {
        const cl_worker *worker = &front->workers[rank];
        if (worker->state != CL_WORKER_ENDED || worker->end.status != 0 || worker->end.stopped)
            return false;
    }
    return true;
}

/* Returns true if the next attempt does not count as a restart: the ranks were ended in favour of new nodes, or a new
 * node was lost, or asked to end, before the ranks of this attempt were started. */
static bool is_free(const cl_front *front)
{
    bool lost = front->first_node >= 0 && !front->ranks_began &&
                (front->code == CL_CODE_PEER || front->nodes[front->first_node].leaves);
    return front->reforming ? !is_finished(front) : lost && cl_join_agents_is_new(front, front->first_node);
}

/* Returns true if a node is missing that nothing starts again: mpirun and srun start each agent once. */
static bool lacks_a_node(const cl_front *front)
{
    bool lacks = false;
    for (int i = 0; i < front->node_total; i++)
        lacks |= front->nodes[i].leaves || (front->nodes[i].state == CL_NODE_LOST && !front->nodes[i].here);
    return lacks && front->plan->launcher >= CL_BY_OPENMPI && !cl_join_agents_is_elastic(front);
}

bool cl_retry_wanted(cl_front *front, int64_t now)
{
    const cl_options *options = front->options;
    int code = cl_front_code(front), max = options->max_restarts;
    if (front->signal || front->timed_out || front->last)
        return false;
    if (is_free(front)) {
        remember(front);
        return front->called_already = true;
    }
    if (code == 0 || front->restarts >= max || lacks_a_node(front))
        return false;
    if (cl_failure_is_explained(front) || !is_named(options->restart_on, code))
        return false; /* no other attempt: it would end in the same way, or --restart_on excludes this exit code */
    bool early = front->first_node < 0 && now - front->attempt_began < EARLY && !has_progressed(front);
    front->short_failures = early ? front->short_failures + 1 : 0;
    remember(front);
    if (front->short_failures < 2) {
        front->restarts++;
        return true;
    }
    cl_output_say(&front->output,
                  "cspeed: two attempts in a row have ended within %ld s without a step, so the job is not started "
                  "again",
                  EARLY / CE_SECOND);
    return false;
}
