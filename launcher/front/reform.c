/* reform.c - forms a running elastic job again, with new nodes that came while its ranks ran.
 *
 * A new node waits until it may take part: for the time --last_call, or not at all if MAX nodes are present. The ranks
 * must also have run for that time, so that a node that comes and goes cannot end attempts more often. Then the front
 * process asks rank 0 for a checkpoint, if the program saves on request (cs_save_asked). When the checkpoint is
 * complete, or after --rdzv_timeout, all ranks are ended, and the next attempt begins with the nodes that are present.
 * The next attempt does not count for --max_restarts. */
#include "front/front.h"
#include "base/plural.h"

#define SECOND INT64_C(1000000000)
#define ASK_EVERY (SECOND / 10)

static int64_t seconds(double count)
{
    return (int64_t)(count * (double)SECOND);
}

/* Returns the earliest time at which the ranks may be ended so that the waiting nodes can take part. */
static int64_t due(const cl_front *front)
{
    int64_t last_call = seconds(front->options->last_call), earliest = front->ranks_began + last_call;
    bool full = cl_join_agents_there(front) >= front->plan->max_nodes;
    int64_t called = front->waiting_since + (full ? 0 : last_call);
    return called > earliest ? called : earliest;
}

static void stop(cl_front *front, int64_t now)
{
    front->reforming = true;
    cl_front_stop(front, now);
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

/* Asks rank 0 for a checkpoint. If the program does not save on request, ends the ranks at once. */
static void begin(cl_front *front, int64_t now)
{
    bool saves = front->workers[0].beat.saves;
    cl_output_say(&front->output, "cspeed: job %s starts again with %d node%s instead of %d: its ranks %s",
                  front->plan->id, cl_join_agents_possible(front), ce_plural(cl_join_agents_possible(front)),
                  front->plan->node_count, saves ? "save a checkpoint and are ended then" : "are ended");
    if (!saves) {
        stop(front, now);
        return;
    }
    front->save_asked_at = now;
    front->kept_before_asking = cl_workers_kept(front);
    cl_link_send(&front->nodes[front->workers[0].node].link, CL_LINK_SAVE, 0, NULL, 0);
    front->deadline = now + ASK_EVERY;
}

static void await_checkpoint(cl_front *front, int64_t now)
{
    bool late = now >= front->save_asked_at + seconds(front->options->rdzv_timeout);
    if (late)
        cl_output_say(&front->output, "cspeed: no checkpoint was complete within %.0f s (--rdzv_timeout)",
                      front->options->rdzv_timeout);
    if (late || cl_workers_kept(front) > front->kept_before_asking) {
        stop(front, now);
    } else if (now >= front->deadline) {
        /* each agent answers with progress records, which name the newest checkpoint */
        cl_nodes_tell(front, CL_LINK_PING, 0);
        front->deadline = now + ASK_EVERY;
    }
}

/* Cancels the plan to form the job again, because the new nodes have gone or the job is about to end. */
static void call_off(cl_front *front)
{
    if (front->save_asked_at)
        cl_output_say(&front->output, "cspeed: job %s goes on as it is", front->plan->id);
    front->waiting_since = front->beats_asked_at = front->save_asked_at = 0;
    front->deadline = INT64_MAX;
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
        call_off(front);
        return;
    }
    front->waiting_since = front->waiting_since ? front->waiting_since : now;
    if (front->save_asked_at)
        await_checkpoint(front, now);
    else if (now < due(front))
        front->deadline = due(front);
    else if (knows_whether_it_saves(front, now))
        begin(front, now);
}
