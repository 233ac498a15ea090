/* workers.c - the ranks of a job: handles the messages about ranks, and finds the rank that caused a failure. */
#include "front/front.h"

#include "ground/codes.h"

#include "base/must.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define SETTLE (CE_SECOND / 5)
/* Nanoseconds to wait after a rank has failed with an error that every rank finds (cl_workers_explained). In this time
 * the other ranks exit with the same error, and the report then names the lowest rank. */
#define EXPLAIN (2 * CE_SECOND)

int cl_workers_make(cl_front *front)
{
    const cl_plan *plan = front->plan;
    cl_workers_free(front);
    front->workers = ce_must_alloc((size_t)plan->rank_count * sizeof *front->workers);
    front->worker_count = plan->rank_count;
    for (int i = 0; i < plan->node_count; i++)
        for (int local = 0; local < plan->nodes[i].host->slot_count; local++) {
            front->workers[plan->nodes[i].first_rank + local].node = i;
            front->workers[plan->nodes[i].first_rank + local].beat = (cl_link_beat){ .step = -1, .age = -1 };
        }
    return cl_output_rank(&front->output);
}

void cl_workers_free(cl_front *front)
{
    for (int i = 0; i < front->worker_count; i++) {
        free(front->workers[i].tail);
        free(front->workers[i].stack);
    }
    free(front->workers);
    front->workers = NULL;
    front->worker_count = 0;
}

/* ---- finding the cause of a failure ---- */

bool cl_workers_failed(const cl_front *front, int rank)
{
    const cl_worker *worker = &front->workers[rank];
    int status = worker->end.status;
    if (worker->state != CL_WORKER_ENDED || status == 0)
        return false;
    if (!worker->end.stopped || cl_codes_of_status(status) == CL_CODE_PEER)
        return true;
    /* A signal from outside cspeed may have reached the rank before the signal that cspeed sent. */
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return number && number != SIGKILL && number != front->options->stop_signal;
}

bool cl_workers_explained(const cl_front *front, int rank)
{
    const cl_link_end *end = &front->workers[rank].end;
    return cl_codes_explained(cl_codes_of_status(end->status)) || end->beat.gave_up;
}

static bool has_lost_a_peer(const cl_front *front, int rank)
{
    return cl_codes_of_status(front->workers[rank].end.status) == CL_CODE_PEER;
}

/* Returns true if it is known why the rank ended: a signal ended it, or it wrote a message to stderr. */
static bool has_reason(const cl_front *front, int rank)
{
    const cl_worker *worker = &front->workers[rank];
    return WIFSIGNALED(worker->end.status) || (worker->tail && *worker->tail);
}

/* Returns the rank that failed first, or -1 if no rank fits the arguments. If `lost` is true, only ranks that lost a
 * peer are considered; otherwise, only ranks that lost no peer. If `with_reason` is true, it must be known why the rank
 * ended. The rank must have ended by the time `until`. */
static int find_first(const cl_front *front, bool lost, bool with_reason, int64_t until)
{
    int first = -1;
    for (int rank = 0; rank < front->worker_count; rank++) {
        int64_t ended = front->workers[rank].ended;
        if (cl_workers_failed(front, rank) && has_lost_a_peer(front, rank) == lost && ended <= until &&
            (!with_reason || has_reason(front, rank)) && (first < 0 || ended < front->workers[first].ended))
            first = rank;
    }
    return first;
}

/* Returns the rank that caused the failure, or -1 if no rank has failed. It is the rank that failed first, with two
 * exceptions. A rank that lost a peer is returned only if no other kind of failure exists. If it is not known why the
 * first rank ended, a rank is returned that ended at about the same time and for a known reason. The result does not
 * depend on the order in which the ends of the ranks were reported. */
static int find_cause(const cl_front *front)
{
    int first = find_first(front, false, false, INT64_MAX);
    bool lost = first < 0;
    first = lost ? find_first(front, true, false, INT64_MAX) : first;
    if (first < 0)
        return -1;
    int explained = find_first(front, lost, true, front->workers[first].ended + SETTLE);
    first = explained < 0 ? first : explained;
    for (int rank = 0; rank < first && cl_workers_explained(front, first); rank++)
        if (cl_workers_failed(front, rank) && has_reason(front, rank) >= has_reason(front, first) &&
            cl_codes_of_status(front->workers[rank].end.status) == cl_codes_of_status(front->workers[first].end.status))
            return rank; /* all ranks had the same error; the lowest rank that reported it is named */
    return first;
}

static void judge(cl_front *front, int64_t now)
{
    front->first = find_cause(front);
    if (front->first < 0 || front->phase > CL_SETTLING)
        return;
    if (!front->failed) {
        front->failed = now;
        cl_nodes_tell(front, CL_LINK_PING, 0);
    }
    int status = front->workers[front->first].end.status;
    if (WIFSIGNALED(status))
        cl_front_stop(front, now);
    else if (front->phase != CL_SETTLING)
        cl_front_enter(front, CL_SETTLING, now + (cl_workers_explained(front, front->first) ? EXPLAIN : SETTLE));
}

/* ---- messages about ranks ---- */

static void end_worker(cl_front *front, int rank, const cl_message *message, int64_t now)
{
    cl_worker *worker = &front->workers[rank];
    if (worker->state == CL_WORKER_ENDED || message->length < sizeof worker->end)
        return;
    memcpy(&worker->end, message->bytes, sizeof worker->end);
    worker->state = CL_WORKER_ENDED;
    worker->ended = now - worker->end.age;
    /* a record that the rank sent while it was being ended has no meaning */
    if (!worker->end.stopped || !worker->beat_at) {
        worker->beat = worker->end.beat;
        worker->beat_at = now;
    }
    worker->tail = strndup(message->bytes + sizeof worker->end, message->length - sizeof worker->end);
    if (front->options->verbose)
        cl_output_say(&front->output, "cspeed: rank %d (pid %d) ended with %d", rank, worker->pid,
                      cl_codes_of_status(worker->end.status));
    judge(front, now);
}

static void start_worker(cl_front *front, int rank, const cl_message *message)
{
    cl_worker *worker = &front->workers[rank];
    if (worker->state != CL_WORKER_WAITING)
        return;
    worker->state = CL_WORKER_RUNNING;
    worker->pid = (pid_t)strtol(message->bytes, NULL, 10);
    if (front->options->verbose)
        cl_output_say(&front->output, "cspeed: rank %d is pid %d on %s", rank, worker->pid,
                      front->nodes[worker->node].host);
}

static void keep_stack(cl_front *front, int rank, const cl_message *message)
{
    cl_worker *worker = &front->workers[rank];
    free(worker->stack);
    worker->stack = strndup(message->bytes, message->length);
    cl_output_say(&front->output, "cspeed: C stack of rank %d (%s, pid %d):\n%s", rank, front->nodes[worker->node].host,
                  worker->pid, message->bytes);
}

void cl_workers_take(cl_front *front, int rank, const cl_message *message, int64_t now)
{
    bool error = message->kind == CL_LINK_ERROR;
    switch ((int)message->kind) {
    case CL_LINK_STARTED:
        start_worker(front, rank, message);
        break;
    case CL_LINK_OUTPUT:
    case CL_LINK_ERROR:
        cl_output_feed(&front->output, rank, error, message->bytes, message->length, now);
        front->nodes[front->workers[rank].node].shown += message->length;
        break;
    case CL_LINK_ENDED:
        end_worker(front, rank, message, now);
        break;
    case CL_LINK_STACKED:
        keep_stack(front, rank, message);
        break;
    default:
        break;
    }
}

/* Handles progress records. Records that ranks send while they are being ended have no meaning and are ignored. */
void cl_workers_take_beats(cl_front *front, const cl_message *message, int64_t now)
{
    if (front->failed && now > front->failed + SETTLE)
        return;
    for (size_t at = 0; at + sizeof(cl_link_beat) <= message->length; at += sizeof(cl_link_beat)) {
        cl_link_beat beat;
        memcpy(&beat, message->bytes + at, sizeof beat);
        if (beat.rank < 0 || beat.rank >= front->worker_count)
            continue;
        cl_worker *worker = &front->workers[beat.rank];
        if (worker->state != CL_WORKER_RUNNING)
            continue;
        worker->beat = beat;
        worker->heard_at = now;
        worker->beat_at = beat.age >= 0 ? now : worker->beat_at;
    }
}

int64_t cl_workers_kept(const cl_front *front)
{
    int64_t kept = 0;
    for (int rank = 0; rank < front->worker_count; rank++) {
        const cl_worker *worker = &front->workers[rank];
        kept = worker->beat.kept > kept ? worker->beat.kept : kept;
        kept = worker->end.beat.kept > kept ? worker->end.beat.kept : kept;
    }
    return kept ? kept : front->kept_before;
}

void cl_workers_write_off(cl_front *front, int index, int64_t now)
{
    for (int rank = 0; rank < front->worker_count; rank++) {
        cl_worker *worker = &front->workers[rank];
        if (worker->node != index || worker->state == CL_WORKER_ENDED)
            continue;
        worker->state = CL_WORKER_ENDED;
        worker->ended = now;
        worker->end =
            (cl_link_end){ .status = SIGKILL, .stopped = true, .oom_from = -1, .oom_to = -1, .beat = worker->beat };
    }
}
