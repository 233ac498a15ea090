/* stall.c - detects stalls (--stall_timeout), and reports which rank the others wait for. */
#include "front/stall.h"

#include "front/rank_position.h"

#include "base/must.h"

#include <stdlib.h>
#include <string.h>

int64_t cl_stall_age(const cl_front *front, int64_t now)
{
    int64_t min = INT64_MAX;
    for (int rank = 0; rank < front->worker_count; rank++) {
        const cl_worker *worker = &front->workers[rank];
        int64_t age = worker->state == CL_WORKER_RUNNING ? cl_rank_position_age(worker, now) : -1;
        if (age >= 0 && age < min)
            min = age;
    }
    return min;
}

static bool waits(const cl_worker *worker)
{
    char text[CL_RANK_POSITION_BYTES];
    return worker->state == CL_WORKER_RUNNING && cl_rank_position_waits(worker, text);
}

static int64_t step_of(const cl_worker *worker)
{
    return cl_rank_position_is_known(worker) ? cl_rank_position_beat(worker)->step : -1;
}

static bool is_halted(const cl_worker *worker)
{
    return worker->state == CL_WORKER_RUNNING && worker->beat.halted;
}

static bool same_place(const cl_worker *a, const cl_worker *b)
{
    const cl_link_beat *x = cl_rank_position_beat(a), *y = cl_rank_position_beat(b);
    return step_of(a) == step_of(b) && a->state == b->state && is_halted(a) == is_halted(b) && x->micro == y->micro &&
           x->phase == y->phase && x->unit == y->unit &&
           memcmp(x->collectives, y->collectives, sizeof x->collectives) == 0;
}

/* Returns true if rank `a` is at an earlier point of the training than rank `b`. */
static bool is_earlier(const cl_worker *a, const cl_worker *b)
{
    const cl_link_beat *x = cl_rank_position_beat(a), *y = cl_rank_position_beat(b);
    if (step_of(a) != step_of(b))
        return step_of(a) < step_of(b);
    if (x->micro != y->micro)
        return x->micro < y->micro;
    if (x->phase != y->phase)
        return x->phase < y->phase;
    return x->phase == CE_BEAT_BACKWARD ? x->unit > y->unit : x->unit < y->unit;
}

static int count_same(const cl_front *front, int rank)
{
    int count = 0;
    for (int i = 0; i < front->worker_count; i++)
        count += same_place(&front->workers[i], &front->workers[rank]);
    return count;
}

/* Returns true if rank `a` is more likely than rank `b` to be the rank that holds up the others. A stopped
 * process is the most likely, then a rank that waits in no collective, then a rank that shares its position with fewer ranks, then a rank at an earlier
 * point of the training. */
static bool is_more_suspect(const cl_front *front, int a, int b)
{
    const cl_worker *one = &front->workers[a], *other = &front->workers[b];
    if (is_halted(one) != is_halted(other))
        return is_halted(one);
    if (waits(one) != waits(other))
        return waits(other);
    int same_one = count_same(front, a), same_other = count_same(front, b);
    if (waits(one) && same_one != same_other)
        return same_one < same_other;
    return is_earlier(one, other);
}

int cl_stall_suspect(const cl_front *front)
{
    int count = front->worker_count, suspect = 0;
    bool differ = false;
    for (int rank = 1; rank < count; rank++) {
        differ |= !same_place(&front->workers[rank], &front->workers[0]);
        if (is_more_suspect(front, rank, suspect))
            suspect = rank;
    }
    return differ ? suspect : -1;
}

/* Prints why this rank is suspected, for example "it is at step 12, outside of collectives, while 7 others wait". */
static void print_reason(const cl_front *front, int suspect, FILE *out)
{
    const cl_worker *worker = &front->workers[suspect];
    char work[CL_RANK_POSITION_BYTES], collectives[CL_RANK_POSITION_BYTES];
    const char *comma = "";
    int others = 0;
    cl_rank_position_work(worker, work);
    cl_rank_position_waits(worker, collectives);
    if (*work)
        comma = ", ";
    for (int rank = 0; rank < front->worker_count; rank++)
        others += rank != suspect && waits(&front->workers[rank]);
    if (worker->state == CL_WORKER_ENDED)
        fprintf(out, "it has ended");
    else if (is_halted(worker))
        fprintf(out, "its process is stopped (SIGSTOP, or a debugger); `kill -CONT %d` continues it", worker->pid);
    else if (waits(worker))
        fprintf(out, "it waits in %s of step %ld%s%s", collectives, step_of(worker), comma, work);
    else if (step_of(worker) < 0)
        fprintf(out, "it has reported no step yet");
    else
        fprintf(out, "it is at step %ld%s%s, outside of collectives", step_of(worker), comma, work);
    if (others)
        fprintf(out, ", while %d other%s%s", others, others == 1 ? " waits" : "s wait",
                waits(worker) && !is_halted(worker) ? " elsewhere" : "");
    fputc('\n', out);
}

char *cl_stall_text(const cl_front *front, int64_t now)
{
    char *text = NULL;
    size_t length;
    int suspect = cl_stall_suspect(front);
    int64_t age = cl_stall_age(front, now);
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return strdup("");
    fprintf(out, "cspeed: no rank of job %s has made progress for %ld s\n", front->plan->id, age / CE_SECOND);
    cl_rank_position_table(front, "  ", "  ", -1, now, out);
    fprintf(out, "  ");
    if (suspect < 0) {
        fprintf(out, "all are at the same position: check the network between them, and the device\n");
    } else {
        cl_rank_position_name(front, suspect, out);
        fprintf(out, " blocks the others: ");
        print_reason(front, suspect, out);
    }
    fclose(out);
    return text;
}

/* ---- the time-out ---- */

static void ask_for_stack(cl_front *front, int rank)
{
    cl_link_send(&front->nodes[front->workers[rank].node].link, CL_LINK_STACK, (uint32_t)rank, NULL, 0);
}

static void report_stall(cl_front *front, int64_t now)
{
    int suspect = cl_stall_suspect(front);
    CE_FREED char *text = cl_stall_text(front, now);
    cl_output_say(&front->output, "%s", text);
    for (int rank = 0; rank < front->worker_count; rank++)
        if (rank == suspect || (suspect < 0 && rank == 0) || front->options->stall_action == CL_STALL_DUMP)
            ask_for_stack(front, rank);
}

void cl_stall_check(cl_stall_timer *timer, cl_front *front, int64_t now)
{
    int64_t limit = ce_clock_span(front->options->stall_timeout);
    int64_t age = limit > 0 && front->phase == CL_RUNNING ? cl_stall_age(front, now) : 0;
    if (age < limit || age == 0 || age == INT64_MAX) {
        *timer = (cl_stall_timer){ 0 };
        return;
    }
    if (!timer->said) {
        report_stall(front, now);
        timer->said = true;
        timer->kill_at = front->options->stall_action == CL_STALL_KILL ? now + CE_SECOND : 0;
    }
    if (timer->kill_at && now >= timer->kill_at) {
        front->stalled = true;
        cl_front_stop(front, now);
    }
}
