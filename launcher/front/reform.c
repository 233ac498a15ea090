/* reform.c - forms a running elastic job again, with new nodes that came while its ranks ran.
 *
 * A new node waits until it may take part: for the time --last_call, or not at all if MAX nodes are present. The ranks
 * must also have run for that time, so that a node that comes and goes cannot end attempts more often. Then all ranks are
 * ended. If the program saves a checkpoint when it is asked to end (cs_save_asked), it has the time --rdzv_timeout for
 * this, if this is longer than the grace period. The next attempt begins with the nodes that are present.
 * The next attempt does not count for --max_restarts. */
#include "front/front.h"
#include "base/plural.h"

#include <signal.h>

/* Returns the earliest time at which the ranks may be ended so that the waiting nodes can take part. */
static int64_t due(const cl_front *front)
{
    int64_t last_call = ce_clock_span(front->options->last_call), earliest = front->ranks_began + last_call;
    bool full = cl_join_agents_there(front) >= front->plan->max_nodes;
    int64_t called = front->waiting_since + (full ? 0 : last_call);
    return called > earliest ? called : earliest;
}

/* The last progress record of rank 0 says whether the program saves on request, but the record may have been sent
 * before the program could report this. This function requests a new record, and returns true once the record has
 * arrived. */
static bool knows_whether_it_saves(cl_front *front, int64_t now)
{
    if (!front->beats_asked_at) {
        cl_nodes_tell(front, CL_LINK_PING, 0);
        front->beats_asked_at = now;
        front->deadline = INT64_MAX; /* the arrival of the record ends the wait */
    }
    return front->workers[0].heard_at > front->beats_asked_at;
}

/* Returns true if the program of the ranks answers the stop signal by a checkpoint (base/asked.h). */
static bool saves_before_the_end(const cl_front *front)
{
    int number = front->options->stop_signal;
    return front->workers[0].beat.saves && (number == SIGTERM || number == SIGINT || number == SIGHUP);
}

static void begin(cl_front *front, int64_t now)
{
    bool saves = saves_before_the_end(front);
    double grace = front->options->grace_seconds, longest = front->options->rdzv_timeout;
    int count = cl_join_agents_possible(front);
    cl_output_say(&front->output, "cspeed: job %s starts again with %d node%s instead of %d: its ranks %s",
                  front->plan->id, count, ce_plural(count), front->plan->node_count,
                  saves ? "save a checkpoint and end" : "are ended");
    front->reforming = true;
    cl_front_end_ranks(front, saves && grace < longest ? longest : grace, now);
}

/* Returns true if a rank has ended. The phase is CL_RUNNING, so the rank has ended with exit code 0, and the job is
 * about to end. */
static bool is_ending(const cl_front *front)
{
    for (int rank = 0; rank < front->worker_count; rank++)
        if (front->workers[rank].state == CL_WORKER_ENDED)
            return true;
    return false;
}

void cl_reform_check(cl_front *front, int64_t now)
{
    if (front->phase != CL_RUNNING)
        return;
    if (cl_join_agents_possible(front) <= front->plan->node_count || is_ending(front)) {
        front->waiting_since = front->beats_asked_at = 0;
        front->deadline = INT64_MAX;
        return;
    }
    front->waiting_since = front->waiting_since ? front->waiting_since : now;
    if (now < due(front))
        front->deadline = due(front);
    else if (knows_whether_it_saves(front, now))
        begin(front, now);
}
